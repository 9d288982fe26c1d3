/* A private /dev with the mode's nodes and nothing else, and the private temp areas: a read-only mount does
 * not stop writes to device nodes, so the host's other nodes must not be there. */
#include "enter/plan.h"
#include "enter/sys.h"

#include <sys/sysmacros.h>

static const struct node {
  const char *name;
  unsigned major, minor; /* Documentation/admin-guide/devices.txt */
} nodes[] = {
    {"null", 1, 3},   {"zero", 1, 5},    {"full", 1, 7},
    {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0},
};
#define NODES (sizeof nodes / sizeof nodes[0])

static const struct {
  const char *name, *target;
} links[] = {
    {"fd", "/proc/self/fd"},       {"stdin", "/proc/self/fd/0"},
    {"stdout", "/proc/self/fd/1"}, {"stderr", "/proc/self/fd/2"},
    {"ptmx", "pts/ptmx"},
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

static int place(int dev, const char *name, int held) {
  if (held < 0)
    return 0;
  long r = sys(__NR_mknodat, dev, name, S_IFREG | 0666, 0);
  if (r == 0)
    r = sys(__NR_move_mount, held, "", dev, name, SYS_MOVE_MOUNT_F_EMPTY_PATH);
  return (int)r;
}

static long hold_below(const char *directory, const char *name) {
  char path[40];
  size_t n = sys_strlen(directory), m = sys_strlen(name);
  for (size_t i = 0; i < n; i++)
    path[i] = directory[i];
  for (size_t i = 0; i <= m; i++)
    path[n + i] = name[i];
  return hold(path);
}

/* The terminal the command was given keeps a name, so that ttyname(3) finds one: /dev/console, where
 * other sandboxes put it too. */
static int hold_terminal(void) {
  struct stat st;
  for (int fd = 0; fd < 3; fd++) {
    if (sys(__NR_fstat, fd, &st) != 0 || !S_ISCHR(st.st_mode) || major(st.st_rdev) < 136 ||
        major(st.st_rdev) > 143) /* Unix98 terminals */
      continue;
    char number[24];
    sys_decimal(minor(st.st_rdev), number);
    struct stat named;
    long r = hold_below("/dev/pts/", number);
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
static int make_nodes(int dev, const int *held) {
  long r = 0;
  for (size_t i = 0; r == 0 && i < NODES; i++)
    r = held[i] < 0
            ? sys(__NR_mknodat, dev, nodes[i].name, S_IFCHR | 0666, makedev(nodes[i].major, nodes[i].minor))
            : place(dev, nodes[i].name, held[i]);
  return (int)r;
}

static int hold_nodes(int bound, int *held) {
  for (size_t i = 0; i < NODES; i++) {
    long fd = bound ? hold_below("/dev/", nodes[i].name) : -1;
    if (bound && fd < 0)
      return (int)fd;
    held[i] = (int)fd;
  }
  return 0;
}

/* One file system serves for /dev, /dev/shm and /tmp: a superblock costs more than a mount. */
static int attach_area(int dev, const char *name, const char *target) {
  long r = sys(__NR_mkdirat, dev, name, 01777);
  if (r == 0)
    r = sys(__NR_open_tree, dev, name, SYS_OPEN_TREE_CLONE | SYS_OPEN_TREE_CLOEXEC);
  if (r >= 0)
    r = sys(__NR_move_mount, r, "", AT_FDCWD, target, SYS_MOVE_MOUNT_F_EMPTY_PATH);
  return r == -ENOENT ? 0 : (int)r; /* a host without /tmp has nothing to cover */
}

/* Landlock keeps new names out of /dev and lets them into /dev/shm; without it two mounts must. */
static int stays_writable(const struct confine__plan *plan) {
  return (plan->flags & CONFINE__PLAN_WRITABLE) && (plan->flags & CONFINE__PLAN_LANDLOCK);
}

static int fill(const struct confine__plan *plan, int dev, const int *held, int terminal) {
  long r = make_nodes(dev, held);
  for (size_t i = 0; r == 0 && i < sizeof links / sizeof links[0]; i++)
    r = sys(__NR_symlinkat, links[i].target, dev, links[i].name);
  if (r == 0)
    r = sys(__NR_mkdirat, dev, "pts", 0755);
  if (r == 0)
    r = sys(__NR_mount, "devpts", "/dev/pts", "devpts", SYS_MS_NOSUID | SYS_MS_NOEXEC,
            "newinstance,ptmxmode=0666,mode=620");
  if (r == 0)
    r = place(dev, "console", terminal);
  if (r == 0 && stays_writable(plan))
    r = sys(__NR_mkdirat, dev, "shm", 01777);
  else if (r == 0 && (plan->flags & CONFINE__PLAN_WRITABLE))
    r = attach_area(dev, "shm", "/dev/shm");
  else if (r == 0)
    r = sys(__NR_mkdirat, dev, "shm", 0755);
  if (r == 0 && (plan->flags & CONFINE__PLAN_WRITABLE))
    r = attach_area(dev, ".tmp", "/tmp");
  return (int)r;
}

static int build(const struct confine__plan *plan, int bound, int terminal) {
  int held[NODES];
  long r = hold_nodes(bound, held);
  if (r == 0)
    r = sys(__NR_mount, "tmpfs", "/dev", "tmpfs", SYS_MS_NOSUID, "mode=755");
  long dev = r == 0 ? sys_openat(AT_FDCWD, "/dev", O_PATH | O_CLOEXEC, 0) : r;
  if (dev < 0)
    return (int)dev;
  r = fill(plan, (int)dev, held, terminal);
  sys_close((int)dev);
  return (int)r;
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
