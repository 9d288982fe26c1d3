#include "runner/runner.h"

/* What it enforces is the operator's assertion; nothing is known of its dialect, so both Linux ones. */
static const char *const denial_signatures[] = {"read-only file system", "permission denied", NULL};

static uint32_t gaps(const struct confine__host *host) {
  (void)host;
  return 0;
}

static void argv(const struct confine__host *host, const confine_policy *policy, const struct confine__call *call,
                 struct confine__argv *out) {
  confine__argv_add_all(out, host->runner_command);
  confine__bwrap_base_profile(policy, out);
  confine__argv_add(out, "--");
  confine__argv_add_all(out, call->argv);
}

/* Its only rule is made from the configured signatures, by the provider. */
const struct confine__runner confine__runner_custom = {
    .id = CONFINE_RUNNER_CUSTOM,
    .name = "custom",
    .denial_signatures = denial_signatures,
    .gaps = gaps,
    .argv = argv,
};
