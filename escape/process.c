/*
 * An outside process of the same user: its view of the file system and its memory through /proc
 * and ptrace, its descriptors, its limits and priorities, signals to it, locks against it; and
 * processes that outlive the command.
 */
#define _GNU_SOURCE
#include "families.h"
#include "inside.h"
#include "outside.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *proc(struct escape_ctx *c, const char *rest)
{
  static char path[ESCAPE_PATH * 2];

  snprintf(path, sizeof path, "/proc/%d/%s", (int)c->helper, rest);
  return path;
}

static int write_text(const char *path, const char *text)
{
  int fd = open(path, O_WRONLY | O_CLOEXEC);

  if (fd < 0)
    return -1;
  ssize_t n = write(fd, text, strlen(text));
  close(fd);
  return n > 0 ? 0 : -1;
}

/* the file system as it sees it */

ATTEMPT(a_proc_root)
{
  char rest[ESCAPE_PATH + 8];

  snprintf(rest, sizeof rest, "root%s", c->file);
  return escape_scribble(proc(c, rest), 0);
}

ATTEMPT(a_proc_cwd)
{
  return escape_scribble(proc(c, "cwd/file"), 0);
}

ATTEMPT(a_proc_fd)
{
  char rest[32];

  snprintf(rest, sizeof rest, "fd/%ld", c->num[0]);
  return escape_scribble(proc(c, rest), 0);
}

ATTEMPT(a_proc_map_files)
{
  char rest[96];

  snprintf(rest, sizeof rest, "map_files/%lx-%lx", (unsigned long)c->num[2],
           (unsigned long)c->num[2] + 4096);
  return escape_scribble(proc(c, rest), 0);
}

ATTEMPT(a_proc_init_root)
{
  return escape_scribble(escape_in("/proc/1/root", c->file), 0);
}

/* Every process that can be seen, not only the one named. */
ATTEMPT(a_proc_any_root)
{
  char path[ESCAPE_PATH * 2];

  DIR *all = opendir("/proc");
  const struct dirent *d;
  int rc = -1;
  while (all && rc < 0 && (d = readdir(all))) {
    if (d->d_name[0] < '1' || d->d_name[0] > '9')
      continue;
    snprintf(path, sizeof path, "/proc/%.16s/root%s", d->d_name, c->file);
    rc = escape_scribble(path, 0);
  }
  if (all)
    closedir(all);
  return rc;
}

/* its memory and descriptors */

ATTEMPT(a_proc_mem)
{
  int fd = open(proc(c, "mem"), O_RDWR | O_CLOEXEC);

  return fd >= 0 && pwrite(fd, "escaped", 8, c->num[1]) == 8 ? 0 : -1;
}

static int poke(struct escape_ctx *c, int how)
{
  long word;

  memcpy(&word, "escaped", sizeof word);
  if (ptrace(how, c->helper, NULL, NULL) < 0)
    return -1;
  if (how == PTRACE_SEIZE && ptrace(PTRACE_INTERRUPT, c->helper, NULL, NULL) < 0)
    return -1;
  if (waitpid(c->helper, NULL, __WALL) < 0)
    return -1;
  long rc = ptrace(PTRACE_POKEDATA, c->helper, (void *)(uintptr_t)c->num[1],
                   (void *)(uintptr_t)word);
  ptrace(PTRACE_DETACH, c->helper, NULL, NULL);
  return rc < 0 ? -1 : 0;
}

ATTEMPT(a_ptrace_attach)
{
  return poke(c, PTRACE_ATTACH);
}

ATTEMPT(a_ptrace_seize)
{
  return poke(c, PTRACE_SEIZE);
}

ATTEMPT(a_ptrace_int80)
{
  if (INT80(I386_ptrace, PTRACE_ATTACH, (long)c->helper, 0, 0) < 0 ||
      waitpid(c->helper, NULL, __WALL) < 0)
    return -1;
  /* the i386 call truncates addresses; the attachment is what it is for */
  long word;
  memcpy(&word, "escaped", sizeof word);
  long rc = ptrace(PTRACE_POKEDATA, c->helper, (void *)(uintptr_t)c->num[1],
                   (void *)(uintptr_t)word);
  ptrace(PTRACE_DETACH, c->helper, NULL, NULL);
  return rc < 0 ? -1 : 0;
}

ATTEMPT(a_vm_writev)
{
  char text[] = "escaped";
  const struct iovec local = {text, sizeof text};
  const struct iovec remote = {(void *)(uintptr_t)c->num[1], sizeof text};

  return process_vm_writev(c->helper, &local, 1, &remote, 1, 0) > 0 ? 0 : -1;
}

ATTEMPT(a_pidfd_getfd)
{
  int pidfd = (int)syscall(SYS_pidfd_open, c->helper, 0);
  int fd = (int)syscall(SYS_pidfd_getfd, pidfd, c->num[0], 0);

  return fd >= 0 && write(fd, "escaped\n", 8) == 8 ? 0 : -1;
}

/* limits and priorities; state() is read outside */

static long read_number(const char *path)
{
  char text[64];

  return escape_get(path, text, sizeof text) < 0 ? -12345 : strtol(text, NULL, 0);
}

ATTEMPT(a_oom_score)
{
  return write_text(proc(c, "oom_score_adj"), "500");
}

STATE(s_oom_score)
{
  return read_number(proc(c, "oom_score_adj"));
}

ATTEMPT(a_coredump_filter)
{
  return write_text(proc(c, "coredump_filter"), "0x1");
}

STATE(s_coredump_filter)
{
  char text[64];

  return escape_get(proc(c, "coredump_filter"), text, sizeof text) < 0 ? 0
                                                                       : strtol(text, NULL, 16);
}

ATTEMPT(a_autogroup)
{
  const struct timespec wait = {0, 60000000};

  /* the kernel takes one such change in 100 ms, from whomever */
  for (int tries = 0; tries < 6; tries++) {
    if (write_text(proc(c, "autogroup"), "5") == 0)
      return 0;
    if (errno != EAGAIN)
      break;
    nanosleep(&wait, NULL);
  }
  return -1;
}

STATE(s_autogroup)
{
  char text[64];
  const char *nice;

  if (escape_get(proc(c, "autogroup"), text, sizeof text) < 0)
    return 0;
  nice = strstr(text, "nice ");
  return nice ? strtol(nice + 5, NULL, 10) : 0;
}

ATTEMPT(a_timerslack)
{
  return write_text(proc(c, "timerslack_ns"), "1234567");
}

STATE(s_timerslack)
{
  return read_number(proc(c, "timerslack_ns"));
}

ATTEMPT(a_prlimit)
{
  const struct rlimit none = {0, 0};

  return prlimit(c->helper, RLIMIT_FSIZE, &none, NULL);
}

STATE(s_prlimit)
{
  struct rlimit now;

  return prlimit(c->helper, RLIMIT_FSIZE, NULL, &now) < 0 ? -1 : (long)(now.rlim_cur >> 1);
}

ATTEMPT(a_setpriority)
{
  return setpriority(PRIO_PROCESS, (id_t)c->helper, 7);
}

STATE(s_setpriority)
{
  return getpriority(PRIO_PROCESS, (id_t)c->helper);
}

ATTEMPT(a_setpriority_user)
{
  /* all processes of a user at once would touch more than ours: the group of the helper only */
  return setpriority(PRIO_PGRP, (id_t)c->num[3], 7);
}

/* In a process group of its own, so that only it can be meant. */
static void bystand_apart(struct escape_ctx *c, int stop)
{
  setpgid(0, 0);
  escape_bystand(c, stop);
}

PREPARE(p_apart)
{
  int rc = escape_helper(c, bystand_apart);

  c->num[3] = c->helper;
  return rc;
}

ATTEMPT(a_affinity)
{
  cpu_set_t one;

  CPU_ZERO(&one);
  CPU_SET(0, &one);
  return sched_setaffinity(c->helper, sizeof one, &one);
}

STATE(s_affinity)
{
  cpu_set_t set;

  return sched_getaffinity(c->helper, sizeof set, &set) < 0 ? -1 : CPU_COUNT(&set);
}

ATTEMPT(a_scheduler)
{
  const struct sched_param none = {0};

  return (int)syscall(SYS_sched_setscheduler, c->helper, SCHED_BATCH, &none);
}

STATE(s_scheduler)
{
  return syscall(SYS_sched_getscheduler, c->helper);
}

ATTEMPT(a_ioprio)
{
  /* class idle */
  return (int)syscall(SYS_ioprio_set, 1, c->helper, 3 << 13);
}

STATE(s_ioprio)
{
  return syscall(SYS_ioprio_get, 1, c->helper);
}

/* signals */

ATTEMPT(a_kill)
{
  return kill(c->helper, SIGUSR1);
}

ATTEMPT(a_kill_int80)
{
  return (int)INT80(I386_kill, (long)c->helper, SIGUSR1);
}

ATTEMPT(a_kill_group)
{
  return kill(-(pid_t)c->num[3], SIGUSR1);
}

ATTEMPT(a_tgkill)
{
  return (int)syscall(SYS_tgkill, c->helper, c->helper, SIGUSR1);
}

ATTEMPT(a_sigqueue)
{
  const union sigval none = {0};

  return sigqueue(c->helper, SIGUSR1, none);
}

ATTEMPT(a_pidfd_signal)
{
  int pidfd = (int)syscall(SYS_pidfd_open, c->helper, 0);

  return (int)syscall(SYS_pidfd_send_signal, pidfd, SIGUSR1, NULL, 0);
}

/* The kernel sends SIGIO for whoever set the owner of a descriptor. */
ATTEMPT(a_sigio)
{
  int ends[2];
  const struct timespec ms = {0, 2000000};

  if (pipe(ends) < 0 || fcntl(ends[0], F_SETOWN, c->helper) < 0 ||
      fcntl(ends[0], F_SETFL, O_ASYNC) < 0)
    return -1;
  (void)!write(ends[1], "x", 1);
  nanosleep(&ms, NULL);
  return 0;
}

/* locks on files that can be read: judged while they are held */

ATTEMPT(a_flock)
{
  return flock(open(c->file, O_RDONLY | O_CLOEXEC), LOCK_EX | LOCK_NB);
}

JUDGE(j_flock)
{
  int fd = open(c->file, O_RDONLY | O_CLOEXEC);
  bool locked = flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;

  close(fd);
  return locked && escape_because(c, "victim/file is locked");
}

ATTEMPT(a_read_lock)
{
  const struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};

  return fcntl(open(c->file, O_RDONLY | O_CLOEXEC), F_SETLK, &lock);
}

JUDGE(j_read_lock)
{
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  int fd = open(c->file, O_RDWR | O_CLOEXEC);
  bool locked = fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;

  close(fd);
  return locked && escape_because(c, "victim/file is locked");
}

ATTEMPT(a_lease)
{
  /* the holder must outlive the signal that asks for the lease back */
  signal(SIGIO, SIG_IGN);
  return fcntl(open(c->file, O_RDONLY | O_CLOEXEC), F_SETLEASE, F_RDLCK);
}

JUDGE(j_lease)
{
  int fd = open(c->file, O_WRONLY | O_NONBLOCK | O_CLOEXEC);

  if (fd < 0)
    return errno == EWOULDBLOCK && escape_because(c, "victim/file cannot be opened for writing");
  close(fd);
  return false;
}

/* processes that outlive the command */

static int daemonize(int ignored_signals)
{
  int ends[2];
  char byte = 0;

  if (pipe(ends) < 0)
    return -1;
  pid_t pid = fork();
  if (pid == 0) {
    if (fork() > 0)
      _exit(0);
    const struct timespec minute = {60, 0};
    setsid();
    for (int i = 1; i < 32 && ignored_signals; i++)
      signal(i, SIG_IGN);
    (void)!chdir("/");
    close(0);
    close(1);
    close(2);
    (void)!write(ends[1], "r", 1);
    close(ends[1]);
    nanosleep(&minute, NULL);
    _exit(0);
  }
  close(ends[1]);
  return pid > 0 && read(ends[0], &byte, 1) == 1 ? 0 : -1;
}

ATTEMPT(a_daemon)
{
  (void)c;
  return daemonize(0);
}

ATTEMPT(a_daemon_deaf)
{
  (void)c;
  return daemonize(1);
}

ATTEMPT(a_daemon_many)
{
  (void)c;
  for (int i = 0; i < 20; i++)
    if (daemonize(1) < 0)
      return -1;
  return 0;
}

/* Without confinement it is there at once; confined it has 2 s to go. */
JUDGE(j_left)
{
  const struct timespec step = {0, 5000000};
  int left = 0;

  for (int tries = 0; tries < 400; tries++) {
    left = escape_descendants(c);
    if (left == 0 || c->control)
      break;
    nanosleep(&step, NULL);
  }
  return left > 0 && escape_because(c, "%d of its processes still run", left);
}

#define B(id_, family_, flags_, attempt_)                 \
  {.id = id_,                                             \
   .family = family_,                                    \
   .flags = ESCAPE_VIA_OUTSIDE | (flags_),               \
   .prepare = escape_with_bystander,                     \
   .attempt = attempt_}
#define L(id_, attempt_, state_)                           \
  {.id = id_,                                              \
   .family = "limits",                                    \
   .flags = ESCAPE_VIA_OUTSIDE | ESCAPE_CHANNEL_PROCESS,  \
   .prepare = escape_with_bystander,                      \
   .attempt = attempt_,                                   \
   .state = state_}
#define S(id_, prepare_, attempt_)                         \
  {.id = id_,                                              \
   .family = "signals",                                   \
   .flags = ESCAPE_VIA_OUTSIDE | ESCAPE_CHANNEL_PROCESS,  \
   .by_design = "outside-signals",                        \
   .prepare = prepare_,                                   \
   .attempt = attempt_}

const struct escape_technique escape_process[] = {
    B("proc-pid-root", "proc", 0, a_proc_root),
    B("proc-pid-cwd", "proc", 0, a_proc_cwd),
    B("proc-pid-fd", "proc", 0, a_proc_fd),
    B("proc-pid-map-files", "proc", ESCAPE_ROOT_ONLY, a_proc_map_files),
    B("proc-init-root", "proc", ESCAPE_ROOT_ONLY, a_proc_init_root),
    B("proc-any-root", "proc", 0, a_proc_any_root),
    B("proc-pid-mem", "proc", 0, a_proc_mem),
    B("ptrace-attach", "ptrace", 0, a_ptrace_attach),
    B("ptrace-seize", "ptrace", 0, a_ptrace_seize),
    B("ptrace-int80", "ptrace", 0, a_ptrace_int80),
    B("process-vm-writev", "ptrace", 0, a_vm_writev),
    B("pidfd-getfd", "ptrace", 0, a_pidfd_getfd),
    L("oom-score-adj", a_oom_score, s_oom_score),
    L("coredump-filter", a_coredump_filter, s_coredump_filter),
    L("autogroup", a_autogroup, s_autogroup),
    L("timerslack", a_timerslack, s_timerslack),
    L("prlimit", a_prlimit, s_prlimit),
    L("setpriority", a_setpriority, s_setpriority),
    {.id = "setpriority-group",
     .family = "limits",
     .flags = ESCAPE_VIA_OUTSIDE | ESCAPE_CHANNEL_PROCESS,
     .prepare = p_apart,
     .attempt = a_setpriority_user,
     .state = s_setpriority},
    L("sched-setaffinity", a_affinity, s_affinity),
    L("sched-setscheduler", a_scheduler, s_scheduler),
    L("ioprio-set", a_ioprio, s_ioprio),
    S("kill", escape_with_bystander, a_kill),
    S("kill-int80", escape_with_bystander, a_kill_int80),
    S("kill-group", p_apart, a_kill_group),
    S("tgkill", escape_with_bystander, a_tgkill),
    S("sigqueue", escape_with_bystander, a_sigqueue),
    S("pidfd-send-signal", escape_with_bystander, a_pidfd_signal),
    S("sigio-owner", escape_with_bystander, a_sigio),
    {.id = "flock",
     .family = "locks",
     .flags = ESCAPE_HOLD,
     .by_design = "locks",
     .attempt = a_flock,
     .escaped = j_flock},
    {.id = "read-lock",
     .family = "locks",
     .flags = ESCAPE_HOLD,
     .by_design = "locks",
     .attempt = a_read_lock,
     .escaped = j_read_lock},
    {.id = "lease",
     .family = "locks",
     .flags = ESCAPE_HOLD,
     .attempt = a_lease,
     .escaped = j_lease},
    {.id = "daemon-left-behind", .family = "leftover", .attempt = a_daemon, .escaped = j_left},
    {.id = "daemon-deaf-to-signals",
     .family = "leftover",
     .attempt = a_daemon_deaf,
     .escaped = j_left},
    {.id = "daemons-many", .family = "leftover", .attempt = a_daemon_many, .escaped = j_left},
    {.id = "launcher-killed",
     .family = "leftover",
     .flags = ESCAPE_KILLS_LAUNCHER,
     .attempt = a_daemon_deaf,
     .escaped = j_left},
};
const size_t escape_process_count = sizeof escape_process / sizeof *escape_process;
