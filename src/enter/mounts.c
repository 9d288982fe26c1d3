/*
 * The private mount tree: everything read-only by one recursive call, the writable roots as they were,
 * a private temp area and a private /dev. The cost per mount of the host is the kernel's copy alone.
 */
#include "enter/plan.h"
#include "enter/sys.h"

#define PATH_LIMIT 4096
#define HELD (O_PATH | O_CLOEXEC | O_NOFOLLOW)

static int same_object(int fd, const struct confine__root *root) {
  struct stat st;
  long r = sys(__NR_fstat, fd, &st);
  if (r < 0)
    return (int)r;
  return st.st_dev == root->device && st.st_ino == root->inode ? 1 : 0;
}

/* Opens a root by its canonical path in this namespace. A component that is a symbolic link now, or
 * another object at the end, means that the path was changed after the policy was made. */
static int open_root(struct confine__enter_state *state, size_t i) {
  const struct confine__root *root = &state->plan->roots[i];
  long fd = sys_openat2(AT_FDCWD, root->path, HELD, SYS_RESOLVE_NO_SYMLINKS);
  if (fd < 0)
    return confine__fail(state, CONFINE__STEP_OPEN_ROOT, (long)i, fd);
  int same = same_object((int)fd, root);
  if (same == 1)
    return (int)fd;
  sys_close((int)fd);
  return confine__fail(state, CONFINE__STEP_OPEN_ROOT, (long)i, same);
}

/* A root inside one of the private areas must be given a place there. */
static int in_private_area(const char *path) {
  return sys_path_beneath(path, "/tmp") || sys_path_beneath(path, "/dev");
}

static int clone_root(struct confine__enter_state *state, size_t i) {
  int from = AT_FDCWD;
  const char *path = ".";
  unsigned flags = SYS_OPEN_TREE_CLONE | SYS_OPEN_TREE_CLOEXEC | SYS_AT_RECURSIVE;
  if (i > 0) {
    from = open_root(state, i);
    if (from < 0)
      return from;
    path = "";
    flags |= SYS_AT_EMPTY_PATH;
  }
  long tree = sys(__NR_open_tree, from, path, flags);
  if (from >= 0)
    sys_close(from);
  if (tree < 0)
    return confine__fail(state, CONFINE__STEP_CLONE_ROOT, (long)i, tree);
  int same = same_object((int)tree, &state->plan->roots[i]);
  if (same != 1)
    return confine__fail(state, CONFINE__STEP_OPEN_ROOT, (long)i, same);
  /* Its mounts are still peers of the host's; nothing that happens here may reach them. */
  struct sys_mount_attr attributes = {.propagation = SYS_MS_PRIVATE};
  long r = sys(__NR_mount_setattr, tree, "", SYS_AT_EMPTY_PATH | SYS_AT_RECURSIVE, &attributes,
               sizeof attributes);
  if (r < 0)
    return confine__fail(state, CONFINE__STEP_CLONE_ROOT, (long)i, r);
  state->trees[i] = (int)tree;
  return 0;
}

static int tree_read_only(struct confine__enter_state *state) {
  struct sys_mount_attr attributes = {.attr_set = SYS_MOUNT_ATTR_RDONLY, .propagation = SYS_MS_PRIVATE};
  long r = sys(__NR_mount_setattr, AT_FDCWD, "/", SYS_AT_RECURSIVE, &attributes, sizeof attributes);
  return r < 0 ? confine__fail(state, CONFINE__STEP_READ_ONLY, -1, r) : 0;
}

/* Makes the missing directories of path, and an empty file at its end for a root that is a file. */
static int make_place(const char *path, int is_directory) {
  char part[PATH_LIMIT];
  size_t n = sys_strlen(path);
  if (n >= sizeof part)
    return -ENAMETOOLONG;
  for (size_t i = 1; i <= n; i++) {
    part[i - 1] = path[i - 1];
    if (path[i] != '/' && path[i] != '\0')
      continue;
    part[i] = '\0';
    long r = path[i] || is_directory ? sys(__NR_mkdirat, AT_FDCWD, part, 0755)
                                     : sys(__NR_mknodat, AT_FDCWD, part, S_IFREG | 0644, 0);
    /* EROFS and EACCES: a directory above the private area, which is there. */
    if (r < 0 && r != -EEXIST && r != -EROFS && r != -EACCES)
      return (int)r;
  }
  return 0;
}

static int attach_root(struct confine__enter_state *state, size_t i) {
  const struct confine__root *root = &state->plan->roots[i];
  int tree = state->trees[i];
  long r = 0, place = -1;
  if (in_private_area(root->path)) {
    struct stat st;
    r = sys(__NR_fstat, tree, &st);
    if (r == 0)
      r = make_place(root->path, S_ISDIR(st.st_mode));
  }
  if (r == 0 && i == 0 && !in_private_area(root->path)) {
    r = sys(__NR_move_mount, tree, "", AT_FDCWD, ".", SYS_MOVE_MOUNT_F_EMPTY_PATH);
  } else if (r == 0) {
    place = r = sys_openat2(AT_FDCWD, root->path, HELD, SYS_RESOLVE_NO_SYMLINKS);
    if (place >= 0)
      r = sys(__NR_move_mount, tree, "", place, "",
              SYS_MOVE_MOUNT_F_EMPTY_PATH | SYS_MOVE_MOUNT_T_EMPTY_PATH);
  }
  if (place >= 0)
    sys_close((int)place);
  return r < 0 ? confine__fail(state, CONFINE__STEP_ATTACH_ROOT, (long)i, r) : 0;
}

/* Opens the caller's directory again in the new tree: beneath the root it lies in, or else by path. */
static long open_cwd(struct confine__enter_state *state) {
  const struct confine__root *cwd = &state->plan->cwd;
  const struct confine__root *first = &state->plan->roots[0];
  if (cwd->device == first->device && cwd->inode == first->inode)
    return sys(__NR_fcntl, state->trees[0], F_DUPFD_CLOEXEC, 3);
  if (!cwd->path)
    return -ENOENT;
  long fd = sys_openat2(AT_FDCWD, cwd->path, HELD | O_DIRECTORY, SYS_RESOLVE_NO_SYMLINKS);
  if (fd < 0)
    return fd;
  if (same_object((int)fd, cwd) == 1)
    return fd;
  sys_close((int)fd);
  return -ENOENT;
}

static int enter_cwd(struct confine__enter_state *state) {
  long fd = open_cwd(state);
  long r = fd < 0 ? fd : sys(__NR_fchdir, fd);
  if (fd >= 0)
    sys_close((int)fd);
  if (r == 0)
    return 0;
  state->outcome->cwd_hidden = 1;
  r = sys(__NR_fchdir, state->trees[0]);
  return r < 0 ? confine__fail(state, CONFINE__STEP_CHDIR, -1, r) : 0;
}

/* A process namespace shows its own processes, and no others, in a proc(5) of its own. */
static int private_proc(struct confine__enter_state *state) {
  long r = sys(__NR_mount, "proc", "/proc", "proc",
               SYS_MS_RDONLY | SYS_MS_NOSUID | SYS_MS_NODEV | SYS_MS_NOEXEC, 0);
  return r < 0 ? confine__fail(state, CONFINE__STEP_PRIVATE_PROC, -1, r) : 0;
}

int confine__enter_mounts(struct confine__enter_state *state) {
  const struct confine__plan *plan = state->plan;
  int r = 0;
  for (size_t i = 0; r == 0 && i < plan->root_count; i++)
    r = clone_root(state, i);
  if (r == 0)
    r = tree_read_only(state);
  if (r == 0 && (plan->flags & CONFINE__PLAN_ISOLATE_PROCESS))
    r = private_proc(state);
  if (r == 0)
    r = confine__enter_private_dev(state);
  for (size_t i = 0; r == 0 && i < plan->root_count; i++)
    r = attach_root(state, i);
  if (r == 0 && plan->root_count)
    r = enter_cwd(state);
  return r;
}
