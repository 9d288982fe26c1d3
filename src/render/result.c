#include "base/error.h"
#include "render/json.h"
#include "run/result.h"

#include <errno.h>


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

static const char *errno_name(int number) {
  switch (number) {
  case EROFS: return "EROFS";
  case EACCES: return "EACCES";
  case EXDEV: return "EXDEV";
  default: return "EPERM";
  }
}

static json_t *denials(const confine_result *result) {
  json_t *array = json_array();
  for (size_t i = 0; i < confine_result_denial_count(result); i++) {
    confine_denial denial = {.size = sizeof denial};
    confine_result_denial(result, i, &denial);
    json_array_append_new(array, json_pack("{s:s, s:o, s:s, s:i, s:o, s:I}", "op",
                                           confine_operation_name(denial.operation), "path",
                                           confine__json_bytes(denial.path), "errno",
                                           errno_name(denial.system_errno), "pid", (int)denial.pid, "comm",
                                           confine__json_bytes(denial.comm), "count", (json_int_t)denial.count));
  }
  return array;
}

static json_t *name_or_null(const char *name) {
  return name ? json_string(name) : json_null();
}

int confine_result_json(const confine_result *result, char **ret_json, confine_error *error) {
  const char *const *roots = (const char *const *)result->roots;
  json_t *record = json_pack(
      "{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:o, s:o, s:o, s:b, s:b, s:s, s:o, s:I, s:o, s:f}", "schema",
      "confine.result/1", "mode", confine_mode_name(result->mode), "workspaceRoot",
      confine__json_bytes(result->workspace), "writableRoots", confine__json_words(roots), "runner",
      name_or_null(confine_runner_name(result->runner)), "enforcement",
      name_or_null(confine_enforcement_name(result->enforcement)), "gaps",
      confine__json_bits(result->gaps, confine_gap_name), "openChannels",
      confine__json_bits(result->open_channels, confine_channel_name), "started", result->started, "runnerFailure",
      failure(result), "exitCode", result->exit_code < 0 ? json_null() : json_integer(result->exit_code), "signal",
      name_or_null(confine_result_signal_name(result)), "timedOut", result->timed_out, "denied",
      confine_result_denied(result), "denialEvidence", result->observed ? "observer" : "none", "denials",
      denials(result), "denialsDropped", (json_int_t)confine_result_denials_dropped(result), "notices",
      notices(result), "durationMs", result->duration_ms);
  char *line = confine__json_line(record);
  if (!line)
    return confine__error_memory(error);
  *ret_json = line;
  return 0;
}
