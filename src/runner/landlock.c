#include "enter/plan.h"
#include "runner/runner.h"

static const int exit_codes[] = {125};
static const char *const fatal[] = {"landlock-run: ", NULL};
static const char *const informational[] = {"landlock-run: partial enforcement (older Landlock ABI)", NULL};
static const char *const denial_signatures[] = {"permission denied", NULL};

const struct confine__failure_rule confine__landlock_rule = {exit_codes, 1, fatal, informational};

uint32_t confine__landlock_abi_gaps(int abi) {
  uint32_t gaps = 0;
  if (abi < 2)
    gaps |= CONFINE_GAP_REFER;
  if (abi < 3)
    gaps |= CONFINE_GAP_TRUNCATE;
  if (abi < 5)
    gaps |= CONFINE_GAP_DEVICES;
  return gaps;
}

static uint32_t gaps(const struct confine__host *host) {
  uint32_t gaps = confine__landlock_abi_gaps(host->landlock_abi);
  if (!host->supervisor)
    gaps |= CONFINE_GAP_METADATA | CONFINE_GAP_INHERITED_FD;
  if (!host->guard)
    gaps |= CONFINE_GAP_TERMINAL_INJECTION;
  return gaps;
}

void confine__landlock_words(const struct confine__host *host, const confine_policy *policy,
                             const struct confine__call *call, struct confine__argv *out) {
  static const char *const everywhere[] = {"--ro", "/", "--devices", NULL};
  confine__argv_add_all(out, everywhere);
  if (policy->mode == CONFINE_MODE_WORKSPACE_WRITE) {
    confine__argv_add(out, "--rw");
    confine__argv_add(out, "/tmp");
  }
  confine__launcher_words(host, policy, call, out);
  confine__argv_add(out, "--");
}

static void argv(const struct confine__host *host, const confine_policy *policy, const struct confine__call *call,
                 struct confine__argv *out) {
  confine__argv_add(out, host->landlock_run);
  confine__landlock_words(host, policy, call, out);
  confine__argv_add_all(out, call->argv);
}

const struct confine__runner confine__runner_landlock = {
    .id = CONFINE_RUNNER_LANDLOCK,
    .name = "landlock",
    /* Not process: other processes stay in sight in /proc. */
    .isolates = CONFINE_ISOLATE_NETWORK | CONFINE_ISOLATE_IPC,
    .denial_signatures = denial_signatures,
    .rules = &confine__landlock_rule,
    .rule_count = 1,
    .gaps = gaps,
    .argv = argv,
    .plan_flags = confine__common_plan_flags,
};
