/*
 * Metadata calls: chmod, chown, utimes, xattr, inode flags and file_setattr in every form. Each is decoded
 * to an object and a change; the object is opened here, judged, and changed by this process with the
 * caller's identity.
 */
#include "enter/sys.h"
#include "monitor/denials.h"
#include "monitor/supervisor.h"

#include "guard/calls.h"

#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/xattr.h>
#include <time.h>

#define AT_SYMLINK_NOFOLLOW_FLAG 0x100
#define NEWEST(name, number) \
  enum { name = number }
NEWEST(NR_FCHMODAT2, 452);
NEWEST(NR_FILE_SETATTR, 469);
/* The requests of a 32-bit caller, whose `long` is 4 bytes. */
#define SETFLAGS_32 0x40046602u

#define FILE_ATTR_SIZE 24 /* of the first file_setattr(2), Linux 6.17 */

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
  int open;       /* which must be open for more than its path */
  int copy;       /* then this process's copy of the descriptor, else -1 */
  long start;     /* where the object is, or a path to it starts: a descriptor of this process */
  int follow;
  /* What the caller's memory held, copied once. */
  int timed;
  struct timespec times[2];
  uint32_t value_size, value_flags; /* of supervisor->value */
  int value_missing;
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

static void by_descriptor(struct change *change) {
  change->dirfd = (int)argument(change, 0);
  change->descriptor = 1;
  change->open = 1;
}

/* A path relative to a directory, with flags as in fchownat(2). */
static int by_flags(struct change *change, int flags_index) {
  uint32_t flags = (uint32_t)argument(change, flags_index);
  if (flags & ~(uint32_t)(AT_SYMLINK_NOFOLLOW_FLAG | SYS_AT_EMPTY_PATH))
    return -EINVAL;
  by_path(change, (int)argument(change, 0), 1, !(flags & AT_SYMLINK_NOFOLLOW_FLAG));
  if (!(flags & SYS_AT_EMPTY_PATH))
    return 0;
  char first;
  int r = confine__copy_in(change->tid, change->path, &first, 1);
  change->descriptor = r == 0 && !first;
  return r;
}

/* The newest calls: a null path is as good as an empty one, and the descriptor must be open. */
static int by_flags_or_null(struct change *change, int flags_index) {
  int r = by_flags(change, flags_index);
  if (r == -EFAULT && !change->path) {
    change->descriptor = 1;
    r = 0;
  }
  change->open = change->descriptor && change->dirfd != AT_FDCWD;
  return r;
}

/* Where the object is, or a path to it starts: a descriptor of this process. */
static long open_start(struct change *change) {
  struct confine__supervisor *supervisor = change->supervisor;
  if (change->open) {
    long copy = confine__copy_descriptor(change->tid, change->dirfd);
    if (copy < 0)
      return copy;
    if (sys(__NR_fcntl, copy, F_GETFL, 0) & O_PATH) {
      sys_close((int)copy);
      return -EBADF;
    }
    long start = sys(__NR_fcntl, copy, F_DUPFD_CLOEXEC, 3);
    if (start < 0)
      sys_close((int)copy);
    else
      change->copy = (int)copy;
    return start;
  }
  if (change->descriptor)
    return confine__target_start(supervisor, change->tid, change->dirfd, "");
  int r = confine__copy_string(change->tid, change->path, supervisor->path, sizeof supervisor->path);
  if (r == 0 && !supervisor->path[0])
    r = -ENOENT;
  return r < 0 ? r : confine__target_start(supervisor, change->tid, change->dirfd, supervisor->path);
}

/* Opens the object as the kernel would have found it for the caller, and takes on the caller's identity. Takes
 * change->start over. */
static long open_target(struct change *change) {
  struct confine__supervisor *supervisor = change->supervisor;
  long start = change->start;
  long r = confine__identity_take(supervisor, change->tid);
  uint64_t id = change->notification->id;
  /* All that was read of the process belongs to the caller only if its pid has not gone to another one. */
  if (r == 0)
    r = sys(__NR_ioctl, supervisor->listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id);
  if (r < 0) {
    confine__target_release(supervisor, start);
    return r;
  }
  return change->descriptor
             ? start
             : confine__target_path(supervisor, change->tid, start, supervisor->path, change->follow);
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
    if (form == TIMESPEC && change->compat)
      fraction = (uint32_t)fraction; /* what is above is padding */
    if (form == TIMEVAL && (fraction < 0 || fraction >= 1000000))
      return -EINVAL;
    times[i].tv_nsec = (long)(form == TIMEVAL ? fraction * 1000 : fraction);
  }
  return 0;
}

static long do_utimes(const struct change *change, int target) {
  const struct timespec *times = change->timed ? change->times : NULL;
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
  return r == -ENAMETOOLONG || (r == 0 && !change->supervisor->attribute[0]) ? -ERANGE : r;
}

static int read_value(struct change *change, uint64_t address, uint64_t size, uint64_t flags, uint64_t limit) {
  if (size > limit)
    return -E2BIG;
  change->value_size = (uint32_t)size;
  change->value_flags = (uint32_t)flags;
  return size ? confine__copy_in(change->tid, address, change->supervisor->value, size) : 0;
}

static int read_xattr(struct change *change, uint64_t name, const struct xattr_arguments *value, uint64_t size) {
  if (value->flags & ~(uint32_t)(XATTR_CREATE | XATTR_REPLACE))
    return -EINVAL;
  int r = read_attribute(change, name);
  return r < 0 ? r : read_value(change, value->value, size, value->flags, CONFINE__VALUE_MAX);
}

/* A structure that may be longer than the one known here, if the rest is zero (copy_struct_from_user). */
static int read_structure(struct change *change, uint64_t address, uint64_t size, uint64_t known) {
  if (size > 4096)
    return -E2BIG;
  if (size < known)
    return -EINVAL;
  int r = read_value(change, address, size, 0, 4096);
  for (uint64_t i = known; r == 0 && i < size; i++)
    if (change->supervisor->value[i])
      return -E2BIG;
  return r;
}

static int read_xattrat(struct change *change) {
  struct xattr_arguments arguments;
  int r = read_structure(change, argument(change, 4), argument(change, 5), sizeof arguments);
  if (r < 0)
    return r;
  __builtin_memcpy(&arguments, change->supervisor->value, sizeof arguments);
  return read_xattr(change, argument(change, 3), &arguments, arguments.size);
}

/* What is not there is found out by the kernel, which asks first whether the object knows the request. */
static int read_request(struct change *change) {
  size_t size = (uint32_t)argument(change, 1) == FS_IOC_FSSETXATTR ? sizeof(struct fsxattr) : sizeof(int);
  int r = read_value(change, argument(change, 2), size, 0, CONFINE__VALUE_MAX);
  change->value_missing = r == -EFAULT;
  return r == -EFAULT ? 0 : r;
}

/* The kernel looks at times before anything else. Returns 1 if nothing is to be changed at all. */
static int collect_times(struct change *change, int call) {
  const struct timespec *times = change->times;
  int r;
  switch (call) {
  case CONFINE__CALL_utime:
    return read_times(change, argument(change, 1), UTIMBUF);
  case CONFINE__CALL_utimes:
    return read_times(change, argument(change, 1), TIMEVAL);
  case CONFINE__CALL_futimesat:
    return read_times(change, argument(change, 2), TIMEVAL);
  case CONFINE__CALL_utimensat:
  case CONFINE__CALL_utimensat_time64:
    r = read_times(change, argument(change, 2),
                   change->compat && call == CONFINE__CALL_utimensat ? TIMESPEC_32 : TIMESPEC);
    if (r == 0 && change->timed && times[0].tv_nsec == UTIME_OMIT_NS && times[1].tv_nsec == UTIME_OMIT_NS)
      return 1;
    return r;
  default:
    return 0;
  }
}

/* Everything else that the change needs of the caller's memory, besides the path. */
static int collect(struct change *change, int call) {
  const struct xattr_arguments value = {.value = argument(change, 2), .flags = (uint32_t)argument(change, 4)};
  switch (call) {
  case CONFINE__CALL_setxattr:
  case CONFINE__CALL_lsetxattr:
  case CONFINE__CALL_fsetxattr:
    return read_xattr(change, argument(change, 1), &value, argument(change, 3));
  case CONFINE__CALL_setxattrat:
    return read_xattrat(change);
  case CONFINE__CALL_removexattr:
  case CONFINE__CALL_lremovexattr:
  case CONFINE__CALL_fremovexattr:
    return read_attribute(change, argument(change, 1));
  case CONFINE__CALL_removexattrat:
    return read_attribute(change, argument(change, 3));
  case CONFINE__CALL_ioctl:
    return read_request(change);
  case CONFINE__CALL_file_setattr:
    return read_structure(change, argument(change, 2), argument(change, 3), FILE_ATTR_SIZE);
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

/* Neither does file_setattr(2). */
static long do_file_setattr(const struct change *change, int target) {
  char name[48];
  return sys(NR_FILE_SETATTR, AT_FDCWD, own_name(target, name), change->supervisor->value, change->value_size, 0);
}

/* These are made through the open file that the caller has; opening it again might not be allowed. */
static long do_ioctl(const struct change *change) {
  uint32_t request = (uint32_t)argument(change, 1);
  /* The kernel reads an int although the request number says long. */
  if (change->compat && request == SETFLAGS_32)
    request = FS_IOC_SETFLAGS;
  return sys(__NR_ioctl, change->copy, request, change->value_missing ? NULL : change->supervisor->value);
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
    by_descriptor(change);
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
    return by_flags(change, 3);
  case CONFINE__CALL_fchownat:
    return by_flags(change, 4);
  case CONFINE__CALL_file_setattr:
    return by_flags_or_null(change, 4);
  case CONFINE__CALL_setxattrat:
  case CONFINE__CALL_removexattrat:
    return by_flags_or_null(change, 2);
  case CONFINE__CALL_futimesat:
    by_path(change, (int)argument(change, 0), 1, 1);
    if (!change->path && change->dirfd != AT_FDCWD)
      by_descriptor(change);
    return 0;
  case CONFINE__CALL_utimensat:
  case CONFINE__CALL_utimensat_time64:
    if (argument(change, 1) || (int)argument(change, 0) == AT_FDCWD)
      return by_flags(change, 3);
    by_descriptor(change);
    return (uint32_t)argument(change, 3) ? -EINVAL : 0;
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
    return do_ioctl(change);
  case CONFINE__CALL_file_setattr:
    return do_file_setattr(change, target);
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

static int has_prefix(const char *text, const char *prefix) {
  while (*prefix && *text == *prefix) {
    text++;
    prefix++;
  }
  return !*prefix;
}

static int is_now(const struct change *change, int call) {
  if (operation_of(call) != CONFINE__OPERATION_UTIMES)
    return 0;
  return !change->timed ||
         (change->times[0].tv_nsec == UTIME_NOW_NS && change->times[1].tv_nsec == UTIME_NOW_NS);
}

/* What the caller could not do without the policy either: to give a file away, or to set the attributes of
 * the system's own name spaces. */
static int is_beyond_caller(const struct change *change, int call, int target) {
  struct confine__caller caller = confine__identity_of(change->supervisor);
  const char *attribute = change->supervisor->attribute;
  struct stat st;
  if (operation_of(call) == CONFINE__OPERATION_XATTR)
    return has_prefix(attribute, "trusted.") || has_prefix(attribute, "security.");
  if (operation_of(call) != CONFINE__OPERATION_CHOWN || caller.effective & (1ull << CAP_CHOWN) ||
      sys(__NR_fstat, target, &st) != 0)
    return 0;
  int at = call == CONFINE__CALL_fchownat ? 2 : 1;
  uint32_t uid = (uint32_t)argument(change, at), gid = (uint32_t)argument(change, at + 1);
  return (uid != UINT32_MAX && uid != st.st_uid) ||
         (gid != UINT32_MAX && gid != st.st_gid && gid != change->supervisor->gid);
}

/* Copies what the call says, and opens where to start from. Returns 1 if nothing is to be changed at all. */
static int understand(struct change *change, int call) {
  int r = collect_times(change, call);
  if (r == 0)
    r = locate(change, call);
  if (r == 0)
    r = collect(change, call);
  if (r != 0)
    return r;
  change->start = open_start(change);
  return change->start < 0 ? (int)change->start : 0;
}

long confine__metadata_call(struct confine__supervisor *supervisor, const struct seccomp_notif *notification,
                            int call) {
  const struct change blank = {.supervisor = supervisor,
                               .notification = notification,
                               .tid = (pid_t)notification->pid,
                               .compat = notification->data.arch != CONFINE__NATIVE_ARCH,
                               .copy = -1};
  struct change change = blank;
  int r = understand(&change, call);
  /* The last caller's identity, if still in force, may not do for looking into this one. */
  if (r < 0 && supervisor->taken) {
    confine__identity_return(supervisor);
    change = blank;
    r = understand(&change, call);
  }
  if (r != 0)
    return r < 0 ? r : 0;
  long target = open_target(&change);
  if (target >= 0) {
    int fd = (int)target;
    if (confine__target_inside(supervisor, &fd)) {
      target = apply(&change, call, fd);
    } else {
      target = -supervisor->refusal;
      if (!is_beyond_caller(&change, call, fd))
        confine__observe_metadata(supervisor, notification, fd, operation_of(call), is_now(&change, call));
    }
    sys_close(fd);
  }
  if (change.copy >= 0)
    sys_close(change.copy);
  confine__identity_rest(supervisor);
  return target;
}
