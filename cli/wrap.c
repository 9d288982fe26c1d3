#include "cli.h"
#include "options.h"

#include <stdio.h>
#include <stdlib.h>

static int print(const confine_wrapped *wrapped) {
  confine_error error = CONFINE_ERROR_INIT;
  char *json = NULL;
  if (confine_wrapped_json(wrapped, &json, &error) < 0)
    return cli_refuse_error(&error);
  puts(json);
  free(json);
  return 0;
}

/* The same sentence as run's, since the way out is the same. */
static int refuse_partial(const confine_wrapped *wrapped) {
  char words[256] = "";
  size_t length = 0;
  uint32_t gaps = confine_wrapped_gaps(wrapped);
  for (uint32_t bit = 1; bit; bit <<= 1)
    if ((gaps & bit) && confine_gap_name(bit) && length < sizeof words)
      length += (size_t)snprintf(words + length, sizeof words - length, "%s%s", length ? ", " : "",
                                 confine_gap_name(bit));
  return cli_refuse("full enforcement is required, but the %s runner's is partial here (gaps: %s); see `confine "
                    "doctor`, or leave out --require full",
                    confine_runner_name(confine_wrapped_runner(wrapped)), words);
}

int cli_wrap(int argc, char **argv) {
  struct cli_options options;
  confine_provider *provider = NULL;
  confine_policy *policy = NULL;
  confine_wrapped *wrapped = NULL;
  confine_runner runner = CONFINE_RUNNER_NONE;
  confine_error error = CONFINE_ERROR_INIT;
  int status = cli_options_parse(CLI_WRAP, argc, argv, &options);
  if (status <= 0)
    return status == 0 ? 0 : CLI_REFUSED;
  status = cli_options_apply(&options, &provider, &policy, &runner);
  if (status == 0 && confine_provider_confine(provider, options.command, policy, &wrapped, &error) < 0)
    status = cli_refuse_error(&error);
  if (status == 0 && options.require_full && confine_wrapped_enforcement(wrapped) == CONFINE_ENFORCEMENT_PARTIAL)
    status = refuse_partial(wrapped);
  if (status == 0)
    status = print(wrapped);
  confine_wrapped_free(wrapped);
  confine_policy_free(policy);
  confine_provider_free(provider);
  cli_options_release(&options);
  return status;
}
