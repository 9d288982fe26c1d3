#include "runner/runner.h"

#include <string.h>


/* bwrap keeps no exit status for its own failures, so its text alone decides. */
static const char *const fatal[] = {"bwrap: ", NULL};
static const char *const nothing[] = {NULL};
static const char *const denial_signatures[] = {"read-only file system", "permission denied", NULL};
static const int inner_exit_codes[] = {125};
static const char *const inner_fatal[] = {"landlock-run: ", NULL};
static const char *const inner_informational[] = {"landlock-run: partial enforcement (older Landlock ABI)", NULL};
static const struct confine__failure_rule rules[] = {
    {NULL, 0, fatal, nothing},
    {inner_exit_codes, 1, inner_fatal, inner_informational},
};

void confine__bwrap_base_profile(const confine_policy *policy, struct confine__argv *out) {
  static const char *const tree[] = {"--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc",
                                     "--die-with-parent", NULL};
  static const char *const temp[] = {"--tmpfs", "/tmp", NULL};
  const struct confine__held_path *root;
  confine__argv_add_all(out, tree);
  if (policy->mode == CONFINE_MODE_WORKSPACE_WRITE)
    confine__argv_add_all(out, temp);
  for (size_t i = 0; (root = confine__policy_root(policy, i)) != NULL; i++) {
    confine__argv_add(out, "--bind");
    confine__argv_add(out, root->path);
    confine__argv_add(out, root->path);
  }
}

/*
 * Started by uid 0, bwrap makes no user namespace and keeps every capability, so the working set of
 * enter/capabilities.c is all it may keep. A user namespace would confine too, but in one that maps only
 * uid 0 root cannot work in a workspace that belongs to somebody else.
 */
static void add_capabilities(const struct confine__host *host, struct confine__argv *out) {
  static const char *const kept[] = {"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID",
                                     "CAP_KILL",  "CAP_SETGID",       "CAP_SETUID", "CAP_NET_BIND_SERVICE"};
  confine__argv_add(out, "--cap-drop");
  confine__argv_add(out, "ALL");
  for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
    confine__argv_add(out, "--cap-add");
    confine__argv_add(out, kept[i]);
  }
  /* For the supervisor inside, which looks into processes of other users; the command does not get it. */
  if (host->supervisor) {
    confine__argv_add(out, "--cap-add");
    confine__argv_add(out, "CAP_SYS_PTRACE");
  }
}

static int beneath(const char *path, const char *directory) {
  size_t n = strlen(directory);
  return strncmp(path, directory, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

/* Memory of its own in /dev/shm, beside what the policy grants there, and a /tmp that every uid inside may use. */
static void add_areas(const confine_policy *policy, struct confine__argv *out) {
  static const char *const memory[] = {"--perms", "1777", "--tmpfs", "/dev/shm", NULL};
  static const char *const open_tmp[] = {"--chmod", "1777", "/tmp", NULL};
  const struct confine__held_path *root;
  int is_own_tmp = 1;
  confine__argv_add_all(out, memory);
  for (size_t i = 0; (root = confine__policy_root(policy, i)) != NULL; i++) {
    is_own_tmp &= strcmp(root->path, "/tmp") != 0;
    if (!beneath(root->path, "/dev/shm"))
      continue;
    confine__argv_add(out, "--bind");
    confine__argv_add(out, root->path);
    confine__argv_add(out, root->path);
  }
  if (is_own_tmp)
    confine__argv_add_all(out, open_tmp);
}

static void add_hardening(const struct confine__host *host, const confine_policy *policy, struct confine__argv *out) {
  static const char *const sealed[] = {"--remount-ro", "/dev", "--remount-ro", "/proc", NULL};
  if (policy->mode == CONFINE_MODE_WORKSPACE_WRITE)
    add_areas(policy, out);
  confine__argv_add_all(out, sealed);
  if (host->mounts_without_userns)
    add_capabilities(host, out);
  if (policy->isolation & CONFINE_ISOLATE_NETWORK)
    confine__argv_add(out, "--unshare-net");
  if (policy->isolation & CONFINE_ISOLATE_PROCESS)
    confine__argv_add(out, "--unshare-pid");
  if (policy->isolation & CONFINE_ISOLATE_IPC)
    confine__argv_add(out, "--unshare-ipc");
  /* The launcher must be there whatever covers its directory, and nothing inside may change it. */
  confine__argv_add(out, "--ro-bind");
  confine__argv_add(out, host->landlock_run);
  confine__argv_add(out, host->landlock_run);
}

static uint32_t gaps(const struct confine__host *host) {
  uint32_t gaps = 0;
  if (!host->supervisor || host->landlock_abi < 3)
    gaps |= CONFINE_GAP_INHERITED_FD;
  if (!host->guard)
    gaps |= CONFINE_GAP_TERMINAL_INJECTION;
  return gaps;
}

/* bwrap links the host's C library: its environment is carried past it, so that loader variables act
 * on the command only. */
static void argv(const struct confine__host *host, const confine_policy *policy, const struct confine__call *call,
                 struct confine__argv *out) {
  static const char *const carry[] = {"--carry-environment", "--", NULL};
  confine__argv_add(out, host->landlock_run);
  confine__argv_add_all(out, carry);
  confine__argv_add(out, host->bwrap);
  confine__bwrap_base_profile(policy, out);
  add_hardening(host, policy, out);
  confine__argv_add(out, "--");
  confine__argv_add(out, host->landlock_run);
  confine__argv_add(out, "--restore-environment");
  confine__argv_add(out, "--read-only-tree");
  if (policy->mode == CONFINE_MODE_WORKSPACE_WRITE) {
    confine__argv_add(out, "--rw");
    confine__argv_add(out, "/dev/shm");
  }
  confine__landlock_words(host, policy, call, out);
  confine__argv_add_all(out, call->argv);
}

const struct confine__runner confine__runner_bwrap = {
    .id = CONFINE_RUNNER_BWRAP,
    .name = "bwrap",
    .isolates = CONFINE_ISOLATE_NETWORK | CONFINE_ISOLATE_PROCESS | CONFINE_ISOLATE_IPC,
    .denial_signatures = denial_signatures,
    .rules = rules,
    .rule_count = 2,
    .gaps = gaps,
    .argv = argv,
};
