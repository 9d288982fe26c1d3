#include "enter/sys.h"
#include "monitor/supervisor.h"

#include <sys/uio.h>

#define LINKS_MAX 40            /* as path_resolution(7) */
#define PROC_SUPER_MAGIC 0x9fa0 /* linux/magic.h */
#define HELD (O_PATH | O_CLOEXEC)
/* How often an object's name is asked for that is another one by the time it is looked up. */
#define RENAMES_MAX 64
#define STATX_MOUNT 0x1000 /* STATX_MNT_ID, Linux 5.8 */

int confine__copy_in(pid_t tid, uint64_t address, void *out, size_t length) {
  struct iovec here = {out, length}, there = {(void *)(uintptr_t)address, length};
  long r = sys(__NR_process_vm_readv, tid, &here, 1, &there, 1, 0);
  if (r < 0)
    return r == -EPERM ? -EPERM : -EFAULT;
  return (size_t)r == length ? 0 : -EFAULT;
}

int confine__copy_string(pid_t tid, uint64_t address, char *out, size_t size) {
  size_t done = 0;
  while (done < size) {
    /* Never across a page, for the next one may not be there. */
    size_t part = 4096 - (address + done) % 4096;
    if (part > size - done)
      part = size - done;
    int r = confine__copy_in(tid, address + done, out + done, part);
    if (r < 0)
      return r;
    for (size_t i = 0; i < part; i++)
      if (!out[done + i])
        return 0;
    done += part;
  }
  return -ENAMETOOLONG;
}

long confine__process_open(pid_t tid, const char *leaf, int flags) {
  char path[96] = "/proc/";
  size_t n = 6 + sys_decimal((uint64_t)tid, path + 6), length = sys_strlen(leaf);
  if (n + length >= sizeof path)
    return -ENAMETOOLONG;
  for (size_t i = 0; i <= length; i++)
    path[n + i] = leaf[i];
  return sys_openat(AT_FDCWD, path, flags | O_CLOEXEC, 0);
}

long confine__process_read(pid_t tid, const char *leaf, char *out, size_t size) {
  long fd = confine__process_open(tid, leaf, O_RDONLY);
  long got = fd < 0 ? fd : sys(__NR_read, fd, out, size - 1);
  if (fd >= 0)
    sys_close((int)fd);
  out[got > 0 ? got : 0] = '\0';
  return got;
}

/* The name in parentheses before it may hold any character, a parenthesis too. */
const char *confine__stat_state(const char *text) {
  const char *end = NULL;
  for (; *text; text++)
    if (*text == ')')
      end = text;
  return end && end[1] == ' ' && end[2] ? end + 2 : NULL;
}

char confine__process_state(pid_t pid) {
  char text[512];
  if (confine__process_read(pid, "/stat", text, sizeof text) <= 0)
    return '\0';
  const char *state = confine__stat_state(text);
  return state ? *state : '\0';
}

/* A process that cannot be read is not guessed about: EPERM. */
static long open_process(pid_t tid, const char *leaf) {
  long fd = confine__process_open(tid, leaf, O_PATH);
  return fd == -EACCES ? -EPERM : fd;
}

long confine__target_descriptor(pid_t tid, int fd) {
  char leaf[40] = "/fd/";
  if (fd < 0)
    return -EBADF;
  sys_decimal((uint64_t)fd, leaf + 4);
  long target = open_process(tid, leaf);
  return target == -ENOENT ? -EBADF : target;
}

void confine__target_release(const struct confine__supervisor *supervisor, long fd) {
  if (fd >= 0 && fd != supervisor->root)
    sys_close((int)fd);
}

static int is_proc(int fd) {
  struct {
    long type, other[15];
  } fs;
  return sys(__NR_fstatfs, fd, &fs) == 0 && fs.type == PROC_SUPER_MAGIC;
}

/* A walk in progress: where it is, and in supervisor->rest what is still to be walked. */
struct walk {
  struct confine__supervisor *supervisor;
  pid_t tid;
  long at; /* O_PATH descriptor, owned unless it is the supervisor's root */
  int links;
};

static void go_to(struct walk *walk, long fd) {
  confine__target_release(walk->supervisor, walk->at);
  walk->at = fd;
}

/* Replaces what is left by target and then rest, which is the tail of what is left. */
static int prepend(struct walk *walk, const char *target, const char *rest) {
  char *out = walk->supervisor->rest;
  size_t n = sys_strlen(target), m = sys_strlen(rest), size = sizeof walk->supervisor->rest;
  if (n + m + 1 > size)
    return -ENAMETOOLONG;
  /* To the end of the buffer first: the two may overlap where they are. */
  for (size_t i = m + 1; i > 0; i--)
    out[size - 1 - (m + 1 - i)] = rest[i - 1];
  for (size_t i = 0; i < n; i++)
    out[i] = target[i];
  for (size_t i = 0; i <= m; i++)
    out[n + i] = out[size - 1 - m + i];
  return 0;
}

/* /proc/self and /proc/thread-self mean the caller, not this process. */
static int is_self(const struct walk *walk, const char *name) {
  struct stat st;
  return (sys_streq(name, "self") || sys_streq(name, "thread-self")) && is_proc((int)walk->at) &&
         sys(__NR_fstat, walk->at, &st) == 0 && st.st_ino == 1;
}

static int follow(struct walk *walk, const char *name, int link, const char *rest) {
  struct confine__supervisor *supervisor = walk->supervisor;
  if (++walk->links > LINKS_MAX)
    return -ELOOP;
  /* A link of proc(5) that leads to an object instead of a name. */
  if (is_proc(link)) {
    long plain = sys_openat2((int)walk->at, name, HELD, SYS_RESOLVE_NO_MAGICLINKS);
    if (plain == -ELOOP) {
      long object = sys_openat((int)walk->at, name, HELD | (*rest ? O_DIRECTORY : 0), 0);
      if (object < 0)
        return (int)object;
      go_to(walk, object);
      for (size_t i = 0; i == 0 || rest[i - 1]; i++)
        supervisor->rest[i] = rest[i];
      return 0;
    }
    if (plain >= 0)
      sys_close((int)plain);
  }
  long n = sys(__NR_readlinkat, link, "", supervisor->link, sizeof supervisor->link - 1);
  if (n < 0)
    return (int)n;
  supervisor->link[n] = '\0';
  if (supervisor->link[0] == '/')
    go_to(walk, supervisor->root);
  return prepend(walk, supervisor->link, rest);
}

/* Where fs.protected_symlinks (proc(5)) applies, the kernel is asked: what it refuses here, it refuses for this
 * reason or for one that ends the walk in any case. */
static long may_follow(const struct walk *walk, const char *name, uid_t owner) {
  struct stat directory;
  long r = sys(__NR_fstat, walk->at, &directory);
  if (r < 0 || (directory.st_mode & (S_ISVTX | S_IWOTH)) != (S_ISVTX | S_IWOTH) || directory.st_uid == owner)
    return r;
  long object = sys_openat((int)walk->at, name, HELD, 0);
  if (object >= 0)
    sys_close((int)object);
  return object == -EACCES ? -EACCES : 0;
}

/* Takes one component off supervisor->rest. Returns 1 to go on, 0 at the end, or a negated errno. */
static int step(struct walk *walk, int follow_last) {
  struct confine__supervisor *supervisor = walk->supervisor;
  char *rest = supervisor->rest, *name = supervisor->name;
  struct stat st;
  size_t start = 0, length = 0;
  while (rest[start] == '/')
    start++;
  while (rest[start + length] && rest[start + length] != '/')
    length++;
  if (!length)
    return 0;
  if (length >= sizeof supervisor->name)
    return -ENAMETOOLONG;
  for (size_t i = 0; i < length; i++)
    name[i] = rest[start + i];
  name[length] = '\0';
  const char *after = rest + start + length;
  int last = *after == '\0';
  int self = (!last || follow_last) && is_self(walk, name); /* not followed it is a link as any other */
  if (self && ++walk->links > LINKS_MAX)
    return -ELOOP;
  long fd = self ? open_process(walk->tid, "") : sys_openat((int)walk->at, name, HELD | O_NOFOLLOW, 0);
  if (fd < 0)
    return (int)fd;
  long r = sys(__NR_fstat, fd, &st);
  if (r == 0 && S_ISLNK(st.st_mode) && (!last || follow_last)) {
    r = last ? may_follow(walk, name, st.st_uid) : 0;
    if (r == 0)
      r = follow(walk, name, (int)fd, after);
    sys_close((int)fd);
    return r < 0 ? (int)r : 1;
  }
  if (r == 0 && !last && !S_ISDIR(st.st_mode))
    r = -ENOTDIR;
  if (r < 0) {
    sys_close((int)fd);
    return (int)r;
  }
  go_to(walk, fd);
  for (size_t i = 0; i == 0 || after[i - 1]; i++)
    rest[i] = after[i];
  return 1;
}

long confine__target_start(struct confine__supervisor *supervisor, pid_t tid, int dirfd, const char *path) {
  if (path[0] == '/')
    return supervisor->root;
  return dirfd == AT_FDCWD ? open_process(tid, "/cwd") : confine__target_descriptor(tid, dirfd);
}

long confine__target_path(struct confine__supervisor *supervisor, pid_t tid, long start, const char *path,
                          int follow_last) {
  struct walk walk = {.supervisor = supervisor, .tid = tid, .at = start};
  if (start < 0)
    return start;
  if (!path[0]) {
    confine__target_release(supervisor, start);
    return -ENOENT;
  }
  const char *relative = path;
  while (*relative == '/')
    relative++;
  /* Without a symbolic link in it the path means the same to everybody. */
  long fd = sys_openat2((int)start, *relative ? relative : ".", HELD | (follow_last ? 0 : O_NOFOLLOW),
                        SYS_RESOLVE_NO_SYMLINKS);
  if (fd != -ELOOP && fd != -ENOSYS) {
    confine__target_release(supervisor, start);
    return fd;
  }
  for (size_t i = 0; i == 0 || path[i - 1]; i++)
    supervisor->rest[i] = path[i];
  int r;
  while ((r = step(&walk, follow_last)) > 0)
    ;
  if (r < 0) {
    go_to(&walk, -1);
    return r;
  }
  return walk.at == supervisor->root ? sys(__NR_fcntl, walk.at, F_DUPFD_CLOEXEC, 3) : walk.at;
}

/* Removes " (deleted)", which proc(5) puts behind the name of an unlinked object. */
static void strip_deleted(char *name, size_t length) {
  static const char mark[] = " (deleted)";
  size_t n = sizeof mark - 1;
  if (length > n && sys_streq(name + length - n, mark))
    name[length - n] = '\0';
}

long confine__target_name(struct confine__supervisor *supervisor, int fd) {
  char *out = supervisor->link;
  size_t size = sizeof supervisor->link;
  char path[40] = "/proc/self/fd/";
  sys_decimal((uint64_t)fd, path + 14);
  long n = sys(__NR_readlinkat, AT_FDCWD, path, out, size - 1);
  if (n >= 0)
    out[n] = '\0';
  return n;
}

/* Whether the object is what its name means beneath this root: then it may be acted on through it. */
static int beneath_root(const struct confine__root *root, const char *name, const struct stat *object,
                        int *target) {
  struct stat st;
  if (!sys_path_beneath(name, root->path))
    return 0;
  if (object->st_nlink == 0)
    return object->st_dev == root->device; /* nothing else can name it any more */
  const char *relative = name + sys_strlen(root->path);
  while (*relative == '/')
    relative++;
  long fd = *relative ? sys_openat2(root->fd, relative, HELD | O_NOFOLLOW,
                                    SYS_RESOLVE_BENEATH | SYS_RESOLVE_NO_SYMLINKS)
                      : sys(__NR_fcntl, root->fd, F_DUPFD_CLOEXEC, 3);
  if (fd < 0)
    return 0;
  if (sys(__NR_fstat, fd, &st) != 0 || st.st_dev != object->st_dev || st.st_ino != object->st_ino) {
    sys_close((int)fd);
    return 0;
  }
  sys_close(*target);
  *target = (int)fd;
  return 1;
}

/* The private areas exist in the command's tree only; asked for the first time that one could matter. */
static int is_private(struct confine__supervisor *supervisor, const struct stat *object) {
  static const char *const areas[] = {"dev", "dev/pts"};
  if (!(supervisor->flags & CONFINE__PLAN_MOUNTS))
    return 0;
  for (int i = 0; !supervisor->private_known && i < 2; i++) {
    struct stat st;
    long fd = sys_openat2(supervisor->root, areas[i], HELD, SYS_RESOLVE_NO_SYMLINKS);
    if (fd >= 0 && sys(__NR_fstat, fd, &st) == 0)
      supervisor->private_devices[i] = st.st_dev;
    if (fd >= 0)
      sys_close((int)fd);
  }
  supervisor->private_known = 1;
  return object->st_dev == supervisor->private_devices[0] || object->st_dev == supervisor->private_devices[1];
}

/* memfd_create(2): a file that never had a name. */
static int is_memory_file(const char *name) {
  static const char start[] = "/memfd:";
  for (size_t i = 0; start[i]; i++)
    if (name[i] != start[i])
      return 0;
  return 1;
}

/* statx(2); not every C library has its structure. Returns 0 where the kernel does not tell. */
static uint64_t mount_of(long fd) {
  struct {
    uint32_t mask, other[35];
    uint64_t mount, rest[13];
  } st = {.mask = 0};
  sys(__NR_statx, fd, "", SYS_AT_EMPTY_PATH, STATX_MOUNT, &st);
  return st.mask & STATX_MOUNT ? st.mount : 0;
}

/* An object whose name has been removed while it has others: it was found beneath this root if it was found in
 * the mount that the command sees there. */
static int removed_beneath(struct confine__supervisor *supervisor, const struct confine__root *root,
                           const struct stat *object, int target) {
  if (!sys_path_beneath(supervisor->link, root->path) || object->st_dev != root->device)
    return 0;
  const char *relative = root->path;
  while (*relative == '/')
    relative++;
  long place = sys_openat2(supervisor->root, *relative ? relative : ".", HELD, SYS_RESOLVE_NO_SYMLINKS);
  uint64_t mount = place < 0 ? 0 : mount_of(place);
  if (place >= 0)
    sys_close((int)place);
  return mount != 0 && mount == mount_of(target);
}

/* Judges the name in supervisor->link. Returns 1, 0, or -EAGAIN when it is beneath a root and yet not there:
 * somebody may have renamed it meanwhile. */
static int judge_name(struct confine__supervisor *supervisor, const struct stat *object, int *target) {
  int beneath = 0;
  for (size_t i = 0; i < supervisor->root_count; i++) {
    if (beneath_root(&supervisor->roots[i], supervisor->link, object, target))
      return 1;
    beneath |= sys_path_beneath(supervisor->link, supervisor->roots[i].path);
  }
  if (!beneath)
    return 0;
  size_t length = sys_strlen(supervisor->link);
  strip_deleted(supervisor->link, length);
  if (sys_strlen(supervisor->link) == length)
    return -EAGAIN;
  for (size_t i = 0; i < supervisor->root_count; i++)
    if (removed_beneath(supervisor, &supervisor->roots[i], object, *target))
      return 1;
  return -EAGAIN;
}

int confine__target_inside(struct confine__supervisor *supervisor, int *target) {
  int inside = -EAGAIN;
  for (int i = 0; inside == -EAGAIN && i < RENAMES_MAX; i++) {
    struct stat object;
    if (sys(__NR_fstat, *target, &object) != 0)
      return 0;
    if (is_private(supervisor, &object))
      return 1;
    long length = confine__target_name(supervisor, *target);
    if (length < 0)
      return 0;
    /* Pipes, sockets and anonymous files have no place in any tree. */
    if (supervisor->link[0] != '/')
      return 1;
    if (object.st_nlink == 0)
      strip_deleted(supervisor->link, (size_t)length);
    if (object.st_nlink == 0 && is_memory_file(supervisor->link))
      return 1;
    inside = judge_name(supervisor, &object, target);
  }
  return inside == 1;
}

int confine__target_named_inside(struct confine__supervisor *supervisor, int target) {
  struct stat object;
  if (confine__target_name(supervisor, target) < 0 || supervisor->link[0] != '/')
    return 1;
  for (size_t i = 0; i < supervisor->root_count; i++)
    if (sys_path_beneath(supervisor->link, supervisor->roots[i].path))
      return 1;
  return supervisor->flags & CONFINE__PLAN_MOUNTS && sys(__NR_fstat, target, &object) == 0 &&
         is_private(supervisor, &object);
}
