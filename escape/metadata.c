/*
 * Modes, owners, times, extended attributes and inode flags of files outside, in every form the
 * kernel offers: by path, directory descriptor, empty path, O_PATH descriptor through /proc, the
 * newest calls and the 32-bit entry. Reading access suffices for all of them, so a mechanism
 * that governs only opening for writing does not stop them.
 */
#define _GNU_SOURCE
#include "families.h"
#include "inside.h"
#include "outside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

enum { NEW_TIME = 1100000000 };

static const struct timespec new_times[2] = {{NEW_TIME, 0}, {NEW_TIME, 0}};

static const char *through_fd(int fd)
{
  static char path[64];

  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  return path;
}

static int dir_of(struct escape_ctx *c)
{
  return open(c->victim, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int opath(struct escape_ctx *c)
{
  return open(c->file, O_PATH | O_CLOEXEC);
}

static int reading(struct escape_ctx *c)
{
  return open(c->file, O_RDONLY | O_CLOEXEC);
}

/* modes */

ATTEMPT(a_chmod)
{
  return chmod(c->file, 0600);
}

ATTEMPT(a_chmod_setid)
{
  return chmod(c->file, 06755);
}

ATTEMPT(a_chmod_dir)
{
  return chmod(c->victim, 0777);
}

ATTEMPT(a_chmod_symlink)
{
  const char *link = escape_in(c->ws, "to-file");

  return symlink(c->file, link) < 0 ? -1 : chmod(link, 0600);
}

ATTEMPT(a_fchmod)
{
  return fchmod(reading(c), 0600);
}

ATTEMPT(a_fchmodat)
{
  return (int)syscall(SYS_fchmodat, dir_of(c), "file", 0600);
}

ATTEMPT(a_fchmodat2)
{
  return (int)syscall(SYS_fchmodat2, AT_FDCWD, c->file, 0600, 0);
}

ATTEMPT(a_fchmodat2_empty)
{
  return (int)syscall(SYS_fchmodat2, opath(c), "", 0600, AT_EMPTY_PATH);
}

ATTEMPT(a_chmod_proc_fd)
{
  return chmod(through_fd(opath(c)), 0600);
}

ATTEMPT(a_chmod_int80)
{
  return (int)INT80(I386_chmod, escape_low_str(c->file), 0600);
}

ATTEMPT(a_fchmodat2_int80)
{
  return (int)INT80(SYS_fchmodat2, AT_FDCWD, escape_low_str(c->file), 0600, 0);
}

#ifdef SYS_chmod
ATTEMPT(a_chmod_x32)
{
  return (int)syscall(SYS_chmod | X32_BIT, c->file, 0600);
}
#endif

/* owners: to the same owner, which every owner may; the change time moves, set-id bits go */

static const char *setid(struct escape_ctx *c)
{
  return escape_in(c->victim, "setid");
}

ATTEMPT(a_chown)
{
  return chown(setid(c), geteuid(), getegid());
}

ATTEMPT(a_chown_other)
{
  return chown(c->file, 12345, 12345);
}

ATTEMPT(a_chgrp)
{
  return chown(setid(c), (uid_t)-1, getegid());
}

ATTEMPT(a_lchown)
{
  return lchown(escape_in(c->victim, "link"), geteuid(), getegid());
}

ATTEMPT(a_fchown)
{
  return fchown(open(setid(c), O_RDONLY | O_CLOEXEC), geteuid(), getegid());
}

ATTEMPT(a_fchownat)
{
  return fchownat(dir_of(c), "setid", geteuid(), getegid(), 0);
}

ATTEMPT(a_fchownat_empty)
{
  return fchownat(opath(c), "", geteuid(), getegid(), AT_EMPTY_PATH);
}

ATTEMPT(a_chown_proc_fd)
{
  return chown(through_fd(opath(c)), geteuid(), getegid());
}

ATTEMPT(a_chown_int80)
{
  return (int)INT80(I386_chown32, escape_low_str(setid(c)), (long)geteuid(), (long)getegid());
}

/* times */

ATTEMPT(a_utime)
{
#ifdef SYS_utime
  const struct utimbuf t = {NEW_TIME, NEW_TIME};
  return (int)syscall(SYS_utime, c->file, &t);
#else
  (void)c;
  errno = ENOSYS;
  return -1;
#endif
}

ATTEMPT(a_utimes)
{
#ifdef SYS_utimes
  const struct timeval t[2] = {{NEW_TIME, 0}, {NEW_TIME, 0}};
  return (int)syscall(SYS_utimes, c->file, t);
#else
  (void)c;
  errno = ENOSYS;
  return -1;
#endif
}

ATTEMPT(a_futimesat)
{
#ifdef SYS_futimesat
  const struct timeval t[2] = {{NEW_TIME, 0}, {NEW_TIME, 0}};
  return (int)syscall(SYS_futimesat, dir_of(c), "file", t);
#else
  (void)c;
  errno = ENOSYS;
  return -1;
#endif
}

ATTEMPT(a_utimensat)
{
  return utimensat(AT_FDCWD, c->file, new_times, 0);
}

ATTEMPT(a_utimensat_dirfd)
{
  return utimensat(dir_of(c), "file", new_times, 0);
}

ATTEMPT(a_touch)
{
  return utimensat(AT_FDCWD, c->file, NULL, 0);
}

ATTEMPT(a_utimensat_link)
{
  return utimensat(AT_FDCWD, escape_in(c->victim, "link"), new_times, AT_SYMLINK_NOFOLLOW);
}

ATTEMPT(a_utimensat_empty)
{
  return (int)syscall(SYS_utimensat, opath(c), "", new_times, AT_EMPTY_PATH);
}

ATTEMPT(a_futimens)
{
  return futimens(reading(c), new_times);
}

ATTEMPT(a_utimes_proc_fd)
{
  return utimensat(AT_FDCWD, through_fd(opath(c)), new_times, 0);
}

ATTEMPT(a_utimes_int80)
{
  const int32_t t[4] = {NEW_TIME, 0, NEW_TIME, 0};

  return (int)INT80(I386_utimes, escape_low_str(c->file), escape_low(t, sizeof t));
}

/* extended attributes */

ATTEMPT(a_setxattr)
{
  return setxattr(c->file, "user.escape", "x", 1, 0);
}

ATTEMPT(a_lsetxattr)
{
  return lsetxattr(c->file, "user.escape", "x", 1, 0);
}

ATTEMPT(a_fsetxattr)
{
  return fsetxattr(reading(c), "user.escape", "x", 1, 0);
}

ATTEMPT(a_setxattrat)
{
  static const char value[] = "x";
  const struct abi_xattr_args args = {(uint64_t)(uintptr_t)value, 1, 0};

  return (int)syscall(SYS_setxattrat, AT_FDCWD, c->file, 0, "user.escape", &args, sizeof args);
}

ATTEMPT(a_setxattr_proc_fd)
{
  return setxattr(through_fd(opath(c)), "user.escape", "x", 1, 0);
}

ATTEMPT(a_setxattr_int80)
{
  return (int)INT80(I386_setxattr, escape_low_str(c->file), escape_low_str("user.escape"),
                    escape_low_str("x"), 1, 0);
}

ATTEMPT(a_uring_setxattr)
{
  static const char name[] = "user.escape", value[] = "x";
  const struct abi_sqe sqe = {.opcode = ABI_IORING_OP_SETXATTR,
                              .addr = (uintptr_t)name,
                              .off = (uintptr_t)value,
                              .addr3 = (uintptr_t)c->file,
                              .len = 1};

  return escape_uring(&sqe);
}

ATTEMPT(a_uring_fsetxattr)
{
  static const char name[] = "user.escape", value[] = "x";
  const struct abi_sqe sqe = {.opcode = ABI_IORING_OP_FSETXATTR,
                              .fd = reading(c),
                              .addr = (uintptr_t)name,
                              .off = (uintptr_t)value,
                              .len = 1};

  return escape_uring(&sqe);
}

ATTEMPT(a_removexattr)
{
  return removexattr(c->file, "user.victim");
}

ATTEMPT(a_lremovexattr)
{
  return lremovexattr(c->file, "user.victim");
}

ATTEMPT(a_fremovexattr)
{
  return fremovexattr(reading(c), "user.victim");
}

ATTEMPT(a_removexattrat)
{
  return (int)syscall(SYS_removexattrat, AT_FDCWD, c->file, 0, "user.victim");
}

/* posix_acl_xattr.h: version 2; entries of tag, permission, id; 12345 gets rw */
static const struct {
  uint32_t version;
  struct {
    uint16_t tag, perm;
    uint32_t id;
  } entry[5];
} acl = {2,
         {{0x01, 6, 0xffffffff},
          {0x02, 6, 12345},
          {0x04, 4, 0xffffffff},
          {0x10, 6, 0xffffffff},
          {0x20, 4, 0xffffffff}}};

ATTEMPT(a_acl)
{
  return setxattr(c->file, "system.posix_acl_access", &acl, sizeof acl, 0);
}

ATTEMPT(a_acl_fd)
{
  return fsetxattr(reading(c), "system.posix_acl_access", &acl, sizeof acl, 0);
}

ATTEMPT(a_acl_default)
{
  return setxattr(c->victim, "system.posix_acl_default", &acl, sizeof acl, 0);
}

ATTEMPT(a_file_caps)
{
  /* vfs_cap_data, revision 2: CAP_NET_BIND_SERVICE effective and permitted */
  const uint32_t cap[5] = {0x02000001, 1u << 10, 0, 0, 0};

  return setxattr(c->file, "security.capability", cap, sizeof cap, 0);
}

ATTEMPT(a_trusted_xattr)
{
  return setxattr(c->file, "trusted.escape", "x", 1, 0);
}

/* inode flags */

ATTEMPT(a_setflags)
{
  int flags = ABI_FS_NODUMP_FL;

  return ioctl(reading(c), ABI_FS_IOC_SETFLAGS, &flags);
}

ATTEMPT(a_setflags_int80)
{
  const int32_t flags = ABI_FS_NODUMP_FL;

  return (int)INT80(I386_ioctl, reading(c), (long)ABI_FS_IOC32_SETFLAGS,
                    escape_low(&flags, sizeof flags));
}

ATTEMPT(a_setflags_high_bits)
{
  int flags = ABI_FS_NODUMP_FL;

  return (int)syscall(SYS_ioctl, reading(c), ABI_FS_IOC_SETFLAGS | 0xdeadUL << 32, &flags);
}

ATTEMPT(a_fssetxattr)
{
  const struct abi_fsxattr attr = {.xflags = ABI_FS_XFLAG_NODUMP};

  return ioctl(reading(c), ABI_FS_IOC_FSSETXATTR, &attr);
}

ATTEMPT(a_file_setattr)
{
  const struct abi_file_attr attr = {.xflags = ABI_FS_XFLAG_NODUMP};

  return (int)syscall(SYS_file_setattr, AT_FDCWD, c->file, &attr, sizeof attr, 0);
}

ATTEMPT(a_immutable)
{
  int flags = ABI_FS_IMMUTABLE_FL;

  return ioctl(reading(c), ABI_FS_IOC_SETFLAGS, &flags);
}

#define M(id_, attempt_) {.id = id_, .family = "metadata", .attempt = attempt_}
#define MR(id_, attempt_) \
  {.id = id_, .family = "metadata", .flags = ESCAPE_ROOT_ONLY, .attempt = attempt_}

const struct escape_technique escape_metadata[] = {
    M("chmod", a_chmod),
    M("chmod-setid", a_chmod_setid),
    M("chmod-directory", a_chmod_dir),
    {.id = "chmod-through-symlink",
     .family = "metadata",
     .flags = ESCAPE_WORKSPACE_ONLY,
     .attempt = a_chmod_symlink},
    M("fchmod", a_fchmod),
    M("fchmodat-dirfd", a_fchmodat),
    M("fchmodat2", a_fchmodat2),
    M("fchmodat2-empty-path", a_fchmodat2_empty),
    M("chmod-proc-fd", a_chmod_proc_fd),
    M("chmod-int80", a_chmod_int80),
    M("fchmodat2-int80", a_fchmodat2_int80),
#ifdef SYS_chmod
    M("chmod-x32", a_chmod_x32),
#endif
    M("chown", a_chown),
    MR("chown-other", a_chown_other),
    M("chgrp", a_chgrp),
    M("lchown", a_lchown),
    M("fchown", a_fchown),
    M("fchownat-dirfd", a_fchownat),
    M("fchownat-empty-path", a_fchownat_empty),
    M("chown-proc-fd", a_chown_proc_fd),
    M("chown-int80", a_chown_int80),
    M("utime", a_utime),
    M("utimes", a_utimes),
    M("futimesat", a_futimesat),
    M("utimensat", a_utimensat),
    M("utimensat-dirfd", a_utimensat_dirfd),
    M("utimensat-now", a_touch),
    M("utimensat-symlink", a_utimensat_link),
    M("utimensat-empty-path", a_utimensat_empty),
    M("futimens", a_futimens),
    M("utimensat-proc-fd", a_utimes_proc_fd),
    M("utimes-int80", a_utimes_int80),
    M("setxattr", a_setxattr),
    M("lsetxattr", a_lsetxattr),
    M("fsetxattr", a_fsetxattr),
    M("setxattrat", a_setxattrat),
    M("setxattr-proc-fd", a_setxattr_proc_fd),
    M("setxattr-int80", a_setxattr_int80),
    M("io-uring-setxattr", a_uring_setxattr),
    M("io-uring-fsetxattr", a_uring_fsetxattr),
    M("removexattr", a_removexattr),
    M("lremovexattr", a_lremovexattr),
    M("fremovexattr", a_fremovexattr),
    M("removexattrat", a_removexattrat),
    M("acl", a_acl),
    M("acl-descriptor", a_acl_fd),
    M("acl-default", a_acl_default),
    MR("file-capability", a_file_caps),
    MR("trusted-xattr", a_trusted_xattr),
    M("setflags", a_setflags),
    M("setflags-int80", a_setflags_int80),
    M("setflags-high-bits", a_setflags_high_bits),
    M("fssetxattr", a_fssetxattr),
    M("file-setattr", a_file_setattr),
    MR("immutable", a_immutable),
};
const size_t escape_metadata_count = sizeof escape_metadata / sizeof *escape_metadata;
