#include "enter/landlock.h"
#include "enter/plan.h"
#include "enter/sys.h"

#include <sys/sysmacros.h>

#define READING (LANDLOCK_FS_EXECUTE | LANDLOCK_FS_READ_FILE | LANDLOCK_FS_READ_DIR)
/* Making device nodes would let root reach any disk by its numbers, so it is granted nowhere. */
#define DEVICE_MAKING (LANDLOCK_FS_MAKE_CHAR | LANDLOCK_FS_MAKE_BLOCK)
/* Rights that a rule on something other than a directory may carry. */
#define FILE_RIGHTS \
  (LANDLOCK_FS_EXECUTE | LANDLOCK_FS_WRITE_FILE | LANDLOCK_FS_READ_FILE | LANDLOCK_FS_TRUNCATE | \
   LANDLOCK_FS_IOCTL_DEV)

int confine__landlock_abi(void) {
  long abi = sys(__NR_landlock_create_ruleset, 0, 0, LANDLOCK_VERSION_FLAG);
  return abi > 0 ? (int)abi : 0;
}

static int grant(int ruleset, int fd, uint64_t rights) {
  struct stat st;
  long r = sys(__NR_fstat, fd, &st);
  if (r < 0)
    return (int)r;
  if (!S_ISDIR(st.st_mode))
    rights &= FILE_RIGHTS;
  struct landlock_beneath rule = {.allowed = rights, .parent_fd = fd};
  if (!rights)
    return 0;
  return (int)sys(__NR_landlock_add_rule, ruleset, LANDLOCK_PATH_BENEATH, &rule, 0);
}

/* A path that does not exist on this host has nothing to grant. */
static int grant_path(int ruleset, const char *path, uint64_t rights) {
  long fd = sys_openat(AT_FDCWD, path, O_PATH | O_CLOEXEC, 0);
  if (fd == -ENOENT || fd == -ENOTDIR)
    return 0;
  if (fd < 0)
    return (int)fd;
  int r = grant(ruleset, (int)fd, rights);
  sys_close((int)fd);
  return r;
}

/* Where a sandbox around this one puts the terminal of what it runs; on a host it is another device. */
static int console_is_terminal(void) {
  struct stat st;
  return sys(__NR_newfstatat, AT_FDCWD, "/dev/console", &st, 0) == 0 && S_ISCHR(st.st_mode) &&
         major(st.st_rdev) >= 136 && major(st.st_rdev) <= 143; /* Unix98 terminals */
}

static int grant_devices(const struct confine__plan *plan, int ruleset, uint64_t handled) {
  uint64_t use = handled & FILE_RIGHTS;
  /* A private /dev holds only the mode's nodes, so one rule is enough; it grants no new names. */
  if (plan->flags & CONFINE__PLAN_MOUNTS)
    return grant_path(ruleset, "/dev", use);
  static const char *const nodes[] = {"/dev/null",    "/dev/zero", "/dev/full", "/dev/random",
                                      "/dev/urandom", "/dev/tty",  "/dev/ptmx", "/dev/pts"};
  for (size_t i = 0; i < sizeof nodes / sizeof nodes[0]; i++) {
    int r = grant_path(ruleset, nodes[i], use);
    if (r < 0)
      return r;
  }
  return console_is_terminal() ? grant_path(ruleset, "/dev/console", use) : 0;
}

static int grant_all(struct confine__enter_state *state, int ruleset, uint64_t handled) {
  const struct confine__plan *plan = state->plan;
  uint64_t writing = handled & ~DEVICE_MAKING;
  for (size_t i = 0; i < plan->readable_count; i++) {
    int r = grant(ruleset, plan->readable[i].fd, handled & READING);
    if (r < 0)
      return r;
  }
  for (size_t i = 0; i < plan->root_count; i++) {
    int r = grant(ruleset, state->trees[i], writing);
    if (r < 0)
      return r;
  }
  int r = 0;
  if (plan->flags & CONFINE__PLAN_DEVICES)
    r = grant_devices(plan, ruleset, handled);
  if (r == 0 && (plan->flags & CONFINE__PLAN_HOST_TMP))
    r = grant_path(ruleset, "/tmp", writing);
  if (r == 0 && (plan->flags & CONFINE__PLAN_MOUNTS) && (plan->flags & CONFINE__PLAN_WRITABLE))
    r = grant_path(ruleset, "/dev/shm", writing);
  return r;
}

static uint64_t scopes(const struct confine__plan *plan) {
  uint64_t scoped = 0;
  if (plan->landlock_abi < 6)
    return 0;
  if (plan->flags & CONFINE__PLAN_ISOLATE_IPC)
    scoped |= LANDLOCK_SCOPE_ABSTRACT_UNIX;
  if (plan->flags & CONFINE__PLAN_ISOLATE_PROCESS)
    scoped |= LANDLOCK_SCOPE_SIGNALS;
  return scoped;
}

int confine__enter_landlock(struct confine__enter_state *state) {
  const struct confine__plan *plan = state->plan;
  struct landlock_ruleset attributes = {.handled_fs = landlock_rights(plan->landlock_abi)};
  if (!(plan->flags & CONFINE__PLAN_EVERY_RIGHT))
    attributes.handled_fs &= ~READING;
  attributes.scoped = scopes(plan);
  if (plan->landlock_abi >= 4 && (plan->flags & CONFINE__PLAN_ISOLATE_NETWORK))
    attributes.handled_net = LANDLOCK_NET_BIND_TCP | LANDLOCK_NET_CONNECT_TCP;
  /* An older kernel refuses a larger struct whose tail is not zero, and takes one whose tail is. */
  long ruleset = sys(__NR_landlock_create_ruleset, &attributes, sizeof attributes, 0);
  long r = ruleset < 0 ? ruleset : grant_all(state, (int)ruleset, attributes.handled_fs);
  if (r < 0) {
    if (ruleset >= 0)
      sys_close((int)ruleset);
    return confine__fail(state, CONFINE__STEP_LANDLOCK, -1, r);
  }
  r = sys(__NR_landlock_restrict_self, ruleset, 0);
  sys_close((int)ruleset);
  return r < 0 ? confine__fail(state, CONFINE__STEP_RESTRICT, -1, r) : 0;
}
