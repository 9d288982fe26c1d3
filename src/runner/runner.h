/*
 * The runners. Each has a pure half, built and golden-tested on every system: what the host offers and
 * a policy in, an argument list (wrapped form) or a plan (direct form) out; and a host half, which finds
 * programs and probes.
 */
#ifndef CONFINE_RUNNER_RUNNER_H
#define CONFINE_RUNNER_RUNNER_H

#include "base/argv.h"
#include "policy/policy.h"

#include <confine/provider.h>

struct confine__plan;
struct confine__root;

/* What a profile needs to know about the host; filled by the provider, or by a golden test. */
struct confine__host {
  int landlock_abi;          /* 0: none */
  int mounts_without_userns; /* the caller may mount: no user namespace is needed */
  int guard;                 /* the system call guard is available */
  int supervisor;            /* metadata calls are governed by a supervisor */
  const char *landlock_run;  /* absolute paths, or NULL */
  const char *namespace_run;
  const char *bwrap;
  const char *const *runner_command;
  const char *const *runner_failure_signatures;
};

/* What differs between two calls under one policy. */
struct confine__call {
  const char *const *argv;
  int observe;   /* report refused writes over it */
  int status_fd; /* channel for the inner launcher, or -1 */
  int keep_background;
};

struct confine__failure_rule {
  const int *exit_codes; /* NULL: any but 0 */
  size_t exit_code_count;
  const char *const *fatal;
  const char *const *informational;
};

#define CONFINE__RULES_MAX 2

struct confine__runner {
  confine_runner id;
  const char *name;
  uint32_t isolates; /* enum confine_isolation that it can enforce */
  const char *const *denial_signatures;
  const struct confine__failure_rule *rules;
  size_t rule_count;
  /* File effects left open with what the host offers. */
  uint32_t (*gaps)(const struct confine__host *host);
  /* The argument list to spawn. Failures are left in out->failed. */
  void (*argv)(const struct confine__host *host, const confine_policy *policy, const struct confine__call *call,
               struct confine__argv *out);
  /* The plan for the direct form, or NULL where there is none. Flags only; roots are the caller's. */
  uint32_t (*plan_flags)(const struct confine__host *host, const confine_policy *policy);
};

extern const struct confine__runner confine__runner_namespace;
extern const struct confine__runner confine__runner_bwrap;
extern const struct confine__runner confine__runner_landlock;
extern const struct confine__runner confine__runner_custom;

/* The runner's table, or NULL for one that this system does not have. */
const struct confine__runner *confine__runner_find(confine_runner id);

/* The bwrap profile that is a published contract; what runnerCommand gets. */
void confine__bwrap_base_profile(const confine_policy *policy, struct confine__argv *out);

/* The words that landlock-run needs to confine its command under the policy, up to and with `--`. */
void confine__landlock_words(const struct confine__host *host, const confine_policy *policy,
                             const struct confine__call *call, struct confine__argv *out);

/* --root for every root; --monitor and what goes with it; --guard; --isolate. */
void confine__launcher_words(const struct confine__host *host, const confine_policy *policy,
                             const struct confine__call *call, struct confine__argv *out);

/* Gaps that an older Landlock leaves. */
uint32_t confine__landlock_abi_gaps(int abi);

/* Plan flags of an isolation set and of the host's guard and supervisor. */
uint32_t confine__common_plan_flags(const struct confine__host *host, const confine_policy *policy);

/* landlock's rule, carried by every runner with landlock-run inside. */
extern const struct confine__failure_rule confine__landlock_rule;

#endif
