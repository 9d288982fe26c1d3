#define _GNU_SOURCE
#include "inside.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

char *escape_in(const char *dir, const char *name)
{
  static char path[4][ESCAPE_PATH * 2];
  static unsigned turn;
  char *p = path[turn++ % 4];

  snprintf(p, sizeof path[0], "%s/%s", dir, name);
  return p;
}

int escape_scribble(const char *path, int flags)
{
  int fd = open(path, O_WRONLY | O_CLOEXEC | flags, 0644), bad;

  if (fd < 0)
    return -1;
  bad = write(fd, "escaped\n", 8) != 8;
  close(fd);
  return bad ? -1 : 0;
}

int escape_write_victim(struct escape_ctx *c)
{
  int file = escape_scribble(c->file, 0);
  int fresh = escape_scribble(escape_in(c->victim, "new"), O_CREAT);

  return file == 0 || fresh == 0 ? 0 : -1;
}

int escape_reopen(int fd, int flags)
{
  char path[64];

  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  return escape_scribble(path, flags);
}

long escape_int80(long nr, const long arg[6])
{
#ifdef ESCAPE_HAS_INT80
  long ret;

  __asm__ volatile("int $0x80"
                   : "=a"(ret)
                   : "a"(nr), "b"(arg[0]), "c"(arg[1]), "d"(arg[2]), "S"(arg[3]), "D"(arg[4])
                   : "memory", "r8", "r9", "r10", "r11");
  ret = (int)ret;
  if (ret < 0 && ret > -4096) {
    errno = (int)-ret;
    return -1;
  }
  return ret;
#else
  (void)nr;
  (void)arg;
  errno = ENOSYS;
  return -1;
#endif
}

long escape_low(const void *data, size_t size)
{
#ifdef ESCAPE_HAS_INT80
  static char *page;
  static size_t used;
  const size_t room = 16384;

  if (!page) {
    page = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    if (page == MAP_FAILED) {
      page = NULL;
      return 0;
    }
  }
  size_t start = (used + 15) & ~(size_t)15;
  if (start + size > room) {
    errno = ENOMEM;
    return 0;
  }
  memcpy(page + start, data, size);
  used = start + size;
  return (long)(page + start);
#else
  (void)data;
  (void)size;
  errno = ENOSYS;
  return 0;
#endif
}

long escape_low_str(const char *text)
{
  return escape_low(text, strlen(text) + 1);
}

int escape_uring(const struct abi_sqe *sqe)
{
  struct abi_uring_params p;
  int result = -1;

  memset(&p, 0, sizeof p);
  int ring = (int)syscall(SYS_io_uring_setup, 2, &p);
  if (ring < 0)
    return -1;
  size_t sq_size = p.sq_off.array + p.sq_entries * sizeof(uint32_t);
  size_t cq_size = p.cq_off.cqes + p.cq_entries * sizeof(struct abi_cqe);
  char *sq = mmap(NULL, sq_size, PROT_READ | PROT_WRITE, MAP_SHARED, ring, 0);
  char *cq = mmap(NULL, cq_size, PROT_READ | PROT_WRITE, MAP_SHARED, ring, 0x8000000);
  struct abi_sqe *sqes = mmap(NULL, p.sq_entries * sizeof *sqes, PROT_READ | PROT_WRITE,
                              MAP_SHARED, ring, 0x10000000);
  if (sq == MAP_FAILED || cq == MAP_FAILED || sqes == MAP_FAILED)
    goto out;
  sqes[0] = *sqe;
  *(uint32_t *)(void *)(sq + p.sq_off.array) = 0;
  __atomic_store_n((uint32_t *)(void *)(sq + p.sq_off.tail), 1, __ATOMIC_RELEASE);
  if (syscall(SYS_io_uring_enter, ring, 1, 1, 1, NULL, 0) < 0)
    goto out;
  const struct abi_cqe *cqe = (const void *)(cq + p.cq_off.cqes);
  result = cqe->res;
  if (result < 0) {
    errno = -result;
    result = -1;
  }
out:
  close(ring);
  return result;
}

int escape_ask(int family, int type, int protocol, const void *addr, size_t size)
{
  int fd = socket(family, type, protocol), rc = -1;

  if (fd < 0)
    return -1;
  if (type == SOCK_DGRAM) {
    if (sendto(fd, ESCAPE_ASK, sizeof ESCAPE_ASK, MSG_NOSIGNAL, addr, (socklen_t)size) > 0)
      rc = 0;
  } else if (connect(fd, addr, (socklen_t)size) == 0 &&
             send(fd, ESCAPE_ASK, sizeof ESCAPE_ASK, MSG_NOSIGNAL) > 0) {
    rc = 0;
  }
  int saved = errno;
  close(fd);
  errno = saved;
  return rc;
}

int escape_exec_wait(const char *const argv[])
{
  int status;
  pid_t pid = fork();

  if (pid < 0)
    return -1;
  if (pid == 0) {
    int null = open("/dev/null", O_WRONLY);
    dup2(null, 1);
    dup2(null, 2);
    execvp(argv[0], (char *const *)(uintptr_t)argv);
    _exit(127);
  }
  if (waitpid(pid, &status, 0) != pid)
    return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool escape_own_mounts(struct escape_ctx *c)
{
  struct stat st;

  return c->num[5] != 0 && stat("/proc/self/ns/mnt", &st) == 0 && (long)st.st_ino != c->num[5];
}

int escape_take_mounts(struct escape_ctx *c, bool with_user_namespace)
{
  uid_t uid = geteuid();
  gid_t gid = getegid();
  char line[64];

  if (!with_user_namespace && escape_own_mounts(c))
    return 0;
  if (unshare(CLONE_NEWNS | (with_user_namespace ? CLONE_NEWUSER : 0)) < 0)
    return -1;
  if (with_user_namespace) {
    snprintf(line, sizeof line, "0 %u 1", (unsigned)uid);
    int fd = open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
      (void)!write(fd, line, strlen(line));
      close(fd);
    }
    fd = open("/proc/self/setgroups", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
      (void)!write(fd, "deny", 4);
      close(fd);
    }
    snprintf(line, sizeof line, "0 %u 1", (unsigned)gid);
    fd = open("/proc/self/gid_map", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
      (void)!write(fd, line, strlen(line));
      close(fd);
    }
  }
  return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
}
