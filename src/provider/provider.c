#include "provider/provider.h"
#include "base/error.h"
#include "provider/internal.h"

#include <stdlib.h>
#include <string.h>

int confine_provider_new(const confine_settings *settings, confine_provider **ret_provider, confine_error *error) {
  static const confine_settings by_default = CONFINE_SETTINGS_INIT;
  if (!settings)
    settings = &by_default;
  if (settings->size != sizeof *settings)
    return confine__error(error, CONFINE_EINVAL, "settings of %u bytes are not of this library's version; use "
                                                 "CONFINE_SETTINGS_INIT", (unsigned)settings->size);
  confine_provider *provider = calloc(1, sizeof *provider);
  if (!provider)
    return confine__error_memory(error);
  pthread_mutex_init(&provider->lock, NULL);
  pthread_mutex_init(&provider->look, NULL);
  int r = confine__settings_copy(provider, settings, error);
  if (r == 0)
    r = confine__snapshot_take(provider, 0, error);
  if (r < 0) {
    confine_provider_free(provider);
    return r;
  }
  *ret_provider = provider;
  return 0;
}

void confine_provider_free(confine_provider *provider) {
  if (!provider)
    return;
  confine__snapshot_free_all(provider);
  confine__argv_release(&provider->runner_command);
  confine__argv_release(&provider->signatures);
  free(provider->launcher_directory);
  free(provider->verdicts);
  pthread_mutex_destroy(&provider->lock);
  pthread_mutex_destroy(&provider->look);
  free(provider);
}

void confine_provider_probe_again(confine_provider *provider) {
  pthread_mutex_lock(&provider->lock);
  free(provider->verdicts);
  provider->verdicts = NULL;
  atomic_store(&provider->selected, CONFINE_RUNNER_NONE);
  confine__snapshot_take(provider, 1, NULL); /* without memory, what is known stays */
  pthread_mutex_unlock(&provider->lock);
}

const struct confine__host *confine__provider_host(confine_provider *provider) {
  return &atomic_load(&provider->snapshot)->host;
}

const confine_runner *confine__provider_chain(const confine_provider *provider, size_t *ret_count) {
  *ret_count = provider->chain_length;
  return provider->chain;
}

struct confine__verdict *confine__verdicts(confine_provider *provider) {
  if (!provider->verdicts)
    provider->verdicts = calloc(CONFINE__RUNNERS, sizeof *provider->verdicts);
  return provider->verdicts;
}

/* With the lock held. 0 with the verdict known, or an error, which is not remembered. */
static int probe_locked(confine_provider *provider, confine_runner runner, const struct confine__verdict **ret_verdict,
                        confine_error *error) {
  struct confine__verdict *verdicts = confine__verdicts(provider);
  if (!verdicts) {
    confine__error_memory(error);
    return CONFINE_ENOMEM;
  }
  struct confine__verdict *verdict = &verdicts[runner];
  if (!verdict->known) {
    struct confine__probe probe;
    int r = confine__probe_begin(provider, runner, &probe, error);
    if (r < 0)
      return r;
    confine__probe_end(provider, &probe);
    *verdict = probe.verdict;
  }
  *ret_verdict = verdict;
  return 0;
}

static int refuse_runner(const struct confine__verdict *verdict, confine_runner runner, confine_error *error) {
  return confine__error(error, CONFINE_EUNAVAILABLE, "runner %s cannot be used: %s%s%s", confine_runner_name(runner),
                        verdict->reason, *verdict->repair ? "; to repair: " : "", verdict->repair);
}

int confine__provider_probe(confine_provider *provider, confine_runner runner, confine_error *error) {
  const struct confine__verdict *verdict = NULL;
  if (!confine_runner_name(runner))
    return confine__error(error, CONFINE_EINVAL, "%d is no runner", (int)runner);
  pthread_mutex_lock(&provider->lock);
  int r = probe_locked(provider, runner, &verdict, error);
  if (r == 0 && !verdict->usable)
    r = refuse_runner(verdict, runner, error);
  pthread_mutex_unlock(&provider->lock);
  return r;
}

/* With the lock held. */
static int select_locked(confine_provider *provider, confine_mode mode, confine_runner *ret_runner,
                         confine_error *error) {
  struct confine__verdict sole;
  const struct confine__snapshot *snapshot;
  if (provider->chain_length == 1) {
    int r = confine__snapshot_full(provider, &snapshot, error);
    if (r < 0)
      return r;
    if (confine__runner_missing(snapshot, provider->chain[0], &sole))
      return confine__unavailable(error, mode, sole.reason);
    *ret_runner = provider->chain[0];
    return 0;
  }
  for (size_t i = 0; i < provider->chain_length; i++) {
    const struct confine__verdict *verdict = NULL;
    int r = probe_locked(provider, provider->chain[i], &verdict, error);
    if (r < 0)
      return r;
    if (verdict->usable) {
      *ret_runner = provider->chain[i];
      return 0;
    }
  }
  return confine__unavailable(error, mode, NULL);
}

int confine_provider_select(confine_provider *provider, confine_mode mode, confine_runner *ret_runner,
                            confine_error *error) {
  confine_runner runner = (confine_runner)atomic_load(&provider->selected);
  if (mode != CONFINE_MODE_READ_ONLY && mode != CONFINE_MODE_WORKSPACE_WRITE)
    return confine__error(error, CONFINE_EINVAL, "no runner is chosen for a mode that does not confine");
  if (runner == CONFINE_RUNNER_NONE) {
    pthread_mutex_lock(&provider->lock);
    int r = select_locked(provider, mode, &runner, error);
    if (r == 0)
      atomic_store(&provider->selected, (int)runner);
    pthread_mutex_unlock(&provider->lock);
    if (r < 0)
      return r;
  }
  *ret_runner = runner;
  return 0;
}

int confine__unavailable(confine_error *error, confine_mode mode, const char *detail) {
  const char *name = confine_mode_name(mode);
  return confine__error(
      error, CONFINE_EUNAVAILABLE,
      "sandbox mode \"%s\" is requested but no sandbox backend is usable on this host; refusing to run the command "
      "unconfined. Install bubblewrap or run a Landlock-enforcing kernel (Linux), ensure sandbox-exec is usable "
      "(macOS), or ensure the ACL restricted-token runner can start (Windows) \xe2\x80\x94 otherwise switch the "
      "consumer to danger-full-access.%s%s",
      name ? name : "?", detail ? " Runner failure: " : "", detail ? detail : "");
}

void confine_unavailable_text(confine_mode mode, const char *detail, confine_error *error) {
  confine__unavailable(error, mode, detail);
}

static const char *could_isolate(uint32_t isolation) {
  for (int id = 1; id < CONFINE__RUNNERS; id++) {
    const struct confine__runner *runner = confine__runner_find((confine_runner)id);
    if (runner && !(isolation & ~runner->isolates))
      return runner->name;
  }
  return "no runner of this system";
}

static int check_isolation(const struct confine__runner *runner, const confine_policy *policy, confine_error *error) {
  uint32_t lacking = policy->isolation & ~runner->isolates;
  if (!lacking)
    return 0;
  return confine__error(error, CONFINE_EUNSUPPORTED, "runner %s cannot isolate%s%s%s; %s can", runner->name,
                        lacking & CONFINE_ISOLATE_NETWORK ? " network" : "",
                        lacking & CONFINE_ISOLATE_PROCESS ? " process" : "",
                        lacking & CONFINE_ISOLATE_IPC ? " ipc" : "", could_isolate(policy->isolation));
}

int confine__provider_check(confine_provider *provider, const struct confine__runner *runner,
                            const confine_policy *policy, int direct, confine_error *error) {
  const struct confine__snapshot *snapshot = NULL;
  struct confine__verdict missing;
  if (policy->mode != CONFINE_MODE_READ_ONLY && policy->mode != CONFINE_MODE_WORKSPACE_WRITE)
    return confine__error(error, CONFINE_EINVAL, "the policy does not confine");
  if (policy->mode == CONFINE_MODE_WORKSPACE_WRITE && !policy->workspace.path)
    return confine__error(error, CONFINE_EINVAL, "the policy has no workspace");
  int r = check_isolation(runner, policy, error);
  const char *exposed = confine__policy_exposed(policy, confine__leaves_host_tmp(runner->id));
  if (r == 0 && exposed)
    r = confine__error(error, CONFINE_EPATH,
                       "%s decides about this call, but the policy makes it writable under the runner %s; put it "
                       "elsewhere or narrow the writable roots",
                       exposed, runner->name);
  if (r == 0 && !direct)
    r = confine__snapshot_full(provider, &snapshot, error);
  if (r < 0 || direct)
    return r;
  if (confine__runner_missing(snapshot, runner->id, &missing))
    return confine__unavailable(error, policy->mode, missing.reason);
  exposed = confine__runner_exposed(snapshot, runner->id, policy);
  if (exposed)
    return confine__error(error, CONFINE_EPATH,
                          "%s belongs to the runner %s, but the policy makes it writable; install it elsewhere, use "
                          "another runner or narrow the writable roots",
                          exposed, runner->name);
  return 0;
}

confine_enforcement confine__enforcement_of(uint32_t gaps) {
  return gaps ? CONFINE_ENFORCEMENT_PARTIAL : CONFINE_ENFORCEMENT_FULL;
}

uint32_t confine__open_channels(const confine_policy *policy, int has_terminal) {
  uint32_t open = CONFINE_CHANNEL_IPC | CONFINE_CHANNEL_NETWORK | CONFINE_CHANNEL_PROCESS;
  if (policy->isolation & CONFINE_ISOLATE_IPC)
    open &= ~(uint32_t)CONFINE_CHANNEL_IPC;
  if (policy->isolation & CONFINE_ISOLATE_NETWORK)
    open &= ~(uint32_t)CONFINE_CHANNEL_NETWORK;
  if (policy->isolation & CONFINE_ISOLATE_PROCESS)
    open &= ~(uint32_t)CONFINE_CHANNEL_PROCESS;
  return has_terminal ? open | CONFINE_CHANNEL_TERMINAL : open;
}
