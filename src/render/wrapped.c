#include "base/error.h"
#include "render/json.h"

#include <confine/provider.h>

static json_t *exit_codes(const confine_failure_rule *rule) {
  json_t *array = json_array();
  for (size_t i = 0; array && i < rule->allowed_exit_code_count; i++)
    if (json_array_append_new(array, json_integer(rule->allowed_exit_codes[i])) != 0) {
      json_decref(array);
      return NULL;
    }
  return array;
}

static json_t *failure_rule(const confine_failure_rule *rule) {
  json_t *object = json_object();
  int r = object ? 0 : -1;
  if (r == 0 && rule->allowed_exit_codes)
    r = json_object_set_new(object, "allowedExitCodes", exit_codes(rule));
  if (r == 0)
    r = json_object_set_new(object, "fatalSignatures", confine__json_words(rule->fatal_signatures));
  if (r == 0)
    r = json_object_set_new(object, "informationalLines", confine__json_words(rule->informational_lines));
  if (r == 0)
    return object;
  json_decref(object);
  return NULL;
}

static json_t *failure_rules(const confine_wrapped *wrapped) {
  json_t *array = json_array();
  for (size_t i = 0; array && i < confine_wrapped_failure_rule_count(wrapped); i++) {
    confine_failure_rule rule = {.size = sizeof rule};
    if (confine_wrapped_failure_rule(wrapped, i, &rule) != 0 ||
        json_array_append_new(array, failure_rule(&rule)) != 0) {
      json_decref(array);
      return NULL;
    }
  }
  return array;
}

int confine_wrapped_json(const confine_wrapped *wrapped, char **ret_json, confine_error *error) {
  char *line = confine__json_line(json_pack(
      "{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "schema", "confine.wrap/1", "argv",
      confine__json_words(confine_wrapped_argv(wrapped)), "runner",
      confine__json_bytes(confine_runner_name(confine_wrapped_runner(wrapped))), "enforcement",
      confine__json_bytes(confine_enforcement_name(confine_wrapped_enforcement(wrapped))), "gaps",
      confine__json_bits(confine_wrapped_gaps(wrapped), confine_gap_name), "openChannels",
      confine__json_bits(confine_wrapped_open_channels(wrapped), confine_channel_name), "denialSignatures",
      confine__json_words(confine_wrapped_denial_signatures(wrapped)), "runnerFailureRules", failure_rules(wrapped)));
  if (!line)
    return confine__error_memory(error);
  *ret_json = line;
  return 0;
}
