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
#define RENAME_NOREPLACE_FLAG 1
#define RENAME_EXCHANGE_FLAG 2
#define LINKS_MAX 40 /* as path_resolution(7) */
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
  long got = confine__process_read(tid, "/comm", comm, 16);
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

/* Whether the caller's ordinary permissions allow this; a read-only mount of the runner's is the policy, not a
 * permission. */
static int permitted(const struct confine__supervisor *supervisor, int object, int mode) {
  long r = sys(NR_FACCESSAT2, object, "", mode, SYS_AT_EMPTY_PATH | EFFECTIVE);
  return r == 0 || (r == -EROFS && supervisor->refusal == EROFS);
}

/* A path in two: its parent directory, opened, and the last name. */
struct place {
  long parent;
  int slash; /* behind the name, which then means a directory */
  char name[NAME_LIMIT + 1];
};

static void release(struct place *place) {
  if (place->parent >= 0)
    sys_close((int)place->parent);
  place->parent = -1;
}

/* Opens the parent of what supervisor->path names, from where the path starts. Takes from over. */
static int find_parent(const struct observed *call, long from, struct place *place) {
  struct confine__supervisor *supervisor = call->supervisor;
  char *path = supervisor->path;
  size_t end = sys_strlen(path);
  place->slash = end > 1 && path[end - 1] == '/';
  while (end > 1 && path[end - 1] == '/')
    end--;
  size_t start = end;
  while (start > 0 && path[start - 1] != '/')
    start--;
  size_t length = end - start;
  for (size_t i = 0; i < length && length <= NAME_LIMIT; i++)
    place->name[i] = path[start + i];
  place->name[length <= NAME_LIMIT ? length : 0] = '\0';
  if (!place->name[0] || sys_streq(place->name, ".") || sys_streq(place->name, "..")) {
    confine__target_release(supervisor, from);
    place->parent = -1;
    return -EINVAL;
  }
  path[start] = '\0';
  place->parent = from < 0 || start == 0 ? from : confine__target_path(supervisor, call->tid, from, path, 1);
  return place->parent < 0 ? (int)place->parent : 0;
}

static int find_named(const struct observed *call, int dirfd, struct place *place) {
  return find_parent(call, confine__target_start(call->supervisor, call->tid, dirfd, call->supervisor->path), place);
}

/* Copies the path at an address to supervisor->path first. */
static int find_place(const struct observed *call, int dirfd, uint64_t address, struct place *place) {
  place->parent = -1;
  int r = confine__copy_string(call->tid, address, call->supervisor->path, sizeof call->supervisor->path);
  return r < 0 ? r : find_named(call, dirfd, place);
}

/* Goes on to what the symbolic link at the place names. */
static int follow_place(const struct observed *call, struct place *place) {
  struct confine__supervisor *supervisor = call->supervisor;
  char *path = supervisor->path;
  long n = sys(__NR_readlinkat, place->parent, place->name, path, sizeof supervisor->path - 1);
  path[n > 0 ? n : 0] = '\0';
  long from = path[0] == '/' ? supervisor->root : place->parent;
  if (path[0] == '/')
    release(place);
  return find_parent(call, from, place);
}

static int exists(const struct place *place, struct stat *st) {
  return sys(__NR_newfstatat, place->parent, place->name, st, 0x100 /* the link itself */) == 0;
}

/* Without a writable root, in mode read-only, no name may be made anywhere, private areas included. */
static int outside(const struct observed *call, const struct place *place) {
  return !call->supervisor->root_count || !confine__target_named_inside(call->supervisor, (int)place->parent);
}

/* Making or removing a name needs writing and searching its directory. */
static int may_change(const struct observed *call, const struct place *place) {
  return permitted(call->supervisor, (int)place->parent, W | X);
}

/* A sticky directory lets only owners remove (inode(7)). */
static int may_remove(const struct observed *call, const struct place *place, const struct stat *st) {
  struct stat parent;
  if (!may_change(call, place) || sys(__NR_fstat, place->parent, &parent) != 0)
    return 0;
  if (!(parent.st_mode & S_ISVTX))
    return 1;
  struct confine__caller caller = confine__identity_of(call->supervisor);
  return caller.fsuid == st->st_uid || caller.fsuid == parent.st_uid || (caller.effective & (1ull << CAP_FOWNER));
}

/* Whether a directory holds nothing; one that cannot be read may. */
static int is_empty(const struct place *place) {
  char entries[1024];
  long fd = sys_openat((int)place->parent, place->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
  if (fd < 0)
    return 1;
  /* What does not fit, or takes a second call, is more than "." and "..". */
  long got = sys(__NR_getdents64, fd, entries, sizeof entries), count = 0;
  for (long at = 0; at < got; count++) {
    uint16_t length;
    __builtin_memcpy(&length, entries + at + 16, sizeof length);
    at += length;
  }
  sys_close((int)fd);
  return count <= 2;
}

/* Whether an object already under the new name lets another take its place (rename(2)). */
static int may_replace(const struct observed *call, const struct place *place, const struct stat *by) {
  struct stat st;
  if (!exists(place, &st))
    return 1;
  if (S_ISDIR(st.st_mode) != S_ISDIR(by->st_mode) || !may_remove(call, place, &st))
    return 0;
  return !S_ISDIR(st.st_mode) || is_empty(place);
}

/* Nothing is moved or linked between file systems, whatever the policy. */
static int on_one_file_system(const struct stat *object, const struct place *place) {
  struct stat parent;
  return sys(__NR_fstat, place->parent, &parent) == 0 && parent.st_dev == object->st_dev;
}

/* Records a new name that may be made but for the policy. */
static void made_name(const struct observed *call, struct place *place, int operation) {
  struct stat st;
  if (outside(call, place) && confine__identity_take(call->supervisor, call->tid) == 0 && !exists(place, &st) &&
      may_change(call, place))
    record_in(call, operation, (int)place->parent, place->name);
}

static void new_name(const struct observed *call, int dirfd, uint64_t path, int operation) {
  struct place place;
  if (find_place(call, dirfd, path, &place) == 0)
    made_name(call, &place, operation);
  release(&place);
}

static void removed_name(const struct observed *call, int dirfd, uint64_t path, int directory) {
  struct place place;
  struct stat st;
  if (find_place(call, dirfd, path, &place) == 0 && outside(call, &place) &&
      confine__identity_take(call->supervisor, call->tid) == 0 && exists(&place, &st) &&
      S_ISDIR(st.st_mode) == directory && may_remove(call, &place, &st) && (!directory || is_empty(&place)))
    record_in(call, directory ? CONFINE__OPERATION_RMDIR : CONFINE__OPERATION_UNLINK, (int)place.parent, place.name);
  release(&place);
}

static void moved_name(const struct observed *call, int from, uint64_t source, int to, uint64_t destination,
                       uint64_t flags) {
  struct place old, new = {.parent = -1};
  struct stat st, other;
  if (find_place(call, from, source, &old) == 0 && find_place(call, to, destination, &new) == 0) {
    int old_outside = outside(call, &old), new_outside = outside(call, &new);
    if ((old_outside || new_outside) && confine__identity_take(call->supervisor, call->tid) == 0 &&
        exists(&old, &st) && on_one_file_system(&st, &new) && may_remove(call, &old, &st) && may_change(call, &new) &&
        (flags & RENAME_EXCHANGE_FLAG ? exists(&new, &other) && may_remove(call, &new, &other)
                                      : may_replace(call, &new, &st)) &&
        !(flags & RENAME_NOREPLACE_FLAG && exists(&new, &other))) {
      const struct place *refused = old_outside ? &old : &new;
      record_in(call, CONFINE__OPERATION_RENAME, (int)refused->parent, refused->name);
    }
  }
  release(&old);
  release(&new);
}

/* What belongs to somebody else is linked only by who may write it (proc(5), protected_hardlinks). */
static int may_link(const struct observed *call, int object, const struct stat *st) {
  struct confine__caller caller = confine__identity_of(call->supervisor);
  if (S_ISDIR(st->st_mode))
    return 0;
  if (caller.fsuid == st->st_uid || (caller.effective & (1ull << CAP_FOWNER)))
    return 1;
  return S_ISREG(st->st_mode) && !(st->st_mode & S_ISUID) &&
         (st->st_mode & (S_ISGID | S_IXGRP)) != (S_ISGID | S_IXGRP) && permitted(call->supervisor, object, R | W);
}

static void linked_object(const struct observed *call, int object, struct place *new) {
  struct confine__supervisor *supervisor = call->supervisor;
  struct stat st, other;
  int old_outside = !confine__target_named_inside(supervisor, object), new_outside = outside(call, new);
  if (!(old_outside || new_outside) || confine__identity_take(supervisor, call->tid) != 0 ||
      sys(__NR_fstat, object, &st) != 0 || !on_one_file_system(&st, new) || !may_link(call, object, &st) ||
      exists(new, &other) || !may_change(call, new))
    return;
  if (!old_outside) {
    record_in(call, CONFINE__OPERATION_LINK, (int)new->parent, new->name);
    return;
  }
  long length = confine__target_name(supervisor, object);
  if (length > 0)
    record(call, CONFINE__OPERATION_LINK, supervisor->refusal, supervisor->link, (size_t)length);
}

static void linked_name(const struct observed *call, int from, uint64_t source, int to, uint64_t destination,
                        uint64_t flags) {
  struct confine__supervisor *supervisor = call->supervisor;
  struct place new;
  long object;
  if (confine__copy_string(call->tid, source, supervisor->path, sizeof supervisor->path) != 0)
    return;
  if (flags & SYS_AT_EMPTY_PATH && !supervisor->path[0])
    object = confine__target_descriptor(call->tid, from);
  else
    object = confine__target_path(supervisor, call->tid,
                                  confine__target_start(supervisor, call->tid, from, supervisor->path),
                                  supervisor->path, (flags & AT_SYMLINK_FOLLOW_FLAG) != 0);
  if (object < 0)
    return;
  if (find_place(call, to, destination, &new) == 0)
    linked_object(call, (int)object, &new);
  release(&new);
  sys_close((int)object);
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
  if (confine__identity_take(supervisor, call->tid) != 0 || !permitted(supervisor, target, mode))
    return;
  long length = confine__target_name(supervisor, target);
  /* A read-only mount stops no device or pipe; that is Landlock's part. */
  if (length > 0)
    record(call, operation, S_ISREG(st.st_mode) ? supervisor->refusal : EACCES, supervisor->link, (size_t)length);
}

/* The same for what is no link, known by its parent: most such files are where they may be, and their directory
 * alone tells. */
static void written_place(const struct observed *call, const struct place *place, int mode) {
  if (!(mode & W) || !outside(call, place))
    return;
  long target = sys_openat((int)place->parent, place->name, HELD | O_NOFOLLOW, 0);
  if (target < 0)
    return;
  written_object(call, (int)target, CONFINE__OPERATION_OPEN, mode);
  sys_close((int)target);
}

/* Opens what a path in the caller's memory means, or returns a negated errno. */
static long find_object(const struct observed *call, int dirfd, uint64_t path, int follow) {
  struct confine__supervisor *supervisor = call->supervisor;
  int r = confine__copy_string(call->tid, path, supervisor->path, sizeof supervisor->path);
  if (r < 0)
    return r;
  long start = confine__target_start(supervisor, call->tid, dirfd, supervisor->path);
  return confine__target_path(supervisor, call->tid, start, supervisor->path, follow);
}

static int existing(const struct observed *call, int dirfd, uint64_t path, int follow, int operation, int mode) {
  long target = find_object(call, dirfd, path, follow);
  if (target < 0)
    return (int)target;
  if (mode & W)
    written_object(call, (int)target, operation, mode);
  sys_close((int)target);
  return 0;
}

/* A file without a name, in a directory. */
static void opened_nameless(const struct observed *call, int dirfd, uint64_t path) {
  struct confine__supervisor *supervisor = call->supervisor;
  struct stat st;
  long target = find_object(call, dirfd, path, 1);
  if (target < 0)
    return;
  if (sys(__NR_fstat, target, &st) == 0 && S_ISDIR(st.st_mode) &&
      !confine__target_named_inside(supervisor, (int)target) &&
      confine__identity_take(supervisor, call->tid) == 0 && permitted(supervisor, (int)target, W | X)) {
    long length = confine__target_name(supervisor, (int)target);
    if (length > 0)
      record(call, CONFINE__OPERATION_CREATE, supervisor->refusal, supervisor->link, (size_t)length);
  }
  sys_close((int)target);
}

static void opened(const struct observed *call, int dirfd, uint64_t path, uint64_t flags) {
  int follow = !(flags & O_NOFOLLOW);
  int mode = (flags & O_ACCMODE) == O_WRONLY ? W : (flags & O_ACCMODE) == O_RDONLY ? R : W | R;
  struct place place;
  struct stat st;
  if ((flags & O_TMPFILE) == O_TMPFILE) {
    opened_nameless(call, dirfd, path);
    return;
  }
  if (flags & O_DIRECTORY)
    return; /* never open for writing */
  if (flags & O_TRUNC)
    mode |= W;
  if (!(flags & O_CREAT)) {
    existing(call, dirfd, path, follow, CONFINE__OPERATION_OPEN, mode);
    return;
  }
  int r = find_place(call, dirfd, path, &place);
  if (r == 0 && place.slash)
    r = -EISDIR; /* whatever is there (open(2)) */
  int there = r == 0 && exists(&place, &st);
  int opens = there && !(flags & O_EXCL);
  if (opens && !S_ISLNK(st.st_mode)) {
    written_place(call, &place, mode);
  } else if (opens && existing(call, dirfd, path, follow, CONFINE__OPERATION_OPEN, mode) == -ENOENT && follow) {
    /* A symbolic link to nothing: what it names would be made. */
    for (int links = 0; r == 0 && there && S_ISLNK(st.st_mode) && links < LINKS_MAX; links++) {
      r = follow_place(call, &place);
      there = r == 0 && exists(&place, &st);
    }
  }
  if (r == 0 && !there)
    made_name(call, &place, CONFINE__OPERATION_CREATE);
  release(&place);
}

/* The flags of openat2(2) are in memory; reading them is only for the report. */
static void opened2(const struct observed *call) {
  struct sys_open_how how;
  if (argument(call, 3) < sizeof how || confine__copy_in(call->tid, argument(call, 2), &how, sizeof how) != 0)
    return;
  if (!(how.flags & O_PATH) && (how.flags & (O_ACCMODE | O_CREAT | O_TRUNC)))
    opened(call, (int)argument(call, 0), argument(call, 1), how.flags);
}

/* unix(7): a path that becomes a socket, and need not end in a zero byte. */
static void bound(const struct observed *call, uint64_t address, uint64_t size) {
  struct sockaddr_un name;
  struct place place;
  size_t offset = offsetof(struct sockaddr_un, sun_path);
  if (size <= offset || size > sizeof name || confine__copy_in(call->tid, address, &name, size) != 0 ||
      name.sun_family != AF_UNIX)
    return;
  for (size_t i = 0; i < size - offset; i++)
    call->supervisor->path[i] = name.sun_path[i];
  call->supervisor->path[size - offset] = '\0';
  if (call->supervisor->path[0] && find_named(call, AT_FDCWD, &place) == 0) {
    made_name(call, &place, CONFINE__OPERATION_BIND);
    release(&place);
  }
}

/* socketcall(2), only of 32-bit programs: bind's arguments lie in memory too. */
static void bound_by_socketcall(const struct observed *call) {
  uint32_t arguments[3];
  if (confine__copy_in(call->tid, argument(call, 1), arguments, sizeof arguments) == 0)
    bound(call, arguments[1], arguments[2]);
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
    moved_name(o, (int)a0, a1, (int)a2, a3, a4);
    break;
  case CONFINE__CALL_link: linked_name(o, here, a0, here, a1, 0); break;
  case CONFINE__CALL_linkat: linked_name(o, (int)a0, a1, (int)a2, a3, a4); break;
  case CONFINE__CALL_symlink: new_name(o, here, a1, CONFINE__OPERATION_SYMLINK); break;
  case CONFINE__CALL_symlinkat: new_name(o, (int)a1, a2, CONFINE__OPERATION_SYMLINK); break;
  case CONFINE__CALL_mkdir: new_name(o, here, a0, CONFINE__OPERATION_MKDIR); break;
  case CONFINE__CALL_mkdirat: new_name(o, (int)a0, a1, CONFINE__OPERATION_MKDIR); break;
  case CONFINE__CALL_mknod: new_name(o, here, a0, CONFINE__OPERATION_MKNOD); break;
  case CONFINE__CALL_mknodat: new_name(o, (int)a0, a1, CONFINE__OPERATION_MKNOD); break;
  case CONFINE__CALL_bind: bound(o, a1, a2); break;
  case CONFINE__CALL_socketcall: bound_by_socketcall(o); break;
  default: break;
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
    return owner || permitted(supervisor, target, W);
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
