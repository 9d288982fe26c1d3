/* A private /dev with the mode's nodes and nothing else, and the private temp areas: a read-only mount does
 * not stop writes to device nodes, so the host's other nodes must not be there. */
#include "enter/plan.h"
#include "enter/sys.h"

#include <sys/sysmacros.h>

static const struct node {
  const char *path;
  unsigned major, minor; /* Documentation/admin-guide/devices.txt */
} nodes[] = {
    {"/dev/null", 1, 3},   {"/dev/zero", 1, 5},    {"/dev/full", 1, 7},
    {"/dev/random", 1, 8}, {"/dev/urandom", 1, 9}, {"/dev/tty", 5, 0},
};
#define NODES (sizeof nodes / sizeof nodes[0])

static const struct {
  const char *path, *target;
} links[] = {
    {"/dev/fd", "/proc/self/fd"},       {"/dev/stdin", "/proc/self/fd/0"},
    {"/dev/stdout", "/proc/self/fd/1"}, {"/dev/stderr", "/proc/self/fd/2"},
    {"/dev/ptmx", "pts/ptmx"},
};

/* A bound node is the host's own: read-only, so that its mode and owner stay; writing to the device is
 * not writing to the file system and goes on. */
static long hold(const char *path) {
  struct sys_mount_attr attributes = {.attr_set = SYS_MOUNT_ATTR_RDONLY};
  long fd = sys(__NR_open_tree, AT_FDCWD, path, SYS_OPEN_TREE_CLONE | SYS_OPEN_TREE_CLOEXEC);
  if (fd < 0)
    return fd;
  long r = sys(__NR_mount_setattr, fd, "", SYS_AT_EMPTY_PATH, &attributes, sizeof attributes);
  return r < 0 ? r : fd;
}

static int place(const char *path, int held) {
  if (held < 0)
    return 0;
  long r = sys(__NR_mknodat, AT_FDCWD, path, S_IFREG | 0666, 0);
  if (r == 0)
    r = sys(__NR_move_mount, held, "", AT_FDCWD, path, SYS_MOVE_MOUNT_F_EMPTY_PATH);
  return (int)r;
}

/* The terminal the command was given keeps a name, so that ttyname(3) finds one: /dev/console, where
 * other sandboxes put it too. */
static int hold_terminal(void) {
  struct stat st;
  for (int fd = 0; fd < 3; fd++) {
    if (sys(__NR_fstat, fd, &st) != 0 || !S_ISCHR(st.st_mode) || major(st.st_rdev) < 136 ||
        major(st.st_rdev) > 143) /* Unix98 terminals */
      continue;
    char path[40] = "/dev/pts/";
    sys_decimal(minor(st.st_rdev), path + 9);
    struct stat named;
    long r = hold(path);
    if (r < 0)
      return -1; /* of another instance: there is no name to keep */
    if (sys(__NR_fstat, r, &named) == 0 && named.st_rdev == st.st_rdev && named.st_ino == st.st_ino &&
        named.st_dev == st.st_dev)
      return (int)r;
  }
  return -1;
}

/*
 * Nodes of its own where mknod(2) may make them, which takes CAP_MKNOD in the initial user namespace; else
 * the host's, bound. Held before the new /dev covers them.
 */
static int make_nodes(const int *held) {
  long r = 0;
  for (size_t i = 0; r == 0 && i < NODES; i++)
    r = held[i] < 0 ? sys(__NR_mknodat, AT_FDCWD, nodes[i].path, S_IFCHR | 0666,
                          makedev(nodes[i].major, nodes[i].minor))
                    : place(nodes[i].path, held[i]);
  return (int)r;
}

static int hold_nodes(int bound, int *held) {
  for (size_t i = 0; i < NODES; i++) {
    long fd = bound ? hold(nodes[i].path) : -1;
    if (bound && fd < 0)
      return (int)fd;
    held[i] = (int)fd;
  }
  return 0;
}

/* One file system serves for /dev, /dev/shm and /tmp: a superblock costs more than a mount. */
static int attach_area(const char *path, const char *target) {
  long r = sys(__NR_mkdirat, AT_FDCWD, path, 01777);
  if (r == 0)
    r = sys(__NR_open_tree, AT_FDCWD, path, SYS_OPEN_TREE_CLONE | SYS_OPEN_TREE_CLOEXEC);
  if (r >= 0)
    r = sys(__NR_move_mount, r, "", AT_FDCWD, target, SYS_MOVE_MOUNT_F_EMPTY_PATH);
  return r == -ENOENT ? 0 : (int)r; /* a host without /tmp has nothing to cover */
}

/* Landlock keeps new names out of /dev and lets them into /dev/shm; without it two mounts must. */
static int stays_writable(const struct confine__plan *plan) {
  return (plan->flags & CONFINE__PLAN_WRITABLE) && (plan->flags & CONFINE__PLAN_LANDLOCK);
}

static int fill(const struct confine__plan *plan, const int *held, int terminal) {
  long r = sys(__NR_mount, "tmpfs", "/dev", "tmpfs", SYS_MS_NOSUID, "mode=755");
  if (r == 0)
    r = make_nodes(held);
  for (size_t i = 0; r == 0 && i < sizeof links / sizeof links[0]; i++)
    r = sys(__NR_symlinkat, links[i].target, AT_FDCWD, links[i].path);
  if (r == 0)
    r = sys(__NR_mkdirat, AT_FDCWD, "/dev/pts", 0755);
  if (r == 0)
    r = sys(__NR_mount, "devpts", "/dev/pts", "devpts", SYS_MS_NOSUID | SYS_MS_NOEXEC,
            "newinstance,ptmxmode=0666,mode=620");
  if (r == 0)
    r = place("/dev/console", terminal);
  if (r == 0 && stays_writable(plan))
    r = sys(__NR_mkdirat, AT_FDCWD, "/dev/shm", 01777);
  else if (r == 0 && (plan->flags & CONFINE__PLAN_WRITABLE))
    r = attach_area("/dev/shm", "/dev/shm");
  else if (r == 0)
    r = sys(__NR_mkdirat, AT_FDCWD, "/dev/shm", 0755);
  if (r == 0 && (plan->flags & CONFINE__PLAN_WRITABLE))
    r = attach_area("/dev/.tmp", "/tmp");
  return (int)r;
}

static int build(const struct confine__plan *plan, int bound, int terminal) {
  int held[NODES];
  int r = hold_nodes(bound, held);
  return r == 0 ? fill(plan, held, terminal) : r;
}

int confine__enter_private_dev(struct confine__enter_state *state) {
  int bound = (state->plan->flags & CONFINE__PLAN_USERNS) != 0;
  int terminal = hold_terminal();
  /* umask(2) would take bits from the nodes' modes. */
  long umask = sys(__NR_umask, 0);
  int r = build(state->plan, bound, terminal);
  if (r == -EPERM && !bound) { /* uid 0 of a container, say */
    sys(__NR_umount2, "/dev", SYS_MNT_DETACH);
    r = build(state->plan, 1, terminal);
  }
  sys(__NR_umask, umask);
  if (r == 0 && !stays_writable(state->plan)) {
    struct sys_mount_attr attributes = {.attr_set = SYS_MOUNT_ATTR_RDONLY};
    r = (int)sys(__NR_mount_setattr, AT_FDCWD, "/dev", 0, &attributes, sizeof attributes);
  }
  return r < 0 ? confine__fail(state, CONFINE__STEP_PRIVATE_DEV, -1, r) : 0;
}
