/*
 * Descriptors that the sandbox's starter had open. From 3 up they should not arrive at all; the
 * standard streams arrive, and may be read and written as they are, nothing more.
 */
#define _GNU_SOURCE
#include "families.h"
#include "inside.h"
#include "outside.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { EXTRA = 7, HIGH = 900, IN = 0, OUT = 1 };

static const struct timespec new_times[2] = {{1100000000, 0}, {1100000000, 0}};

/* what is handed on */

SPAWN(s_extra_writing)
{
  return escape_pass(s, open(c->file, O_WRONLY | O_CLOEXEC), EXTRA);
}

/* Closed only if all are closed, not the first few. */
SPAWN(s_high_writing)
{
  return escape_pass(s, open(c->file, O_WRONLY | O_CLOEXEC), HIGH);
}

SPAWN(s_extra_reading)
{
  return escape_pass(s, open(c->file, O_RDONLY | O_CLOEXEC), EXTRA);
}

SPAWN(s_extra_opath)
{
  return escape_pass(s, open(c->file, O_PATH | O_CLOEXEC), EXTRA);
}

SPAWN(s_extra_dir)
{
  return escape_pass(s, open(c->victim, O_RDONLY | O_DIRECTORY | O_CLOEXEC), EXTRA);
}

SPAWN(s_extra_dir_opath)
{
  return escape_pass(s, open(c->victim, O_PATH | O_DIRECTORY | O_CLOEXEC), EXTRA);
}

SPAWN(s_extra_root)
{
  (void)c;
  return escape_pass(s, open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC), EXTRA);
}

SPAWN(s_extra_mntns)
{
  (void)c;
  return escape_pass(s, open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC), EXTRA);
}

SPAWN(s_extra_pidfd)
{
  return escape_pass(s, (int)syscall(SYS_pidfd_open, c->helper, 0), EXTRA);
}

SPAWN(s_stdin_file)
{
  return escape_pass(s, open(c->file, O_RDONLY | O_CLOEXEC), IN);
}

SPAWN(s_stdin_dir)
{
  return escape_pass(s, open(c->victim, O_RDONLY | O_DIRECTORY | O_CLOEXEC), IN);
}

SPAWN(s_stdout_log)
{
  return escape_pass(s, open(c->file, O_WRONLY | O_APPEND | O_CLOEXEC), OUT);
}

SPAWN(s_cwd_outside)
{
  snprintf(s->cwd, sizeof s->cwd, "%s", c->victim);
  return 0;
}

PREPARE(p_channel)
{
  int pair[2];

  if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair) < 0)
    return -errno;
  c->sockets[0] = pair[0];
  c->kept[0] = pair[1];
  return escape_helper(c, escape_serve);
}

SPAWN(s_extra_socket)
{
  return escape_pass(s, c->kept[0], EXTRA);
}

/* what is done with it */

static int put(int fd)
{
  return write(fd, "escaped\n", 8) == 8 ? 0 : -1;
}

ATTEMPT(a_extra_write)
{
  (void)c;
  return put(EXTRA);
}

ATTEMPT(a_high_write)
{
  (void)c;
  return put(HIGH);
}

ATTEMPT(a_extra_reopen)
{
  (void)c;
  return escape_reopen(EXTRA, 0);
}

ATTEMPT(a_extra_fchmod)
{
  (void)c;
  return fchmod(EXTRA, 0600);
}

ATTEMPT(a_extra_fsetxattr)
{
  (void)c;
  return fsetxattr(EXTRA, "user.escape", "x", 1, 0);
}

ATTEMPT(a_extra_empty_path)
{
  (void)c;
  return (int)syscall(SYS_fchmodat2, EXTRA, "", 0600, AT_EMPTY_PATH);
}

ATTEMPT(a_dir_openat)
{
  int fd = openat(EXTRA, "file", O_WRONLY | O_CLOEXEC);

  (void)c;
  return fd < 0 ? -1 : put(fd);
}

ATTEMPT(a_dir_fchmodat)
{
  (void)c;
  return fchmodat(EXTRA, "file", 0600, 0);
}

ATTEMPT(a_dir_unlinkat)
{
  (void)c;
  return unlinkat(EXTRA, "file", 0);
}

ATTEMPT(a_dir_mkdirat)
{
  (void)c;
  return mkdirat(EXTRA, "new", 0755);
}

ATTEMPT(a_dir_fchdir)
{
  (void)c;
  return fchdir(EXTRA) < 0 ? -1 : escape_scribble("file", 0);
}

ATTEMPT(a_root_openat)
{
  int fd = openat(EXTRA, c->file + 1, O_WRONLY | O_CLOEXEC);

  return fd < 0 ? -1 : put(fd);
}

ATTEMPT(a_root_chroot)
{
  if (fchdir(EXTRA) < 0 || chroot(".") < 0)
    return -1;
  return escape_scribble(c->file, 0);
}

ATTEMPT(a_mntns_setns)
{
  return setns(EXTRA, CLONE_NEWNS) < 0 ? -1 : escape_scribble(c->file, 0);
}

ATTEMPT(a_pidfd_getfd)
{
  int fd = (int)syscall(SYS_pidfd_getfd, EXTRA, c->num[0], 0);

  return fd < 0 ? -1 : put(fd);
}

ATTEMPT(a_extra_socket)
{
  (void)c;
  return send(EXTRA, ESCAPE_ASK, sizeof ESCAPE_ASK, MSG_NOSIGNAL) > 0 ? 0 : -1;
}

ATTEMPT(a_stdin_reopen)
{
  (void)c;
  return escape_reopen(IN, 0);
}

ATTEMPT(a_stdin_dev)
{
  (void)c;
  return escape_scribble("/dev/stdin", 0);
}

ATTEMPT(a_stdin_reopen_truncate)
{
  (void)c;
  return truncate("/proc/self/fd/0", 1);
}

ATTEMPT(a_stdin_fchmod)
{
  (void)c;
  return fchmod(IN, 0600);
}

ATTEMPT(a_stdin_chmod_proc)
{
  (void)c;
  return chmod("/proc/self/fd/0", 0600);
}

ATTEMPT(a_stdin_fchown)
{
  (void)c;
  return fchown(IN, geteuid(), getegid());
}

ATTEMPT(a_stdin_futimens)
{
  (void)c;
  return futimens(IN, new_times);
}

ATTEMPT(a_stdin_fsetxattr)
{
  (void)c;
  return fsetxattr(IN, "user.escape", "x", 1, 0);
}

ATTEMPT(a_stdin_fremovexattr)
{
  (void)c;
  return fremovexattr(IN, "user.victim");
}

ATTEMPT(a_stdin_setflags)
{
  int flags = ABI_FS_NODUMP_FL;

  (void)c;
  return ioctl(IN, ABI_FS_IOC_SETFLAGS, &flags);
}

ATTEMPT(a_stdin_link)
{
  if (linkat(AT_FDCWD, "/proc/self/fd/0", AT_FDCWD, escape_in(c->ws, "link"),
             AT_SYMLINK_FOLLOW) < 0)
    return -1;
  return escape_scribble(escape_in(c->ws, "link"), 0);
}

ATTEMPT(a_stdin_dir_openat)
{
  int fd = openat(IN, "file", O_WRONLY | O_CLOEXEC);

  (void)c;
  return fd < 0 ? -1 : put(fd);
}

ATTEMPT(a_stdin_dir_fchmodat)
{
  (void)c;
  return fchmodat(IN, "file", 0600, 0);
}

ATTEMPT(a_stdout_reopen)
{
  (void)c;
  return escape_reopen(OUT, O_TRUNC);
}

ATTEMPT(a_stdout_ftruncate)
{
  (void)c;
  return ftruncate(OUT, 0);
}

ATTEMPT(a_stdout_append_off)
{
  (void)c;
  return fcntl(OUT, F_SETFL, 0) < 0 || pwrite(OUT, "escaped", 7, 0) != 7 ? -1 : 0;
}

ATTEMPT(a_stdout_fallocate)
{
  (void)c;
  return fallocate(OUT, 3 /* keep size, punch hole */, 0, 4096);
}

ATTEMPT(a_stdout_fchmod)
{
  (void)c;
  return fchmod(OUT, 0600);
}

ATTEMPT(a_stdout_fsetxattr)
{
  (void)c;
  return fsetxattr(OUT, "user.escape", "x", 1, 0);
}

ATTEMPT(a_cwd_relative)
{
  (void)c;
  return escape_scribble("file", 0);
}

ATTEMPT(a_cwd_proc)
{
  (void)c;
  return escape_scribble("/proc/self/cwd/file", 0);
}

#define I(id_, hook, attempt_) \
  {.id = id_, .family = "inherited-fd", .spawn = hook, .attempt = attempt_}

const struct escape_technique escape_inherited[] = {
    I("fd-write", s_extra_writing, a_extra_write),
    I("fd-write-high", s_high_writing, a_high_write),
    I("fd-reading-reopen", s_extra_reading, a_extra_reopen),
    I("fd-reading-fchmod", s_extra_reading, a_extra_fchmod),
    I("fd-reading-fsetxattr", s_extra_reading, a_extra_fsetxattr),
    I("fd-opath-reopen", s_extra_opath, a_extra_reopen),
    I("fd-opath-empty-path", s_extra_opath, a_extra_empty_path),
    I("fd-directory-openat", s_extra_dir, a_dir_openat),
    I("fd-directory-fchmodat", s_extra_dir, a_dir_fchmodat),
    I("fd-directory-unlinkat", s_extra_dir, a_dir_unlinkat),
    I("fd-directory-mkdirat", s_extra_dir, a_dir_mkdirat),
    I("fd-directory-fchdir", s_extra_dir, a_dir_fchdir),
    I("fd-directory-opath", s_extra_dir_opath, a_dir_openat),
    I("fd-root-openat", s_extra_root, a_root_openat),
    {.id = "fd-root-chroot",
     .family = "inherited-fd",
     .flags = ESCAPE_ROOT_ONLY,
     .spawn = s_extra_root,
     .attempt = a_root_chroot},
    {.id = "fd-mount-namespace",
     .family = "inherited-fd",
     .flags = ESCAPE_ROOT_ONLY,
     .spawn = s_extra_mntns,
     .attempt = a_mntns_setns},
    {.id = "fd-pidfd",
     .family = "inherited-fd",
     .flags = ESCAPE_VIA_OUTSIDE,
     .prepare = escape_with_bystander,
     .spawn = s_extra_pidfd,
     .attempt = a_pidfd_getfd},
    {.id = "fd-socket-to-daemon",
     .family = "inherited-fd",
     .flags = ESCAPE_VIA_OUTSIDE | ESCAPE_CHANNEL_IPC,
     .prepare = p_channel,
     .spawn = s_extra_socket,
     .attempt = a_extra_socket},
    I("stdin-reopen", s_stdin_file, a_stdin_reopen),
    I("stdin-dev-stdin", s_stdin_file, a_stdin_dev),
    I("stdin-truncate", s_stdin_file, a_stdin_reopen_truncate),
    I("stdin-fchmod", s_stdin_file, a_stdin_fchmod),
    I("stdin-chmod-proc-fd", s_stdin_file, a_stdin_chmod_proc),
    I("stdin-fchown", s_stdin_file, a_stdin_fchown),
    I("stdin-futimens", s_stdin_file, a_stdin_futimens),
    I("stdin-fsetxattr", s_stdin_file, a_stdin_fsetxattr),
    I("stdin-fremovexattr", s_stdin_file, a_stdin_fremovexattr),
    I("stdin-setflags", s_stdin_file, a_stdin_setflags),
    {.id = "stdin-hardlink",
     .family = "inherited-fd",
     .flags = ESCAPE_WORKSPACE_ONLY,
     .spawn = s_stdin_file,
     .attempt = a_stdin_link},
    I("stdin-directory-openat", s_stdin_dir, a_stdin_dir_openat),
    I("stdin-directory-fchmodat", s_stdin_dir, a_stdin_dir_fchmodat),
    I("stdout-log-reopen", s_stdout_log, a_stdout_reopen),
    I("stdout-log-ftruncate", s_stdout_log, a_stdout_ftruncate),
    I("stdout-log-append-off", s_stdout_log, a_stdout_append_off),
    I("stdout-log-punch", s_stdout_log, a_stdout_fallocate),
    I("stdout-log-fchmod", s_stdout_log, a_stdout_fchmod),
    I("stdout-log-fsetxattr", s_stdout_log, a_stdout_fsetxattr),
    I("cwd-outside", s_cwd_outside, a_cwd_relative),
    I("cwd-outside-proc", s_cwd_outside, a_cwd_proc),
};
const size_t escape_inherited_count = sizeof escape_inherited / sizeof *escape_inherited;
