#include "base/error.h"
#include "provider/internal.h"

#include <stdlib.h>

#define RULES_MAX 4

struct confine_wrapped {
  struct confine__argv argv;
  const struct confine__runner *runner; /* NULL: not confined */
  uint32_t gaps, open_channels;
  struct confine__argv custom_signatures; /* the only strings that are not the runner's own constants */
  struct confine__failure_rule rules[RULES_MAX];
  size_t rule_count;
};

static const char *const no_words[] = {NULL};

static int argv_error(const struct confine__argv *argv, confine_error *error) {
  if (argv->failed == CONFINE_ELIMIT)
    return confine__error(error, CONFINE_ELIMIT, "the command has more than %d words", CONFINE__ARGV_MAX);
  return argv->failed ? confine__error_memory(error) : 0;
}

static int copy_rules(confine_wrapped *wrapped, const struct confine__host *host) {
  const struct confine__runner *runner = wrapped->runner;
  for (size_t i = 0; i < runner->rule_count && i < RULES_MAX; i++)
    wrapped->rules[wrapped->rule_count++] = runner->rules[i];
  if (runner->id != CONFINE_RUNNER_CUSTOM)
    return 0;
  confine__argv_add_all(&wrapped->custom_signatures, host->runner_failure_signatures);
  wrapped->rules[wrapped->rule_count++] = (struct confine__failure_rule){
      .fatal = (const char *const *)wrapped->custom_signatures.words, .informational = no_words};
  return wrapped->custom_signatures.failed;
}

int confine__provider_wrap(confine_provider *provider, const struct confine__runner *runner,
                           const struct confine__call *call, const confine_policy *policy,
                           confine_wrapped **ret_wrapped, confine_error *error) {
  const struct confine__host *host = confine__provider_host(provider);
  int r = confine__provider_check(provider, runner, policy, 0, error);
  if (r < 0)
    return r;
  confine_wrapped *wrapped = calloc(1, sizeof *wrapped);
  if (!wrapped)
    return confine__error_memory(error);
  wrapped->runner = runner;
  wrapped->gaps = runner->gaps(host);
  /* Whoever spawns it may hand it a terminal. */
  wrapped->open_channels = confine__open_channels(policy, 1);
  runner->argv(host, policy, call, &wrapped->argv);
  r = argv_error(&wrapped->argv, error);
  if (r == 0 && copy_rules(wrapped, host) != 0)
    r = confine__error_memory(error);
  if (r < 0) {
    confine_wrapped_free(wrapped);
    return r;
  }
  *ret_wrapped = wrapped;
  return 0;
}

static int unconfined(const char *const *argv, const confine_policy *policy, confine_wrapped **ret_wrapped,
                      confine_error *error) {
  confine_wrapped *wrapped = calloc(1, sizeof *wrapped);
  if (!wrapped)
    return confine__error_memory(error);
  wrapped->open_channels = confine__open_channels(policy, 1);
  confine__argv_add_all(&wrapped->argv, argv);
  int r = argv_error(&wrapped->argv, error);
  if (r < 0) {
    confine_wrapped_free(wrapped);
    return r;
  }
  *ret_wrapped = wrapped;
  return 0;
}

int confine_provider_confine(confine_provider *provider, const char *const *argv, const confine_policy *policy,
                             confine_wrapped **ret_wrapped, confine_error *error) {
  const struct confine__call call = {.argv = argv, .status_fd = -1};
  confine_runner runner;
  if (!argv || !argv[0])
    return confine__error(error, CONFINE_EINVAL, "there is no command to confine");
  if (!policy)
    return confine__error(error, CONFINE_EINVAL, "there is no policy to confine the command by");
  if (policy->mode == CONFINE_MODE_DANGER_FULL_ACCESS)
    return unconfined(argv, policy, ret_wrapped, error);
  if (!provider)
    return confine__error(error, CONFINE_EINVAL, "there is no provider to confine the command with");
  int r = confine_provider_select(provider, policy->mode, &runner, error);
  if (r < 0)
    return r;
  return confine__provider_wrap(provider, confine__runner_find(runner), &call, policy, ret_wrapped, error);
}

void confine_wrapped_free(confine_wrapped *wrapped) {
  if (!wrapped)
    return;
  confine__argv_release(&wrapped->argv);
  confine__argv_release(&wrapped->custom_signatures);
  free(wrapped);
}

const char *const *confine_wrapped_argv(const confine_wrapped *wrapped) {
  return (const char *const *)wrapped->argv.words;
}

confine_runner confine_wrapped_runner(const confine_wrapped *wrapped) {
  return wrapped->runner ? wrapped->runner->id : CONFINE_RUNNER_NONE;
}

confine_enforcement confine_wrapped_enforcement(const confine_wrapped *wrapped) {
  return wrapped->runner ? confine__enforcement_of(wrapped->gaps) : CONFINE_ENFORCEMENT_NONE;
}

uint32_t confine_wrapped_gaps(const confine_wrapped *wrapped) {
  return wrapped->gaps;
}

uint32_t confine_wrapped_open_channels(const confine_wrapped *wrapped) {
  return wrapped->open_channels;
}

const char *const *confine_wrapped_denial_signatures(const confine_wrapped *wrapped) {
  return wrapped->runner ? wrapped->runner->denial_signatures : no_words;
}

size_t confine_wrapped_failure_rule_count(const confine_wrapped *wrapped) {
  return wrapped->rule_count;
}

int confine_wrapped_failure_rule(const confine_wrapped *wrapped, size_t index, confine_failure_rule *ret_rule) {
  if (index >= wrapped->rule_count || ret_rule->size != sizeof *ret_rule)
    return CONFINE_EINVAL;
  const struct confine__failure_rule *rule = &wrapped->rules[index];
  ret_rule->allowed_exit_codes = rule->exit_codes;
  ret_rule->allowed_exit_code_count = rule->exit_code_count;
  ret_rule->fatal_signatures = rule->fatal;
  ret_rule->informational_lines = rule->informational;
  return 0;
}
