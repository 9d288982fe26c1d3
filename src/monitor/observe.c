/*
 * The denial observer: what a call with write intent would do is judged before the kernel decides about it.
 * It reports a call that the policy refuses and that would otherwise have succeeded: the target, or its
 * parent, exists and the caller's ordinary permissions allow it. It never decides anything.
 */
#include "enter/sys.h"
#include "monitor/denials.h"
#include "monitor/supervisor.h"

#include "guard/calls.h"

#include <linux/capability.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

#define HELD (O_PATH | O_CLOEXEC)
#define NAME_LIMIT 255
#define AT_REMOVEDIR_FLAG 0x200
#define AT_SYMLINK_FOLLOW_FLAG 0x400
#define RENAME_EXCHANGE_FLAG 2
enum { NR_FACCESSAT2 = 439, R = 4, W = 2, X = 1, EFFECTIVE = 0x200 };

struct observed {
  struct confine__supervisor *supervisor;
  const struct seccomp_notif *notification;
  pid_t tid;
  int compat;
};

static uint64_t argument(const struct observed *call, int i) {
  uint64_t value = call->notification->data.args[i];
  return call->compat ? (uint32_t)value : value;
}

/* The name of the thread's program, for people (proc(5), comm). */
static void read_comm(pid_t tid, char comm[16]) {
  char path[48] = "/proc/";
  size_t n = 6 + sys_decimal((uint64_t)tid, path + 6);
  const char leaf[] = "/comm";
  for (size_t i = 0; i < sizeof leaf; i++)
    path[n + i] = leaf[i];
  long fd = sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
  long got = fd < 0 ? 0 : sys(__NR_read, fd, comm, 15);
  if (fd >= 0)
    sys_close((int)fd);
  for (long i = got > 0 ? got : 0; i < 16; i++)
    comm[i] = '\0';
  if (got > 0 && comm[got - 1] == '\n')
    comm[got - 1] = '\0';
}

static void record(const struct observed *call, int operation, int error, const char *path, size_t length) {
  struct confine__denial denial = {.operation = operation, .error = error, .pid = call->tid, .count = 1};
  read_comm(call->tid, denial.comm);
  confine__denials_add(call->supervisor->denials, &denial, path, length);
}

/* Records a name in the directory parent. */
static void record_in(const struct observed *call, int operation, int parent, const char *name) {
  struct confine__supervisor *supervisor = call->supervisor;
  long length = confine__target_name(supervisor, parent);
  if (length <= 0)
    return;
  size_t n = (size_t)length, m = sys_strlen(name);
  if (n + m + 2 > sizeof supervisor->link)
    return;
  if (supervisor->link[n - 1] != '/')
    supervisor->link[n++] = '/';
  for (size_t i = 0; i <= m; i++)
    supervisor->link[n + i] = name[i];
  record(call, operation, supervisor->refusal, supervisor->link, n + m);
}

/* Whether the caller's ordinary permissions allow this; a read-only mount is the policy, not a permission. */
static int permitted(int object, int mode) {
  long r = sys(NR_FACCESSAT2, object, "", mode, SYS_AT_EMPTY_PATH | EFFECTIVE);
  return r == 0 || r == -EROFS;
}

/* A path in two: its parent directory, opened, and the last name. */
struct place {
  long parent;
  char name[NAME_LIMIT + 1];
};

static void release(struct place *place) {
  if (place->parent >= 0)
    sys_close((int)place->parent);
  place->parent = -1;
}

/* Copies the path at an address to supervisor->path and opens the parent of what it names. */
static int find_place(const struct observed *call, int dirfd, uint64_t address, struct place *place) {
  struct confine__supervisor *supervisor = call->supervisor;
  char *path = supervisor->path;
  place->parent = -1;
  int r = confine__copy_string(call->tid, address, path, sizeof supervisor->path);
  if (r < 0)
    return r;
  size_t end = sys_strlen(path);
  while (end > 1 && path[end - 1] == '/')
    end--;
  size_t start = end;
  while (start > 0 && path[start - 1] != '/')
    start--;
  size_t length = end - start;
  if (!length || length > NAME_LIMIT)
    return -ENOENT;
  for (size_t i = 0; i < length; i++)
    place->name[i] = path[start + i];
  place->name[length] = '\0';
  if (sys_streq(place->name, ".") || sys_streq(place->name, ".."))
    return -EINVAL;
  long from = confine__target_start(supervisor, call->tid, dirfd, path);
  path[start] = '\0';
  place->parent = from < 0 || start == 0 ? from : confine__target_path(supervisor, call->tid, from, path, 1);
  return place->parent < 0 ? (int)place->parent : 0;
}

static int exists(const struct place *place, struct stat *st) {
  return sys(__NR_newfstatat, place->parent, place->name, st, 0x100 /* the link itself */) == 0;
}

static int outside(const struct observed *call, const struct place *place) {
  return !confine__target_named_inside(call->supervisor, (int)place->parent);
}

/* Making or removing a name needs writing and searching its directory. */
static int may_change(const struct place *place) {
  return permitted((int)place->parent, W | X);
}

/* A sticky directory lets only owners remove (inode(7)). */
static int may_remove(const struct observed *call, const struct place *place, const struct stat *st) {
  struct stat parent;
  if (!may_change(place) || sys(__NR_fstat, place->parent, &parent) != 0)
    return 0;
  if (!(parent.st_mode & S_ISVTX))
    return 1;
  struct confine__caller caller = confine__identity_of(call->supervisor);
  return caller.fsuid == st->st_uid || caller.fsuid == parent.st_uid || (caller.effective & (1ull << CAP_FOWNER));
}

/* Records a new name that may be made but for the policy. */
static void new_name(const struct observed *call, int dirfd, uint64_t path, int operation) {
  struct place place;
  struct stat st;
  if (find_place(call, dirfd, path, &place) == 0 && outside(call, &place) &&
      confine__identity_take(call->supervisor, call->tid) == 0 && !exists(&place, &st) && may_change(&place))
    record_in(call, operation, (int)place.parent, place.name);
  release(&place);
}

static void removed_name(const struct observed *call, int dirfd, uint64_t path, int directory) {
  struct place place;
  struct stat st;
  if (find_place(call, dirfd, path, &place) == 0 && outside(call, &place) &&
      confine__identity_take(call->supervisor, call->tid) == 0 && exists(&place, &st) &&
      S_ISDIR(st.st_mode) == directory && may_remove(call, &place, &st))
    record_in(call, directory ? CONFINE__OPERATION_RMDIR : CONFINE__OPERATION_UNLINK, (int)place.parent, place.name);
  release(&place);
}

static void moved_name(const struct observed *call, int from, uint64_t source, int to, uint64_t destination,
                       int exchange) {
  struct place old, new = {.parent = -1};
  struct stat st, other;
  if (find_place(call, from, source, &old) == 0 && find_place(call, to, destination, &new) == 0) {
    int old_outside = outside(call, &old), new_outside = outside(call, &new);
    if ((old_outside || new_outside) && confine__identity_take(call->supervisor, call->tid) == 0 &&
        exists(&old, &st) && may_remove(call, &old, &st) && may_change(&new) &&
        (!exchange || exists(&new, &other))) {
      const struct place *refused = old_outside ? &old : &new;
      record_in(call, CONFINE__OPERATION_RENAME, (int)refused->parent, refused->name);
    }
  }
  release(&old);
  release(&new);
}

static void linked_name(const struct observed *call, int from, uint64_t source, int to, uint64_t destination) {
  struct place old, new = {.parent = -1};
  struct stat st, other;
  if (find_place(call, from, source, &old) == 0 && find_place(call, to, destination, &new) == 0) {
    int old_outside = outside(call, &old), new_outside = outside(call, &new);
    if ((old_outside || new_outside) && confine__identity_take(call->supervisor, call->tid) == 0 &&
        exists(&old, &st) && !S_ISDIR(st.st_mode) && !exists(&new, &other) && may_change(&new)) {
      const struct place *refused = old_outside ? &old : &new;
      record_in(call, CONFINE__OPERATION_LINK, (int)refused->parent, refused->name);
    }
  }
  release(&old);
  release(&new);
}

/* The nodes that every mode lets be written. */
static int is_granted_device(const struct stat *st) {
  unsigned a = major(st->st_rdev), b = minor(st->st_rdev);
  if (!S_ISCHR(st->st_mode))
    return 0;
  if (a == 1)
    return b == 3 || b == 5 || b == 7 || b == 8 || b == 9;
  return (a == 5 && (b == 0 || b == 2)) || (a >= 136 && a <= 143);
}

/* An object that is there and would be opened for writing, or truncated. */
static void written_object(const struct observed *call, int target, int operation, int mode) {
  struct confine__supervisor *supervisor = call->supervisor;
  struct stat st;
  if (sys(__NR_fstat, target, &st) != 0 || S_ISDIR(st.st_mode) || S_ISLNK(st.st_mode) || S_ISSOCK(st.st_mode) ||
      is_granted_device(&st) || confine__target_named_inside(supervisor, target))
    return;
  if (confine__identity_take(supervisor, call->tid) != 0 || !permitted(target, mode))
    return;
  long length = confine__target_name(supervisor, target);
  /* A read-only mount stops no device or pipe; that is Landlock's part. */
  if (length > 0)
    record(call, operation, S_ISREG(st.st_mode) ? supervisor->refusal : EACCES, supervisor->link, (size_t)length);
}

static void existing(const struct observed *call, int dirfd, uint64_t path, int follow, int operation, int mode) {
  struct confine__supervisor *supervisor = call->supervisor;
  if (confine__copy_string(call->tid, path, supervisor->path, sizeof supervisor->path) != 0)
    return;
  long start = confine__target_start(supervisor, call->tid, dirfd, supervisor->path);
  long target = confine__target_path(supervisor, call->tid, start, supervisor->path, follow);
  if (target < 0)
    return;
  written_object(call, (int)target, operation, mode);
  sys_close((int)target);
}

static void opened(const struct observed *call, int dirfd, uint64_t path, uint64_t flags) {
  int follow = !(flags & O_NOFOLLOW);
  int mode = (flags & O_ACCMODE) == O_WRONLY ? W : W | R;
  struct place place;
  struct stat st;
  if ((flags & O_TMPFILE) == O_TMPFILE) {
    existing(call, dirfd, path, 1, CONFINE__OPERATION_CREATE, 0);
    return;
  }
  if (!(flags & O_CREAT)) {
    existing(call, dirfd, path, follow, CONFINE__OPERATION_OPEN, mode);
    return;
  }
  /* Most are new files where they may be: the parent alone tells. */
  int r = find_place(call, dirfd, path, &place);
  int there = r == 0 && exists(&place, &st);
  if (r == 0 && !there && outside(call, &place) && confine__identity_take(call->supervisor, call->tid) == 0 &&
      may_change(&place))
    record_in(call, CONFINE__OPERATION_CREATE, (int)place.parent, place.name);
  release(&place);
  if (there && !(flags & O_EXCL))
    existing(call, dirfd, path, follow, CONFINE__OPERATION_OPEN, mode);
}

/* The flags of openat2(2) are in memory; reading them is only for the report. */
static void opened2(const struct observed *call) {
  struct sys_open_how how;
  if (argument(call, 3) < sizeof how || confine__copy_in(call->tid, argument(call, 2), &how, sizeof how) != 0)
    return;
  if (!(how.flags & O_PATH) && (how.flags & (O_ACCMODE | O_CREAT | O_TRUNC)))
    opened(call, (int)argument(call, 0), argument(call, 1), how.flags);
}

/* unix(7): a path that becomes a socket. */
static void bound(const struct observed *call, uint64_t address, uint64_t size) {
  struct sockaddr_un name;
  size_t offset = offsetof(struct sockaddr_un, sun_path);
  if (size <= offset || size > sizeof name)
    return;
  for (size_t i = 0; i < sizeof name.sun_path; i++)
    name.sun_path[i] = '\0';
  if (confine__copy_in(call->tid, address, &name, size) == 0 && name.sun_family == AF_UNIX && name.sun_path[0])
    new_name(call, AT_FDCWD, address + offset, CONFINE__OPERATION_BIND);
}

void confine__observe_call(struct confine__supervisor *supervisor, const struct seccomp_notif *notification, int call) {
  struct observed seen = {.supervisor = supervisor,
                          .notification = notification,
                          .tid = (pid_t)notification->pid,
                          .compat = notification->data.arch != CONFINE__NATIVE_ARCH};
  const struct observed *o = &seen;
  uint64_t a0 = argument(o, 0), a1 = argument(o, 1), a2 = argument(o, 2), a3 = argument(o, 3), a4 = argument(o, 4);
  int here = AT_FDCWD;
  switch (call) {
  case CONFINE__CALL_open: opened(o, here, a0, a1); break;
  case CONFINE__CALL_openat: opened(o, (int)a0, a1, a2); break;
  case CONFINE__CALL_openat2: opened2(o); break;
  case CONFINE__CALL_creat: opened(o, here, a0, O_CREAT | O_WRONLY | O_TRUNC); break;
  case CONFINE__CALL_truncate:
  case CONFINE__CALL_truncate64: existing(o, here, a0, 1, CONFINE__OPERATION_TRUNCATE, W); break;
  case CONFINE__CALL_unlink: removed_name(o, here, a0, 0); break;
  case CONFINE__CALL_unlinkat: removed_name(o, (int)a0, a1, (a2 & AT_REMOVEDIR_FLAG) != 0); break;
  case CONFINE__CALL_rmdir: removed_name(o, here, a0, 1); break;
  case CONFINE__CALL_rename: moved_name(o, here, a0, here, a1, 0); break;
  case CONFINE__CALL_renameat: moved_name(o, (int)a0, a1, (int)a2, a3, 0); break;
  case CONFINE__CALL_renameat2:
    moved_name(o, (int)a0, a1, (int)a2, a3, (a4 & RENAME_EXCHANGE_FLAG) != 0);
    break;
  case CONFINE__CALL_link: linked_name(o, here, a0, here, a1); break;
  case CONFINE__CALL_linkat: linked_name(o, (int)a0, a1, (int)a2, a3); break;
  case CONFINE__CALL_symlink: new_name(o, here, a1, CONFINE__OPERATION_SYMLINK); break;
  case CONFINE__CALL_symlinkat: new_name(o, (int)a1, a2, CONFINE__OPERATION_SYMLINK); break;
  case CONFINE__CALL_mkdir: new_name(o, here, a0, CONFINE__OPERATION_MKDIR); break;
  case CONFINE__CALL_mkdirat: new_name(o, (int)a0, a1, CONFINE__OPERATION_MKDIR); break;
  case CONFINE__CALL_mknod: new_name(o, here, a0, CONFINE__OPERATION_MKNOD); break;
  case CONFINE__CALL_mknodat: new_name(o, (int)a0, a1, CONFINE__OPERATION_MKNOD); break;
  case CONFINE__CALL_bind: bound(o, a1, a2); break;
  default: break; /* socketcall(2), whose arguments lie in memory twice over: not observed */
  }
  confine__identity_return(supervisor);
}

/* What may change an object's metadata but for the policy: its owner, or whom the kernel lets instead. */
static int may_change_metadata(const struct confine__supervisor *supervisor, int target, int operation, int now) {
  struct stat st;
  struct confine__caller caller = confine__identity_of(supervisor);
  if (sys(__NR_fstat, target, &st) != 0)
    return 0;
  int owner = caller.fsuid == st.st_uid || (caller.effective & (1ull << CAP_FOWNER));
  if (operation == CONFINE__OPERATION_XATTR || now)
    return owner || permitted(target, W);
  if (operation == CONFINE__OPERATION_CHOWN)
    return owner || (caller.effective & (1ull << CAP_CHOWN));
  return owner;
}

void confine__observe_metadata(struct confine__supervisor *supervisor, const struct seccomp_notif *notification,
                               int target, int operation, int now) {
  struct observed seen = {.supervisor = supervisor, .notification = notification, .tid = (pid_t)notification->pid};
  if (!supervisor->denials || !may_change_metadata(supervisor, target, operation, now))
    return;
  long length = confine__target_name(supervisor, target);
  if (length > 0)
    record(&seen, operation, supervisor->refusal, supervisor->link, (size_t)length);
}
