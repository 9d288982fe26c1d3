#include "render/json.h"
#include "run/result.h"


static json_t *failure(const confine_result *result) {
  if (!result->failed_step)
    return json_null();
  return json_pack("{s:s, s:o, s:s}", "step", result->failed_step, "detail",
                   confine__json_bytes(result->failure_detail), "evidence", result->failure_evidence);
}

static json_t *notices(const confine_result *result) {
  json_t *array = json_array();
  for (size_t i = 0; i < result->notice_count; i++)
    json_array_append_new(array, json_pack("{s:s, s:o}", "code", result->notices[i].code, "text",
                                           confine__json_bytes(result->notices[i].text)));
  return array;
}

static json_t *name_or_null(const char *name) {
  return name ? json_string(name) : json_null();
}

int confine__result_render(confine_result *result) {
  const char *const *roots = (const char *const *)result->roots;
  json_t *record = json_pack(
      "{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:o, s:o, s:o, s:b, s:b, s:s, s:[], s:i, s:o, s:f}", "schema",
      "confine.result/1", "mode", confine_mode_name(result->mode), "workspaceRoot",
      confine__json_bytes(result->workspace), "writableRoots", confine__json_words(roots), "runner",
      name_or_null(confine_runner_name(result->runner)), "enforcement",
      name_or_null(confine_enforcement_name(result->enforcement)), "gaps",
      confine__json_bits(result->gaps, confine_gap_name), "openChannels",
      confine__json_bits(result->open_channels, confine_channel_name), "started", result->started, "runnerFailure",
      failure(result), "exitCode", result->exit_code < 0 ? json_null() : json_integer(result->exit_code), "signal",
      name_or_null(confine_result_signal_name(result)), "timedOut", result->timed_out, "denied", 0, "denialEvidence",
      "none", "denials", "denialsDropped", 0, "notices", notices(result), "durationMs", result->duration_ms);
  result->json = confine__json_line(record);
  return result->json ? 0 : CONFINE_ENOMEM;
}
