#include "base/error.h"
#include "policy/config.h"
#include "provider/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PROBE_TIMEOUT_MS 5000
/* A day: past any use, and far from overflow. */
#define PROBE_TIMEOUT_MAX_MS 86400000.0

static int refuse(confine_error *error, const char *text) {
  return confine__error(error, CONFINE_ECONFIG, "%s", text);
}

static int is_signature(const char *text) {
  return text[strspn(text, " \t")] != '\0' && !strpbrk(text, "\n\r");
}

static int copy_words(struct confine__argv *out, const char *const *words, size_t limit, const char *what,
                      confine_error *error) {
  for (; *words; words++) {
    if (out->count == limit)
      return confine__error(error, CONFINE_ELIMIT, "%s has more than %zu entries", what, limit);
    if (strlen(*words) > CONFINE_SETTING_MAX)
      return confine__error(error, CONFINE_ELIMIT, "an entry of %s is longer than %d bytes", what,
                            CONFINE_SETTING_MAX);
    confine__argv_add(out, *words);
  }
  return out->failed ? confine__error_memory(error) : 0;
}

static int check_custom(const confine_settings *settings, confine_error *error) {
  const char *const *command = settings->runner_command, *const *signatures = settings->runner_failure_signatures;
  if (!command)
    return signatures ? refuse(error, "sandbox-local: runnerFailureSignatures requires runnerCommand") : 0;
  if (!signatures || !signatures[0])
    return refuse(error, "sandbox-local: runnerCommand requires at least one runnerFailureSignatures entry");
  for (size_t i = 0; signatures[i]; i++)
    if (!is_signature(signatures[i]))
      return refuse(error, "sandbox-local: runnerFailureSignatures entries must be non-empty single-line strings");
  if (!command[0] || command[0][0] != '/')
    return refuse(error, "sandbox-local: runnerCommand must begin with the absolute path of a program");
  return 0;
}

static int copy_chain(confine_provider *provider, const confine_settings *settings, confine_error *error) {
  static const confine_runner platform[] = {CONFINE_RUNNER_NAMESPACE, CONFINE_RUNNER_BWRAP,
                                            CONFINE_RUNNER_LANDLOCK};
  const confine_runner *chain = settings->chain ? settings->chain : platform;
  size_t length = settings->chain ? settings->chain_length : sizeof platform / sizeof platform[0];
  unsigned seen = 0;
  if (!length)
    return refuse(error, "chain names no runner");
  for (size_t i = 0; i < length; i++) {
    const char *name = confine_runner_name(chain[i]);
    if (!name)
      return confine__error(error, CONFINE_ECONFIG, "chain: %d is no runner", (int)chain[i]);
    if (chain[i] == CONFINE_RUNNER_CUSTOM && !settings->runner_command)
      return refuse(error, "chain: the runner custom needs a runnerCommand");
    if (seen & 1u << chain[i])
      return confine__error(error, CONFINE_ECONFIG, "chain names %s twice", name);
    seen |= 1u << chain[i];
    provider->chain[i] = chain[i];
  }
  provider->chain_length = length;
  if (settings->runner_command) {
    provider->chain[0] = CONFINE_RUNNER_CUSTOM;
    provider->chain_length = 1;
  }
  return 0;
}

static int copy_timeout(confine_provider *provider, double timeout, confine_error *error) {
  if (!isfinite(timeout) || timeout < 0)
    return refuse(error, CONFINE__PROBE_TIMEOUT_TEXT);
  if (timeout == 0)
    timeout = PROBE_TIMEOUT_MS;
  provider->probe_timeout_ms = (int64_t)(timeout < PROBE_TIMEOUT_MAX_MS ? timeout : PROBE_TIMEOUT_MAX_MS);
  if ((double)provider->probe_timeout_ms < timeout && timeout < PROBE_TIMEOUT_MAX_MS)
    provider->probe_timeout_ms++;
  return 0;
}

int confine__settings_copy(confine_provider *provider, const confine_settings *settings, confine_error *error) {
  int r = check_custom(settings, error);
  if (r == 0)
    r = copy_timeout(provider, settings->probe_timeout_ms, error);
  if (r == 0)
    r = copy_chain(provider, settings, error);
  if (r == 0 && settings->runner_command)
    r = copy_words(&provider->runner_command, settings->runner_command, CONFINE_RUNNER_COMMAND_MAX, "runnerCommand",
                   error);
  if (r == 0 && settings->runner_failure_signatures)
    r = copy_words(&provider->signatures, settings->runner_failure_signatures, CONFINE_SIGNATURES_MAX,
                   "runnerFailureSignatures", error);
  if (r < 0 || !settings->launcher_directory)
    return r;
  if (settings->launcher_directory[0] != '/')
    return refuse(error, "the launcher directory must be an absolute path");
  provider->launcher_directory = strdup(settings->launcher_directory);
  return provider->launcher_directory ? 0 : confine__error_memory(error);
}
