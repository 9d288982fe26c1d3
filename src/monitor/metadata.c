/*
 * Metadata calls: chmod, chown, utimes, xattr, inode flags and file_setattr in every form. Each is decoded
 * to an object and a change; the object is opened here, judged, and changed by this process with the
 * caller's identity.
 */
#include "enter/sys.h"
#include "monitor/denials.h"
#include "monitor/supervisor.h"

#include "guard/calls.h"

#include <linux/fs.h>
#include <time.h>

#define HELD (O_PATH | O_CLOEXEC)
#define AT_SYMLINK_NOFOLLOW_FLAG 0x100
#define NEWEST(name, number) \
  enum { name = number }
NEWEST(NR_FCHMODAT2, 452);
NEWEST(NR_FILE_SETATTR, 469);
/* The requests of a 32-bit caller, whose `long` is 4 bytes. */
#define SETFLAGS_32 0x40046602u

#define UTIME_OMIT_NS ((1l << 30) - 2l)
#define UTIME_NOW_NS ((1l << 30) - 1l)

/* Linux 6.13, setxattrat(2). */
struct xattr_arguments {
  uint64_t value;
  uint32_t size, flags;
};

struct change {
  struct confine__supervisor *supervisor;
  const struct seccomp_notif *notification;
  pid_t tid;
  int compat; /* 32-bit caller */
  int dirfd;
  uint64_t path;  /* address, or 0 */
  int descriptor; /* the object is dirfd itself */
  int follow;
  /* What the caller's memory held, copied once. */
  int timed;
  struct timespec times[2];
  uint32_t value_size, value_flags; /* of supervisor->value */
};

static uint64_t argument(const struct change *change, int i) {
  uint64_t value = change->notification->data.args[i];
  return change->compat ? (uint32_t)value : value;
}

static void by_path(struct change *change, int dirfd, int path_index, int follow) {
  change->dirfd = dirfd;
  change->path = argument(change, path_index);
  change->follow = follow;
}

static void by_descriptor(struct change *change, int index) {
  change->dirfd = (int)argument(change, index);
  change->descriptor = 1;
}

/* A path relative to a directory, with flags as in fchownat(2). */
static int by_flags(struct change *change, uint64_t flags) {
  if (flags & ~(uint64_t)(AT_SYMLINK_NOFOLLOW_FLAG | SYS_AT_EMPTY_PATH))
    return -EINVAL;
  by_path(change, (int)argument(change, 0), 1, !(flags & AT_SYMLINK_NOFOLLOW_FLAG));
  if (!(flags & SYS_AT_EMPTY_PATH))
    return 0;
  char first;
  /* Since Linux 6.11 a null path means an empty one. */
  if (change->path) {
    int r = confine__copy_in(change->tid, change->path, &first, 1);
    if (r < 0 || first)
      return r;
  }
  change->descriptor = 1;
  return 0;
}

/* Opens the object as the kernel would have found it for the caller, and takes on the caller's identity. */
static long open_target(struct change *change) {
  struct confine__supervisor *supervisor = change->supervisor;
  const char *path = supervisor->path;
  long start;
  if (change->descriptor && change->dirfd != AT_FDCWD) {
    start = confine__target_descriptor(change->tid, change->dirfd);
  } else {
    int r = 0;
    if (change->descriptor)
      path = ".";
    else
      r = confine__copy_string(change->tid, change->path, supervisor->path, sizeof supervisor->path);
    if (r < 0)
      return r;
    start = confine__target_start(supervisor, change->tid, change->dirfd, path);
  }
  uint64_t id = change->notification->id;
  /* Its pid may have been given to another process before it was looked into. */
  long r = start < 0 ? start : sys(__NR_ioctl, supervisor->listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id);
  if (r == 0)
    r = confine__identity_take(supervisor, change->tid);
  if (r < 0) {
    if (start >= 0)
      sys_close((int)start);
    return r;
  }
  if (change->descriptor && change->dirfd != AT_FDCWD)
    return start;
  return confine__target_path(supervisor, change->tid, start, path, change->follow);
}

/* For calls without a form that takes an O_PATH descriptor: the object under a name of our own. */
static const char *own_name(int target, char *out) {
  const char start[] = "/proc/self/fd/";
  for (size_t i = 0; i < sizeof start; i++)
    out[i] = start[i];
  sys_decimal((uint64_t)target, out + sizeof start - 1);
  return out;
}

static long do_chmod(int target, uint32_t mode) {
  char name[48];
  long r = sys(NR_FCHMODAT2, target, "", mode, SYS_AT_EMPTY_PATH);
  if (r != -ENOSYS)
    return r;
  struct stat st;
  if (sys(__NR_fstat, target, &st) == 0 && S_ISLNK(st.st_mode))
    return -EOPNOTSUPP;
  return sys(__NR_fchmodat, AT_FDCWD, own_name(target, name), mode);
}

static long do_chown(int target, uint64_t uid, uint64_t gid) {
  return sys(__NR_fchownat, target, "", (uint32_t)uid, (uint32_t)gid, SYS_AT_EMPTY_PATH);
}

/* -1 in 16 bits means "leave" as it does in 32. */
static uint64_t wide_id(uint64_t id) {
  return (id & 0xffff) == 0xffff ? UINT32_MAX : id & 0xffff;
}

enum time_form { TIMESPEC, TIMESPEC_32, TIMEVAL, UTIMBUF };

static int32_t low_word(const void *bytes, int i) {
  int32_t value;
  __builtin_memcpy(&value, (const char *)bytes + 4 * i, sizeof value);
  return value;
}

static int64_t long_word(const void *bytes, int i) {
  int64_t value;
  __builtin_memcpy(&value, (const char *)bytes + 8 * i, sizeof value);
  return value;
}

/* Brings one of the four layouts into that of utimensat(2). */
static int read_times(struct change *change, uint64_t address, enum time_form form) {
  struct timespec *times = change->times;
  int64_t raw[4] = {0};
  change->timed = address != 0;
  if (!address)
    return 0;
  int narrow = form == TIMESPEC_32 || (change->compat && form != TIMESPEC);
  size_t words = form == UTIMBUF ? 2 : 4;
  int r = confine__copy_in(change->tid, address, raw, words * (narrow ? 4 : 8));
  if (r < 0)
    return r;
  for (int i = 0; i < 2; i++) {
    int at = form == UTIMBUF ? i : 2 * i;
    times[i].tv_sec = (time_t)(narrow ? low_word(raw, at) : long_word(raw, at));
    int64_t fraction = form == UTIMBUF ? 0 : narrow ? low_word(raw, at + 1) : long_word(raw, at + 1);
    if (form == TIMEVAL && (fraction < 0 || fraction >= 1000000))
      return -EINVAL;
    times[i].tv_nsec = (long)(form == TIMEVAL ? fraction * 1000 : fraction);
  }
  return 0;
}

static long do_utimes(const struct change *change, int target) {
  const struct timespec *times = change->timed ? change->times : NULL;
  if (times && times[0].tv_nsec == UTIME_OMIT_NS && times[1].tv_nsec == UTIME_OMIT_NS)
    return 0;
  long done = sys(__NR_utimensat, target, "", times, SYS_AT_EMPTY_PATH);
  if (done != -EINVAL && done != -ENOENT)
    return done;
  /* Linux before 5.8 knows no empty path here; an invalid time is still invalid the second time. */
  char name[48];
  return sys(__NR_utimensat, AT_FDCWD, own_name(target, name), times, 0);
}

static int read_attribute(struct change *change, uint64_t address) {
  int r = confine__copy_string(change->tid, address, change->supervisor->attribute,
                               sizeof change->supervisor->attribute);
  return r == -ENAMETOOLONG ? -ERANGE : r;
}

static int read_value(struct change *change, uint64_t address, uint64_t size, uint64_t flags, uint64_t limit) {
  if (size > limit)
    return -E2BIG;
  change->value_size = (uint32_t)size;
  change->value_flags = (uint32_t)flags;
  return size ? confine__copy_in(change->tid, address, change->supervisor->value, size) : 0;
}

static int read_xattr(struct change *change) {
  int r = read_attribute(change, argument(change, 1));
  return r < 0 ? r
               : read_value(change, argument(change, 2), argument(change, 3), argument(change, 4), CONFINE__VALUE_MAX);
}

static int read_xattrat(struct change *change) {
  struct xattr_arguments arguments = {0};
  uint64_t size = argument(change, 5);
  if (size < sizeof arguments)
    return -EINVAL;
  if (size > sizeof arguments)
    return -E2BIG;
  int r = confine__copy_in(change->tid, argument(change, 4), &arguments, sizeof arguments);
  if (r == 0)
    r = read_attribute(change, argument(change, 3));
  return r < 0 ? r : read_value(change, arguments.value, arguments.size, arguments.flags, CONFINE__VALUE_MAX);
}

/* Everything the change needs of the caller's memory, besides the path. */
static int collect(struct change *change, int call) {
  switch (call) {
  case CONFINE__CALL_utime:
    return read_times(change, argument(change, 1), UTIMBUF);
  case CONFINE__CALL_utimes:
    return read_times(change, argument(change, 1), TIMEVAL);
  case CONFINE__CALL_futimesat:
    return read_times(change, argument(change, 2), TIMEVAL);
  case CONFINE__CALL_utimensat:
    return read_times(change, argument(change, 2), change->compat ? TIMESPEC_32 : TIMESPEC);
  case CONFINE__CALL_utimensat_time64:
    return read_times(change, argument(change, 2), TIMESPEC);
  case CONFINE__CALL_setxattr:
  case CONFINE__CALL_lsetxattr:
  case CONFINE__CALL_fsetxattr:
    return read_xattr(change);
  case CONFINE__CALL_setxattrat:
    return read_xattrat(change);
  case CONFINE__CALL_removexattr:
  case CONFINE__CALL_lremovexattr:
  case CONFINE__CALL_fremovexattr:
    return read_attribute(change, argument(change, 1));
  case CONFINE__CALL_removexattrat:
    return read_attribute(change, argument(change, 3));
  case CONFINE__CALL_ioctl:
    return read_value(change, argument(change, 2),
                      (uint32_t)argument(change, 1) == FS_IOC_FSSETXATTR ? sizeof(struct fsxattr) : 4, 0, 64);
  case CONFINE__CALL_file_setattr:
    return read_value(change, argument(change, 2), argument(change, 3), 0, 4096);
  default:
    return 0;
  }
}

/* setxattrat(2) takes no O_PATH descriptor. */
static long do_setxattr(const struct change *change, int target) {
  const struct confine__supervisor *supervisor = change->supervisor;
  char name[48];
  return sys(__NR_setxattr, own_name(target, name), supervisor->attribute, supervisor->value, change->value_size,
             change->value_flags);
}

static long do_removexattr(const struct change *change, int target) {
  char name[48];
  return sys(__NR_removexattr, own_name(target, name), change->supervisor->attribute);
}

/* These need the object open. The caller has it open, so reading it has been allowed once. */
static long do_ioctl(const struct change *change, int target) {
  char name[48];
  uint32_t request = (uint32_t)argument(change, 1);
  long fd = sys_openat(AT_FDCWD, own_name(target, name), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0);
  if (fd < 0)
    return fd;
  /* The kernel reads an int although the request number says long. */
  long done = sys(__NR_ioctl, fd, request == SETFLAGS_32 ? FS_IOC_SETFLAGS : (unsigned long)request,
                  change->supervisor->value);
  sys_close((int)fd);
  return done;
}

/* Which object: fills the change's dirfd, path, follow and descriptor. */
static int locate(struct change *change, int call) {
  switch (call) {
  case CONFINE__CALL_fchmod:
  case CONFINE__CALL_fchown:
  case CONFINE__CALL_fchown32:
  case CONFINE__CALL_fsetxattr:
  case CONFINE__CALL_fremovexattr:
  case CONFINE__CALL_ioctl:
    by_descriptor(change, 0);
    return 0;
  case CONFINE__CALL_lchown:
  case CONFINE__CALL_lchown32:
  case CONFINE__CALL_lsetxattr:
  case CONFINE__CALL_lremovexattr:
    by_path(change, AT_FDCWD, 0, 0);
    return 0;
  case CONFINE__CALL_fchmodat:
    by_path(change, (int)argument(change, 0), 1, 1);
    return 0;
  case CONFINE__CALL_fchmodat2:
    return by_flags(change, argument(change, 3));
  case CONFINE__CALL_fchownat:
  case CONFINE__CALL_file_setattr:
    return by_flags(change, argument(change, 4));
  case CONFINE__CALL_setxattrat:
  case CONFINE__CALL_removexattrat:
    return by_flags(change, argument(change, 2));
  case CONFINE__CALL_futimesat:
    by_path(change, (int)argument(change, 0), 1, 1);
    change->descriptor = !change->path;
    return 0;
  case CONFINE__CALL_utimensat:
  case CONFINE__CALL_utimensat_time64:
    if (!argument(change, 1)) {
      by_descriptor(change, 0);
      return argument(change, 3) & ~(uint64_t)SYS_AT_EMPTY_PATH ? -EINVAL : 0;
    }
    return by_flags(change, argument(change, 3));
  default: /* chmod, chown, utime, utimes, setxattr, removexattr */
    by_path(change, AT_FDCWD, 0, 1);
    return 0;
  }
}

static long apply(const struct change *change, int call, int target) {
  uint64_t a1 = argument(change, 1), a2 = argument(change, 2), a3 = argument(change, 3);
  switch (call) {
  case CONFINE__CALL_chmod:
  case CONFINE__CALL_fchmod:
    return do_chmod(target, (uint32_t)a1);
  case CONFINE__CALL_fchmodat:
  case CONFINE__CALL_fchmodat2:
    return do_chmod(target, (uint32_t)a2);
  case CONFINE__CALL_chown:
  case CONFINE__CALL_lchown:
  case CONFINE__CALL_fchown:
    return change->compat ? do_chown(target, wide_id(a1), wide_id(a2)) : do_chown(target, a1, a2);
  case CONFINE__CALL_chown32:
  case CONFINE__CALL_lchown32:
  case CONFINE__CALL_fchown32:
    return do_chown(target, a1, a2);
  case CONFINE__CALL_fchownat:
    return do_chown(target, a2, a3);
  case CONFINE__CALL_utime:
  case CONFINE__CALL_utimes:
  case CONFINE__CALL_futimesat:
  case CONFINE__CALL_utimensat:
  case CONFINE__CALL_utimensat_time64:
    return do_utimes(change, target);
  case CONFINE__CALL_setxattr:
  case CONFINE__CALL_lsetxattr:
  case CONFINE__CALL_fsetxattr:
  case CONFINE__CALL_setxattrat:
    return do_setxattr(change, target);
  case CONFINE__CALL_removexattr:
  case CONFINE__CALL_lremovexattr:
  case CONFINE__CALL_fremovexattr:
  case CONFINE__CALL_removexattrat:
    return do_removexattr(change, target);
  case CONFINE__CALL_ioctl:
    return do_ioctl(change, target);
  case CONFINE__CALL_file_setattr:
    return sys(NR_FILE_SETATTR, target, "", change->supervisor->value, change->value_size, SYS_AT_EMPTY_PATH);
  default:
    return -ENOSYS;
  }
}

static int operation_of(int call) {
  switch (call) {
  case CONFINE__CALL_chmod:
  case CONFINE__CALL_fchmod:
  case CONFINE__CALL_fchmodat:
  case CONFINE__CALL_fchmodat2:
    return CONFINE__OPERATION_CHMOD;
  case CONFINE__CALL_utime:
  case CONFINE__CALL_utimes:
  case CONFINE__CALL_futimesat:
  case CONFINE__CALL_utimensat:
  case CONFINE__CALL_utimensat_time64:
    return CONFINE__OPERATION_UTIMES;
  case CONFINE__CALL_ioctl:
  case CONFINE__CALL_file_setattr:
    return CONFINE__OPERATION_FLAGS;
  case CONFINE__CALL_setxattr:
  case CONFINE__CALL_lsetxattr:
  case CONFINE__CALL_fsetxattr:
  case CONFINE__CALL_setxattrat:
  case CONFINE__CALL_removexattr:
  case CONFINE__CALL_lremovexattr:
  case CONFINE__CALL_fremovexattr:
  case CONFINE__CALL_removexattrat:
    return CONFINE__OPERATION_XATTR;
  default:
    return CONFINE__OPERATION_CHOWN;
  }
}

static int is_now(const struct change *change, int call) {
  if (operation_of(call) != CONFINE__OPERATION_UTIMES)
    return 0;
  return !change->timed ||
         (change->times[0].tv_nsec == UTIME_NOW_NS && change->times[1].tv_nsec == UTIME_NOW_NS);
}

long confine__metadata_call(struct confine__supervisor *supervisor, const struct seccomp_notif *notification,
                            int call) {
  struct change change = {.supervisor = supervisor,
                          .notification = notification,
                          .tid = (pid_t)notification->pid,
                          .compat = notification->data.arch != CONFINE__NATIVE_ARCH};
  int r = locate(&change, call);
  if (r == 0)
    r = collect(&change, call);
  if (r < 0)
    return r;
  long target = open_target(&change);
  if (target >= 0) {
    int fd = (int)target;
    if (confine__target_inside(supervisor, &fd)) {
      target = apply(&change, call, fd);
    } else {
      target = -supervisor->refusal;
      confine__observe_metadata(supervisor, notification, fd, operation_of(call), is_now(&change, call));
    }
    sys_close(fd);
  }
  confine__identity_return(supervisor);
  return target;
}
