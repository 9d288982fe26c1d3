#define _GNU_SOURCE
#include "outside.h"

#include "abi.h"
#include "inside.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 64 };

static int ready_fd = -1;

int escape_not_here(struct escape_ctx *c, const char *format, ...)
{
  va_list ap;

  va_start(ap, format);
  vsnprintf(c->why, sizeof c->why, format, ap);
  va_end(ap);
  return ESCAPE_NOT_HERE;
}

bool escape_because(struct escape_ctx *c, const char *format, ...)
{
  va_list ap;

  va_start(ap, format);
  vsnprintf(c->why, sizeof c->why, format, ap);
  va_end(ap);
  return true;
}

int escape_put(const char *path, const char *text, mode_t mode)
{
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
  int rc = 0;

  if (fd < 0)
    return -errno;
  if (write(fd, text, strlen(text)) != (ssize_t)strlen(text) || fchmod(fd, mode) < 0)
    rc = -errno;
  close(fd);
  return rc;
}

int escape_get(const char *path, char *text, size_t size)
{
  int fd = open(path, O_RDONLY | O_CLOEXEC);

  if (fd < 0)
    return -errno;
  ssize_t n = read(fd, text, size - 1);
  int saved = errno;
  close(fd);
  if (n < 0)
    return -saved;
  if (n > 0 && text[n - 1] == '\n')
    n--;
  text[n] = '\0';
  return (int)n;
}

int escape_copy_program(struct escape_ctx *c, const char *to, mode_t mode)
{
  char block[65536];
  ssize_t n = -1;
  int in = open(c->program[0], O_RDONLY | O_CLOEXEC);
  int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);

  while (in >= 0 && out >= 0 && (n = read(in, block, sizeof block)) > 0)
    if (write(out, block, (size_t)n) != n)
      n = -1;
  if (n == 0 && fchmod(out, mode) < 0)
    n = -1;
  int rc = n == 0 ? 0 : -errno;
  if (in >= 0)
    close(in);
  if (out >= 0)
    close(out);
  return rc;
}

void escape_lock(const char *path)
{
  int fd = open(path, O_RDONLY | O_CLOEXEC);

  if (fd >= 0)
    flock(fd, LOCK_EX);
}

static void clear_immutable(const char *path)
{
  int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC), flags;

  if (fd < 0)
    return;
  if (ioctl(fd, ABI_FS_IOC_GETFLAGS, &flags) == 0 && (flags & ABI_FS_IMMUTABLE_FL)) {
    flags &= ~ABI_FS_IMMUTABLE_FL;
    ioctl(fd, ABI_FS_IOC_SETFLAGS, &flags);
  }
  close(fd);
}

/* Without readdir(3): its buffer is mapped and unmapped each time, thousands of times in a proof. */
size_t escape_names(const char *path, char *out, size_t size)
{
  _Alignas(8) char entries[1024];
  size_t used = 0;
  long got = 0;
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

  while (fd >= 0 && (got = syscall(SYS_getdents64, fd, entries, sizeof entries)) > 0)
    for (long at = 0; at < got;) {
      const char *name = entries + at + 19; /* offsets of struct linux_dirent64 (getdents(2)) */
      size_t length = strlen(name) + 1;
      uint16_t step;
      memcpy(&step, entries + at + 16, sizeof step);
      at += step;
      if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || used + length > size)
        continue;
      memcpy(out + used, name, length);
      used += length;
    }
  if (fd >= 0)
    close(fd);
  return used;
}

static void remove_directory(const char *path)
{
  char names[2048], below[ESCAPE_PATH * 2];

  /* As many rounds as one buffer of names after the other takes, and no more if some cannot go. */
  for (int round = 0; round < ROUNDS; round++) {
    size_t size = escape_names(path, names, sizeof names);
    for (size_t at = 0; at < size; at += strlen(names + at) + 1) {
      snprintf(below, sizeof below, "%s/%s", path, names + at);
      escape_remove_tree(below);
    }
    if (rmdir(path) == 0 || (round > 0 && !size))
      return;
    clear_immutable(path);
    chmod(path, 0700);
  }
}

void escape_remove_tree(const char *path)
{
  struct stat st;

  if (unlink(path) == 0 || lstat(path, &st) < 0)
    return;
  if (S_ISDIR(st.st_mode)) {
    remove_directory(path);
    return;
  }
  clear_immutable(path);
  unlink(path);
}

void escape_age(struct escape_ctx *c)
{
  const struct timespec past[2] = {{1000000000, 0}, {1000000000, 0}};
  static const char *const names[] = {"file", "other", "setid", "link", "dir/inner",
                                      "dir",  "empty", NULL};

  for (size_t i = 0; names[i]; i++)
    utimensat(AT_FDCWD, escape_in(c->victim, names[i]), past, AT_SYMLINK_NOFOLLOW);
  utimensat(AT_FDCWD, c->victim, past, 0);
}

int escape_usual(struct escape_ctx *c)
{
  int rc = escape_put(c->file, "victim\n", 0644);

  if (rc == 0)
    rc = escape_put(escape_in(c->victim, "other"), "other\n", 0644);
  if (rc == 0)
    rc = escape_put(escape_in(c->victim, "setid"), "setid\n", 06755);
  if (rc == 0 && (mkdir(escape_in(c->victim, "dir"), 0755) < 0 ||
                  mkdir(escape_in(c->victim, "empty"), 0755) < 0 ||
                  symlink("file", escape_in(c->victim, "link")) < 0 ||
                  mkdir(escape_in(c->ws, "sub"), 0755) < 0))
    rc = -errno;
  if (rc == 0)
    rc = escape_put(escape_in(c->victim, "dir/inner"), "inner\n", 0644);
  if (rc == 0)
    rc = escape_put(escape_in(c->ws, "inside"), "inside\n", 0644);
  if (rc == 0) {
    setxattr(c->file, "user.victim", "kept", 4, 0);
    escape_age(c);
  }
  return rc;
}

void escape_ready(void)
{
  (void)!write(ready_fd, "r", 1);
  close(ready_fd);
  ready_fd = -1;
}

int escape_helper(struct escape_ctx *c, void (*work)(struct escape_ctx *c, int stop))
{
  int stop[2], ready[2];
  pid_t parent = getpid();
  char byte;

  if (c->helpers == ESCAPE_HELPERS)
    return -ENOSPC;
  if (pipe2(stop, O_CLOEXEC) < 0)
    return -errno;
  if (pipe2(ready, O_CLOEXEC) < 0) {
    close(stop[0]);
    close(stop[1]);
    return -EMFILE;
  }
  pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
      _exit(1);
    close(stop[1]);
    close(ready[0]);
    for (size_t i = 0; i < c->helpers; i++)
      close(c->running[i].stop);
    ready_fd = ready[1];
    work(c, stop[0]);
    _exit(0);
  }
  close(stop[0]);
  close(ready[1]);
  ssize_t n = pid < 0 ? -1 : read(ready[0], &byte, 1);
  close(ready[0]);
  if (pid < 0) {
    close(stop[1]);
    return -EAGAIN;
  }
  c->running[c->helpers].pid = pid;
  c->running[c->helpers].stop = stop[1];
  c->helpers++;
  c->helper = pid;
  return n == 1 ? 0 : -ECHILD;
}

void escape_finish(struct escape_ctx *c)
{
  const struct timespec ms = {0, 1000000};

  for (size_t i = 0; i < c->helpers; i++)
    close(c->running[i].stop);
  for (size_t i = 0; i < c->helpers; i++) {
    int tries = 0;
    while (waitpid(c->running[i].pid, NULL, WNOHANG) == 0) {
      if (++tries == 1000)
        kill(c->running[i].pid, SIGKILL);
      nanosleep(&ms, NULL);
    }
  }
  c->helpers = 0;
}

int escape_pass(struct escape_spawn *s, int from, int to)
{
  if (from < 0)
    return -errno;
  if (s->passed == ESCAPE_PASSED)
    return -ENOSPC;
  s->pass[s->passed].from = from;
  s->pass[s->passed].to = to;
  s->passed++;
  return 0;
}

int escape_env(struct escape_spawn *s, const char *format, ...)
{
  va_list ap;
  char *word = malloc(ESCAPE_PATH * 3);

  if (!word || s->envs == ESCAPE_ENV) {
    free(word);
    return -ENOMEM;
  }
  va_start(ap, format);
  vsnprintf(word, ESCAPE_PATH * 3, format, ap);
  va_end(ap);
  s->env[s->envs++] = word;
  return 0;
}

enum { PROCESSES = 4096 };

static size_t read_parents(pid_t *pid, pid_t *parent, char *state)
{
  DIR *proc = opendir("/proc");
  const struct dirent *d;
  size_t n = 0;
  char path[64], text[512];

  while (proc && n < PROCESSES && (d = readdir(proc))) {
    if (d->d_name[0] < '1' || d->d_name[0] > '9')
      continue;
    snprintf(path, sizeof path, "/proc/%.16s/stat", d->d_name);
    if (escape_get(path, text, sizeof text) <= 0)
      continue;
    const char *end = strrchr(text, ')');
    int up;
    if (!end || sscanf(end + 1, " %c %d", &state[n], &up) != 2)
      continue;
    pid[n] = (pid_t)strtol(d->d_name, NULL, 10);
    parent[n++] = (pid_t)up;
  }
  if (proc)
    closedir(proc);
  return n;
}

static bool is_helper(const struct escape_ctx *c, pid_t pid)
{
  for (size_t i = 0; i < c->helpers; i++)
    if (c->running[i].pid == pid)
      return true;
  return false;
}

/* Sends signal (0: none) to every living descendant of root that is no helper; how many there are. */
static int each_descendant(pid_t root, const struct escape_ctx *c, int signal)
{
  static pid_t pid[PROCESSES], parent[PROCESSES];
  static char state[PROCESSES];
  static bool mine[PROCESSES];
  size_t n = read_parents(pid, parent, state);
  bool more = true;
  int count = 0;

  memset(mine, 0, sizeof mine);
  while (more) {
    more = false;
    for (size_t i = 0; i < n; i++) {
      bool below = parent[i] == root;
      for (size_t j = 0; j < n && !below; j++)
        below = mine[j] && pid[j] == parent[i];
      if (below && !mine[i] && !(c && is_helper(c, pid[i])))
        mine[i] = more = true;
    }
  }
  for (size_t i = 0; i < n; i++)
    if (mine[i] && state[i] != 'Z') {
      count++;
      if (signal)
        kill(pid[i], signal);
    }
  return count;
}

int escape_descendants(struct escape_ctx *c)
{
  return each_descendant(getpid(), c, 0);
}

void escape_sweep(struct escape_ctx *c)
{
  const struct timespec ms = {0, 1000000};
  siginfo_t info;

  for (int tries = 0; tries < 1000; tries++) {
    /* Only children that are no helpers are reaped here; the cheap question comes first. */
    info.si_pid = 0;
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0)
      return;
    if (info.si_pid != 0) {
      waitpid(info.si_pid, NULL, WNOHANG);
      continue;
    }
    if (each_descendant(getpid(), c, SIGKILL) == 0)
      return;
    nanosleep(&ms, NULL);
  }
}

void escape_kill_tree(pid_t root)
{
  const struct timespec ms = {0, 1000000};

  for (int tries = 0; tries < 1000 && each_descendant(root, NULL, SIGKILL) > 0; tries++)
    nanosleep(&ms, NULL);
  kill(root, SIGKILL);
}
