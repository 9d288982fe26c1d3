#include "enter/plan.h"
#include "runner/runner.h"

static const int exit_codes[] = {125};
static const char *const fatal[] = {"namespace-run: ", NULL};
static const char *const informational[] = {NULL};
static const char *const denial_signatures[] = {"read-only file system", "permission denied", NULL};
static const struct confine__failure_rule rules[] = {{exit_codes, 1, fatal, informational}};

static uint32_t gaps(const struct confine__host *host) {
  uint32_t gaps = 0;
  if (!host->supervisor || host->landlock_abi < 3)
    gaps |= CONFINE_GAP_INHERITED_FD;
  if (!host->guard)
    gaps |= CONFINE_GAP_TERMINAL_INJECTION;
  /* What only Landlock inside closes: writing to FIFOs of outside programs, and into their /proc. */
  if (host->landlock_abi < 1)
    gaps |= CONFINE_GAP_PROC | CONFINE_GAP_DEVICES;
  return gaps;
}

static void argv(const struct confine__host *host, const confine_policy *policy, const struct confine__call *call,
                 struct confine__argv *out) {
  confine__argv_add(out, host->namespace_run);
  confine__argv_add(out, "--mode");
  confine__argv_add(out, confine_mode_name(policy->mode));
  confine__launcher_words(host, policy, call, out);
  confine__argv_add(out, "--");
  confine__argv_add_all(out, call->argv);
}

static uint32_t plan_flags(const struct confine__host *host, const confine_policy *policy) {
  uint32_t flags = confine__common_plan_flags(host, policy) | CONFINE__PLAN_MOUNTS;
  if (!host->landlock_abi)
    flags &= ~(uint32_t)CONFINE__PLAN_LANDLOCK;
  return flags;
}

const struct confine__runner confine__runner_namespace = {
    .id = CONFINE_RUNNER_NAMESPACE,
    .name = "namespace",
    .isolates = CONFINE_ISOLATE_NETWORK | CONFINE_ISOLATE_PROCESS | CONFINE_ISOLATE_IPC,
    .denial_signatures = denial_signatures,
    .rules = rules,
    .rule_count = 1,
    .gaps = gaps,
    .argv = argv,
    .plan_flags = plan_flags,
};
