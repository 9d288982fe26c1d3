/* Contents and names outside, by every call that makes, changes or removes them. */
#define _GNU_SOURCE
#include "families.h"
#include "inside.h"
#include "outside.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static char *victim(struct escape_ctx *c, const char *name)
{
  return escape_in(c->victim, name);
}

static int dir_of(struct escape_ctx *c)
{
  return open(c->victim, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int put_and_close(int fd)
{
  if (fd < 0)
    return -1;
  int bad = write(fd, "escaped\n", 8) != 8;
  close(fd);
  return bad ? -1 : 0;
}

/* opening for writing */

ATTEMPT(a_open_truncate)
{
  return escape_scribble(c->file, O_TRUNC);
}

ATTEMPT(a_open_append)
{
  return escape_scribble(c->file, O_APPEND);
}

ATTEMPT(a_create)
{
  return escape_scribble(victim(c, "new"), O_CREAT | O_EXCL);
}

ATTEMPT(a_creat)
{
#ifdef SYS_creat
  return put_and_close((int)syscall(SYS_creat, victim(c, "new"), 0644));
#else
  return put_and_close(creat(victim(c, "new"), 0644));
#endif
}

ATTEMPT(a_openat)
{
  return put_and_close(openat(dir_of(c), "file", O_WRONLY | O_CLOEXEC));
}

ATTEMPT(a_openat2)
{
  const struct abi_open_how how = {O_WRONLY | O_CLOEXEC, 0, 0};

  return put_and_close((int)syscall(SYS_openat2, AT_FDCWD, c->file, &how, sizeof how));
}

ATTEMPT(a_open_read_truncate)
{
  /* O_TRUNC with O_RDONLY truncates all the same */
  return open(c->file, O_RDONLY | O_TRUNC | O_CLOEXEC) < 0 ? -1 : 0;
}

ATTEMPT(a_open_mode_3)
{
  /* access mode 3 needs both rights but gives neither; with O_TRUNC the file is emptied */
  return open(c->file, 3 | O_TRUNC | O_CLOEXEC) < 0 ? -1 : 0;
}

ATTEMPT(a_open_int80)
{
  return put_and_close((int)INT80(I386_open, escape_low_str(c->file), O_WRONLY, 0));
}

#ifdef SYS_open
ATTEMPT(a_open_x32)
{
  return put_and_close((int)syscall(SYS_open | X32_BIT, c->file, O_WRONLY, 0));
}
#endif

ATTEMPT(a_reopen_reading)
{
  return escape_reopen(open(c->file, O_RDONLY | O_CLOEXEC), 0);
}

ATTEMPT(a_reopen_opath)
{
  return escape_reopen(open(c->file, O_PATH | O_CLOEXEC), 0);
}

ATTEMPT(a_chdir_relative)
{
  return chdir(c->victim) < 0 ? -1 : escape_scribble("file", 0);
}

ATTEMPT(a_mmap_shared)
{
  int fd = open(c->file, O_RDWR | O_CLOEXEC);
  char *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

  if (map == MAP_FAILED)
    return -1;
  memcpy(map, "escaped", 7);
  return msync(map, 4096, MS_SYNC);
}

/* sizes and contents */

ATTEMPT(a_truncate)
{
  return truncate(c->file, 1);
}

ATTEMPT(a_truncate_int80)
{
  return (int)INT80(I386_truncate, escape_low_str(c->file), 1);
}

ATTEMPT(a_fallocate)
{
  return fallocate(open(c->file, O_WRONLY | O_CLOEXEC), 0, 0, 4096);
}

ATTEMPT(a_copy_range)
{
  int from = open(c->file, O_RDONLY | O_CLOEXEC), to = open(victim(c, "other"), O_WRONLY);

  return copy_file_range(from, NULL, to, NULL, 7, 0) > 0 ? 0 : -1;
}

ATTEMPT(a_sendfile)
{
  int from = open(c->file, O_RDONLY | O_CLOEXEC), to = open(victim(c, "other"), O_WRONLY);

  return sendfile(to, from, NULL, 7) > 0 ? 0 : -1;
}

ATTEMPT(a_splice)
{
  int ends[2], to = open(c->file, O_WRONLY | O_CLOEXEC);

  if (pipe(ends) < 0 || write(ends[1], "escaped", 7) != 7)
    return -1;
  return splice(ends[0], NULL, to, NULL, 7, 0) > 0 ? 0 : -1;
}

/* names */

ATTEMPT(a_rename_over)
{
  return rename(victim(c, "other"), c->file);
}

ATTEMPT(a_rename_away)
{
  return rename(c->file, victim(c, "moved"));
}

ATTEMPT(a_rename_out)
{
  return rename(escape_in(c->ws, "inside"), c->file);
}

ATTEMPT(a_rename_in)
{
  return rename(c->file, escape_in(c->ws, "taken"));
}

ATTEMPT(a_exchange)
{
  return (int)syscall(SYS_renameat2, AT_FDCWD, victim(c, "other"), AT_FDCWD, c->file,
                      ABI_RENAME_EXCHANGE);
}

ATTEMPT(a_exchange_out)
{
  return (int)syscall(SYS_renameat2, AT_FDCWD, escape_in(c->ws, "inside"), AT_FDCWD, c->file,
                      ABI_RENAME_EXCHANGE);
}

ATTEMPT(a_rename_int80)
{
  return (int)INT80(I386_rename, escape_low_str(c->file), escape_low_str(victim(c, "moved")));
}

ATTEMPT(a_symlink)
{
  return symlink("file", victim(c, "new"));
}

ATTEMPT(a_mkdir)
{
  return mkdir(victim(c, "new"), 0755);
}

ATTEMPT(a_mkdir_int80)
{
  return (int)INT80(I386_mkdir, escape_low_str(victim(c, "new")), 0755);
}

ATTEMPT(a_mknod_file)
{
  return mknod(victim(c, "new"), S_IFREG | 0644, 0);
}

ATTEMPT(a_mkfifo)
{
  return mkfifo(victim(c, "new"), 0644);
}

ATTEMPT(a_bind_socket)
{
  struct sockaddr_un addr = {.sun_family = AF_UNIX};

  if (chdir(c->victim) < 0)
    return -1;
  memcpy(addr.sun_path, "new", 4);
  return bind(socket(AF_UNIX, SOCK_STREAM, 0), (const struct sockaddr *)&addr, sizeof addr);
}

ATTEMPT(a_unlink)
{
  return unlink(c->file);
}

ATTEMPT(a_unlinkat)
{
  return unlinkat(dir_of(c), "file", 0);
}

ATTEMPT(a_unlink_int80)
{
  return (int)INT80(I386_unlink, escape_low_str(c->file));
}

ATTEMPT(a_rmdir)
{
  return rmdir(victim(c, "empty"));
}

ATTEMPT(a_link)
{
  return link(c->file, victim(c, "new"));
}

ATTEMPT(a_tmpfile_link)
{
  char path[64];
  int fd = open(c->ws, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0644);

  if (fd < 0)
    fd = open(c->victim, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0644);
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  return linkat(AT_FDCWD, path, AT_FDCWD, victim(c, "new"), AT_SYMLINK_FOLLOW);
}

/* io_uring's own forms, which no filter on the calls' numbers sees */

ATTEMPT(a_uring_open)
{
  const struct abi_sqe sqe = {.opcode = ABI_IORING_OP_OPENAT,
                              .fd = AT_FDCWD,
                              .addr = (uintptr_t)c->file,
                              .op_flags = O_WRONLY | O_CLOEXEC};

  return put_and_close(escape_uring(&sqe));
}

ATTEMPT(a_uring_rename)
{
  const struct abi_sqe sqe = {.opcode = ABI_IORING_OP_RENAMEAT,
                              .fd = AT_FDCWD,
                              .addr = (uintptr_t)c->file,
                              .off = (uintptr_t)victim(c, "moved"),
                              .len = (uint32_t)AT_FDCWD};

  return escape_uring(&sqe);
}

ATTEMPT(a_uring_unlink)
{
  const struct abi_sqe sqe = {
      .opcode = ABI_IORING_OP_UNLINKAT, .fd = AT_FDCWD, .addr = (uintptr_t)c->file};

  return escape_uring(&sqe);
}

ATTEMPT(a_uring_mkdir)
{
  const struct abi_sqe sqe = {.opcode = ABI_IORING_OP_MKDIRAT,
                              .fd = AT_FDCWD,
                              .addr = (uintptr_t)victim(c, "new"),
                              .len = 0755};

  return escape_uring(&sqe);
}

ATTEMPT(a_uring_symlink)
{
  static const char target[] = "file";
  const struct abi_sqe sqe = {.opcode = ABI_IORING_OP_SYMLINKAT,
                              .fd = AT_FDCWD,
                              .addr = (uintptr_t)target,
                              .off = (uintptr_t)victim(c, "new")};

  return escape_uring(&sqe);
}

ATTEMPT(a_uring_link)
{
  const struct abi_sqe sqe = {.opcode = ABI_IORING_OP_LINKAT,
                              .fd = AT_FDCWD,
                              .addr = (uintptr_t)c->file,
                              .off = (uintptr_t)victim(c, "new"),
                              .len = (uint32_t)AT_FDCWD};

  return escape_uring(&sqe);
}

/* A core dump goes where core_pattern says; without a slash, into the directory of the dead. */
PREPARE(p_core)
{
  char pattern[256];

  if (escape_get("/proc/sys/kernel/core_pattern", pattern, sizeof pattern) < 0)
    return escape_not_here(c, "/proc/sys/kernel/core_pattern cannot be read");
  if (strchr(pattern, '/') || pattern[0] == '|' || pattern[0] == '@')
    return escape_not_here(c, "core_pattern is \"%.100s\", not a plain name", pattern);
  return 0;
}

ATTEMPT(a_core)
{
  pid_t pid = fork();
  int status = 0;

  if (pid == 0) {
    signal(SIGSEGV, SIG_DFL);
    if (chdir(c->victim) == 0)
      raise(SIGSEGV);
    _exit(1);
  }
  if (pid < 0 || waitpid(pid, &status, 0) != pid)
    return -1;
  errno = EACCES;
  return WIFSIGNALED(status) && WCOREDUMP(status) ? 0 : -1;
}

/* A file in the host's /tmp. A sandbox that has mounts of its own has a /tmp of its own in them; where it
 * has none, its workspace-write includes the host's, so there is nothing to show. */

PREPARE(p_host_tmp)
{
  snprintf(c->text, sizeof c->text, "/tmp/confine-escape-%d", (int)getpid());
  c->num[0] = c->control;
  return escape_put(c->text, "host\n", 0600);
}

ATTEMPT(a_host_tmp)
{
  if (!c->num[0] && !escape_own_mounts(c)) {
    errno = EOPNOTSUPP;
    return -1;
  }
  return escape_scribble(c->text, 0);
}

STATE(s_host_tmp)
{
  char text[32];

  return escape_get(c->text, text, sizeof text) < 0 ? -1 : text[0];
}

CLEANUP(c_host_tmp)
{
  if (c->text[0] == '/')
    unlink(c->text);
}

#define W(id_, attempt_) {.id = id_, .family = "write", .attempt = attempt_}
#define WW(id_, attempt_) \
  {.id = id_, .family = "write", .flags = ESCAPE_WORKSPACE_ONLY, .attempt = attempt_}

const struct escape_technique escape_write[] = {
    W("open-truncate", a_open_truncate),
    W("open-append", a_open_append),
    W("create", a_create),
    W("creat", a_creat),
    W("openat-dirfd", a_openat),
    W("openat2", a_openat2),
    W("open-read-truncate", a_open_read_truncate),
    W("open-mode-3", a_open_mode_3),
    W("open-int80", a_open_int80),
#ifdef SYS_open
    W("open-x32", a_open_x32),
#endif
    W("reopen-reading", a_reopen_reading),
    W("reopen-opath", a_reopen_opath),
    W("chdir-relative", a_chdir_relative),
    W("mmap-shared", a_mmap_shared),
    {.id = "truncate", .family = "truncate", .attempt = a_truncate},
    {.id = "truncate-int80", .family = "truncate", .attempt = a_truncate_int80},
    W("fallocate", a_fallocate),
    W("copy-file-range", a_copy_range),
    W("sendfile", a_sendfile),
    W("splice", a_splice),
    W("rename-over", a_rename_over),
    W("rename-away", a_rename_away),
    WW("rename-out-of-workspace", a_rename_out),
    WW("rename-into-workspace", a_rename_in),
    W("exchange", a_exchange),
    WW("exchange-with-workspace", a_exchange_out),
    W("rename-int80", a_rename_int80),
    W("symlink", a_symlink),
    W("mkdir", a_mkdir),
    W("mkdir-int80", a_mkdir_int80),
    W("mknod-file", a_mknod_file),
    W("mkfifo", a_mkfifo),
    W("bind-socket-name", a_bind_socket),
    W("unlink", a_unlink),
    W("unlinkat-dirfd", a_unlinkat),
    W("unlink-int80", a_unlink_int80),
    W("rmdir", a_rmdir),
    W("link", a_link),
    W("tmpfile-link", a_tmpfile_link),
    W("io-uring-open", a_uring_open),
    W("io-uring-rename", a_uring_rename),
    W("io-uring-unlink", a_uring_unlink),
    W("io-uring-mkdir", a_uring_mkdir),
    W("io-uring-symlink", a_uring_symlink),
    W("io-uring-link", a_uring_link),
    {.id = "core-dump", .family = "write", .prepare = p_core, .attempt = a_core},
    {.id = "host-tmp",
     .family = "write",
     .flags = ESCAPE_WORKSPACE_ONLY,
     .prepare = p_host_tmp,
     .attempt = a_host_tmp,
     .state = s_host_tmp,
     .cleanup = c_host_tmp},
};
const size_t escape_write_count = sizeof escape_write / sizeof *escape_write;
