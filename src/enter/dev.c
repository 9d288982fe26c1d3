/* A private /dev with the mode's nodes and nothing else: a read-only mount does not stop writes to
 * device nodes, so the host's other nodes must not be there. */
#include "enter/plan.h"
#include "enter/sys.h"

#include <sys/sysmacros.h>

static const char *const nodes[] = {"/dev/null",   "/dev/zero",    "/dev/full",
                                    "/dev/random", "/dev/urandom", "/dev/tty"};
#define NODES (sizeof nodes / sizeof nodes[0])

static const struct {
  const char *path, *target;
} links[] = {
    {"/dev/fd", "/proc/self/fd"},       {"/dev/stdin", "/proc/self/fd/0"},
    {"/dev/stdout", "/proc/self/fd/1"}, {"/dev/stderr", "/proc/self/fd/2"},
    {"/dev/core", "/proc/kcore"},       {"/dev/ptmx", "pts/ptmx"},
};

/* The host's nodes are bound: mknod(2) of a device needs CAP_MKNOD in the initial user namespace. */
static int hold_node(const char *path, int *held) {
  long r = sys(__NR_open_tree, AT_FDCWD, path, SYS_OPEN_TREE_CLONE | SYS_OPEN_TREE_CLOEXEC);
  *held = (int)r;
  return r == -ENOENT ? 0 : r < 0 ? (int)r : 0;
}

static int place_node(const char *path, int held) {
  if (held < 0)
    return 0;
  long r = sys(__NR_mknodat, AT_FDCWD, path, S_IFREG | 0666, 0);
  if (r == 0)
    r = sys(__NR_move_mount, held, "", AT_FDCWD, path, SYS_MOVE_MOUNT_F_EMPTY_PATH);
  sys_close(held);
  return (int)r;
}

/* The terminal the command was given keeps a name, so that ttyname(3) finds one: /dev/console, where
 * other sandboxes put it too. */
static int hold_terminal(int *held) {
  struct stat st;
  *held = -1;
  for (int fd = 0; fd < 3; fd++) {
    if (sys(__NR_fstat, fd, &st) != 0 || !S_ISCHR(st.st_mode) || major(st.st_rdev) < 136 ||
        major(st.st_rdev) > 143) /* Unix98 terminals */
      continue;
    char path[40] = "/dev/pts/";
    sys_decimal(minor(st.st_rdev), path + 9);
    long r = sys(__NR_open_tree, AT_FDCWD, path, SYS_OPEN_TREE_CLONE | SYS_OPEN_TREE_CLOEXEC);
    struct stat named;
    if (r < 0)
      return 0; /* of another instance: there is no name to keep */
    if (sys(__NR_fstat, r, &named) == 0 && named.st_rdev == st.st_rdev && named.st_ino == st.st_ino &&
        named.st_dev == st.st_dev) {
      *held = (int)r;
      return 0;
    }
    sys_close((int)r);
  }
  return 0;
}

static int fill(struct confine__enter_state *state, const int *held) {
  long r = sys(__NR_mount, "tmpfs", "/dev", "tmpfs", SYS_MS_NOSUID | SYS_MS_NOEXEC, "mode=755,size=64k");
  for (size_t i = 0; r == 0 && i < NODES; i++)
    r = place_node(nodes[i], held[i]);
  for (size_t i = 0; r == 0 && i < sizeof links / sizeof links[0]; i++)
    r = sys(__NR_symlinkat, links[i].target, AT_FDCWD, links[i].path);
  if (r == 0)
    r = sys(__NR_mkdirat, AT_FDCWD, "/dev/pts", 0755);
  if (r == 0)
    r = sys(__NR_mkdirat, AT_FDCWD, "/dev/shm", 0755);
  if (r == 0)
    r = sys(__NR_mount, "devpts", "/dev/pts", "devpts", SYS_MS_NOSUID | SYS_MS_NOEXEC,
            "newinstance,ptmxmode=0666,mode=620");
  if (r == 0 && (state->plan->flags & CONFINE__PLAN_WRITABLE))
    r = sys(__NR_mount, "tmpfs", "/dev/shm", "tmpfs", SYS_MS_NOSUID | SYS_MS_NODEV, "mode=1777");
  if (r == 0)
    r = place_node("/dev/console", held[NODES]);
  return (int)r;
}

int confine__enter_private_dev(struct confine__enter_state *state) {
  int held[NODES + 1] = {0};
  int r = hold_terminal(&held[NODES]);
  /* umask(2) would take bits from the nodes' modes. */
  long umask = sys(__NR_umask, 0);
  for (size_t i = 0; r == 0 && i < NODES; i++)
    r = hold_node(nodes[i], &held[i]);
  if (r == 0)
    r = fill(state, held);
  sys(__NR_umask, umask);
  if (r == 0) {
    struct sys_mount_attr attributes = {.attr_set = SYS_MOUNT_ATTR_RDONLY};
    r = (int)sys(__NR_mount_setattr, AT_FDCWD, "/dev", 0, &attributes, sizeof attributes);
  }
  return r < 0 ? confine__fail(state, CONFINE__STEP_PRIVATE_DEV, -1, r) : 0;
}
