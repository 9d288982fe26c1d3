#include "enter/plan.h"
#include "enter/sys.h"

#include <sys/prctl.h>

int confine__fail(struct confine__enter_state *state, enum confine__step step, long index, long error) {
  state->outcome->step = step;
  state->outcome->index = (int32_t)index;
  state->outcome->error = (int32_t)-error;
  return error ? (int)error : -ESTALE;
}

unsigned long confine__plan_namespaces(const struct confine__plan *plan) {
  unsigned long flags = 0;
  if (plan->flags & CONFINE__PLAN_MOUNTS)
    flags |= SYS_CLONE_NEWNS;
  if (plan->flags & CONFINE__PLAN_USERNS)
    flags |= SYS_CLONE_NEWUSER;
  if (plan->flags & CONFINE__PLAN_MOUNTS) {
    if (plan->flags & CONFINE__PLAN_ISOLATE_NETWORK)
      flags |= SYS_CLONE_NEWNET;
    if (plan->flags & CONFINE__PLAN_ISOLATE_IPC)
      flags |= SYS_CLONE_NEWIPC;
    if (plan->flags & CONFINE__PLAN_ISOLATE_PROCESS)
      flags |= SYS_CLONE_NEWPID;
  }
  return flags;
}

static int write_file(const char *path, const char *text, size_t length) {
  long fd = sys_openat(AT_FDCWD, path, O_WRONLY | O_CLOEXEC, 0);
  if (fd < 0)
    return (int)fd;
  long written = sys(__NR_write, fd, text, length);
  sys_close((int)fd);
  return written < 0 ? (int)written : 0;
}

static int write_id_map(const char *path, uint32_t id) {
  char text[64];
  size_t n = sys_decimal(id, text);
  text[n++] = ' ';
  n += sys_decimal(id, text + n);
  text[n++] = ' ';
  text[n++] = '1';
  return write_file(path, text, n);
}

/* user_namespaces(7): an unprivileged process may map its own effective ids, one each, and must give up
 * setgroups(2) before the group map. */
int confine__enter_id_maps(struct confine__enter_state *state) {
  int r = write_file("/proc/self/setgroups", "deny", 4);
  if (r == 0 || r == -ENOENT)
    r = write_id_map("/proc/self/uid_map", state->plan->uid);
  if (r == 0)
    r = write_id_map("/proc/self/gid_map", state->plan->gid);
  return r ? confine__fail(state, CONFINE__STEP_ID_MAP, -1, r) : 0;
}

/* Without a mount namespace the held descriptors themselves are what Landlock's rules are made from. */
int confine__enter_roots(struct confine__enter_state *state) {
  for (size_t i = 0; i < state->plan->root_count; i++)
    state->trees[i] = state->plan->roots[i].fd;
  return 0;
}

static int close_descriptors(const struct confine__plan *plan) {
  long r;
  if (plan->keep_fd <= 2)
    return (int)sys(__NR_close_range, 3, ~0u, SYS_CLOSE_RANGE_UNSHARE);
  r = sys(__NR_close_range, (unsigned)plan->keep_fd + 1, ~0u, SYS_CLOSE_RANGE_UNSHARE);
  if (r == 0 && plan->keep_fd > 3)
    r = sys(__NR_close_range, 3, (unsigned)plan->keep_fd - 1, 0);
  return (int)r;
}

/* The table of descriptors is shared with the parent until close_range unshares it, so only after that
 * may 0, 1 and 2 be changed; the descriptors they are made from are above 2 and closed last. */
static int set_stdio(const struct confine__plan *plan) {
  for (int i = 0; i < 3; i++) {
    if (plan->stdio[i] < 0)
      continue;
    long r = sys(__NR_dup3, plan->stdio[i], i, 0);
    if (r < 0)
      return (int)r;
  }
  return 0;
}

static int finish_descriptors(struct confine__enter_state *state) {
  const struct confine__plan *plan = state->plan;
  int redirected = plan->stdio[0] >= 0 || plan->stdio[1] >= 0 || plan->stdio[2] >= 0;
  if (redirected) {
    long r = sys(__NR_close_range, ~0u, ~0u, SYS_CLOSE_RANGE_UNSHARE);
    if (r == 0)
      r = set_stdio(plan);
    if (r < 0)
      return confine__fail(state, CONFINE__STEP_STDIO, -1, r);
  }
  int r = close_descriptors(plan);
  return r ? confine__fail(state, CONFINE__STEP_CLOSE, -1, r) : 0;
}

int confine__enter_tree(struct confine__enter_state *state) {
  const struct confine__plan *plan = state->plan;
  int r = 0;
  if (plan->flags & CONFINE__PLAN_USERNS)
    r = confine__enter_id_maps(state);
  if (r == 0 && (confine__plan_namespaces(plan) & SYS_CLONE_NEWNET))
    r = confine__enter_network(state);
  if (r == 0)
    r = (plan->flags & CONFINE__PLAN_MOUNTS) ? confine__enter_mounts(state) : confine__enter_roots(state);
  return r;
}

static int confine_self(struct confine__enter_state *state) {
  const struct confine__plan *plan = state->plan;
  int r = 0;
  if (plan->flags & ~(uint32_t)CONFINE__PLAN_SIGNAL_MASK) {
    long nnp = sys(__NR_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (nnp < 0)
      r = confine__fail(state, CONFINE__STEP_NO_NEW_PRIVS, -1, nnp);
  }
  if (r == 0 && (plan->flags & CONFINE__PLAN_LANDLOCK))
    r = confine__enter_landlock(state);
  if (r == 0 && (plan->flags & CONFINE__PLAN_CAPABILITIES))
    r = confine__enter_capabilities(state);
  if (r == 0 && (plan->flags & CONFINE__PLAN_GUARD))
    r = confine__enter_guard(state);
  return r;
}

void confine__enter_command(struct confine__enter_state *state) {
  const struct confine__plan *plan = state->plan;
  if (confine_self(state) != 0 || finish_descriptors(state) != 0)
    return;
  if (plan->flags & CONFINE__PLAN_SIGNAL_MASK)
    sys(__NR_rt_sigprocmask, SIG_SETMASK, &plan->signal_mask, 0, sizeof plan->signal_mask);
  confine__fail(state, CONFINE__STEP_EXEC, -1, confine__enter_exec(state));
}

void confine__enter(const struct confine__plan *plan, struct confine__outcome *outcome) {
  struct confine__enter_state state = {.plan = plan, .outcome = outcome};
  if (confine__enter_tree(&state) == 0)
    confine__enter_command(&state);
}

const char *confine__step_name(enum confine__step step) {
  static const char *const names[] = {
      [CONFINE__STEP_NONE] = "none",
      [CONFINE__STEP_CLONE] = "clone",
      [CONFINE__STEP_ID_MAP] = "id-map",
      [CONFINE__STEP_OPEN_ROOT] = "open-root",
      [CONFINE__STEP_CLONE_ROOT] = "clone-root",
      [CONFINE__STEP_READ_ONLY] = "read-only",
      [CONFINE__STEP_PRIVATE_DEV] = "private-dev",
      [CONFINE__STEP_ATTACH_ROOT] = "attach-root",
      [CONFINE__STEP_CHDIR] = "chdir",
      [CONFINE__STEP_LANDLOCK] = "landlock",
      [CONFINE__STEP_CAPABILITIES] = "capabilities",
      [CONFINE__STEP_NO_NEW_PRIVS] = "no-new-privs",
      [CONFINE__STEP_RESTRICT] = "restrict",
      [CONFINE__STEP_STDIO] = "stdio",
      [CONFINE__STEP_GUARD] = "guard",
      [CONFINE__STEP_CLOSE] = "close-descriptors",
      [CONFINE__STEP_EXEC] = "exec",
      [CONFINE__STEP_MONITOR] = "monitor",
      [CONFINE__STEP_PRIVATE_PROC] = "private-proc",
      [CONFINE__STEP_INIT] = "init",
      [CONFINE__STEP_NETWORK] = "network",
  };
  if ((unsigned)step >= sizeof names / sizeof names[0] || !names[step])
    return "unknown";
  return names[step];
}
