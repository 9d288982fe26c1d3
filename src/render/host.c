#include "base/error.h"
#include "render/json.h"

#include <confine/provider.h>

#include <string.h>
#include <sys/utsname.h>

static json_t *runner(const confine_runner_report *entry) {
  return json_pack("{s:s, s:b, s:o, s:o, s:o, s:o, s:o, s:o}", "name", confine_runner_name(entry->runner), "usable",
                   entry->usable, "enforcement", confine__json_bytes(confine_enforcement_name(entry->enforcement)),
                   "gaps", confine__json_bits(entry->gaps, confine_gap_name), "path", confine__json_bytes(entry->path),
                   "version", confine__json_bytes(entry->version), "reason", confine__json_bytes(entry->reason),
                   "repair", confine__json_bytes(entry->repair));
}

/* Fills the lists of names and of verdicts, in chain order. */
static int runners(const confine_host_report *report, json_t *chain, json_t *verdicts) {
  int r = chain && verdicts ? 0 : -1;
  for (size_t i = 0; r == 0 && i < confine_host_report_count(report); i++) {
    confine_runner_report entry = {.size = sizeof entry};
    r = confine_host_report_entry(report, i, &entry);
    if (r == 0)
      r = json_array_append_new(chain, json_string(confine_runner_name(entry.runner)));
    if (r == 0)
      r = json_array_append_new(verdicts, runner(&entry));
  }
  return r;
}

int confine_host_report_json(const confine_host_report *report, char **ret_json, confine_error *error) {
  struct utsname host;
  json_t *chain = json_array(), *verdicts = json_array();
  char *line = NULL;
  if (uname(&host) != 0)
    memset(&host, 0, sizeof host);
  if (runners(report, chain, verdicts) == 0)
    line = confine__json_line(json_pack(
        "{s:s, s:s, s:s, s:i, s:O, s:o, s:O}", "schema", "confine.doctor/1", "platform", "linux", "kernel",
        host.release, "landlockAbi", confine_host_report_landlock_abi(report), "chain", chain, "selected",
        confine__json_bytes(confine_runner_name(confine_host_report_selected(report))), "runners", verdicts));
  json_decref(chain);
  json_decref(verdicts);
  if (!line)
    return confine__error_memory(error);
  *ret_json = line;
  return 0;
}
