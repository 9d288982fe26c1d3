#define _GNU_SOURCE
#include "cell.h"

#include "abi.h"
#include "inside.h"
#include "outside.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { WORDS = 128, STDERR_KEPT = 2048, DEFAULT_TIMEOUT = 5000, STACK = 65536 };

struct cell {
  const struct escape_config *config;
  const struct escape_technique *t;
  bool confined;
  struct escape_ctx c;
  struct escape_spawn s;
  struct escape_result r;
  char *argv[WORDS];
  char **built; /* argv or the callback's */
  char **environment;
  int err;      /* the attempt's standard error */
  int cwd;      /* held from before begin() */
  char text[STDERR_KEPT]; /* what came on stderr */
  size_t size;
  bool judged;
};

static long now_ms(void)
{
  struct timespec t;

  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int take_user(struct cell *x)
{
  if (!x->config->user)
    return 0;
  const struct passwd *pw = getpwnam(x->config->user);
  if (!pw)
    return escape_not_here(&x->c, "no such user: %.100s", x->config->user);
  if (initgroups(pw->pw_name, pw->pw_gid) < 0 || setgid(pw->pw_gid) < 0 || setuid(pw->pw_uid) < 0)
    return -errno;
  /* The ids' change made this process untouchable for its own user, which no shell would be. */
  prctl(PR_SET_DUMPABLE, 1);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  setenv("HOME", pw->pw_dir, 1);
  setenv("USER", pw->pw_name, 1);
  setenv("LOGNAME", pw->pw_name, 1);
  return 0;
}

static int make_folders(struct cell *x, const struct escape_task *task)
{
  struct escape_ctx *c = &x->c;
  struct stat st;

  snprintf(c->cell, sizeof c->cell, "%s", task->cell);
  snprintf(c->victim, sizeof c->victim, "%s", escape_in(task->cell, "victim"));
  snprintf(c->ws, sizeof c->ws, "%s", escape_in(task->cell, "ws"));
  snprintf(c->file, sizeof c->file, "%s", escape_in(c->victim, "file"));
  c->num[5] = stat("/proc/self/ns/mnt", &st) == 0 ? (long)st.st_ino : 0;
  if (task->made)
    return 0;
  if (mkdir(c->victim, 0755) < 0 || mkdir(c->ws, 0755) < 0)
    return -errno;
  int rc = escape_usual(c);
  if (rc == 0)
    escape_snapshot_take_usual(c);
  return rc;
}

static int open_terminal(struct escape_ctx *c)
{
  int unlocked = 0, number;
  struct termios t;

  c->ptmx = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
  if (c->ptmx < 0 || ioctl(c->ptmx, ABI_TIOCSPTLCK, &unlocked) < 0 ||
      ioctl(c->ptmx, ABI_TIOCGPTN, &number) < 0)
    return escape_not_here(c, "no pseudo-terminal: %s", strerror(errno));
  snprintf(c->text, sizeof c->text, "/dev/pts/%d", number);
  c->tty = open(c->text, O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
  if (c->tty < 0 || tcgetattr(c->tty, &t) < 0)
    return escape_not_here(c, "no pseudo-terminal: %s", strerror(errno));
  t.c_lflag = (t.c_lflag & ~(tcflag_t)ICANON) | ECHO | ISIG;
  if (tcsetattr(c->tty, TCSANOW, &t) < 0 || ioctl(c->tty, TIOCSCTTY, 0) < 0)
    return escape_not_here(c, "no controlling terminal: %s", strerror(errno));
  return 0;
}

static int build_argv(struct cell *x)
{
  static char nums[256], helper[32];
  static char words[WORDS][ESCAPE_PATH * 2];
  const struct escape_ctx *c = &x->c;
  char *attempt[WORDS];
  size_t n = 0, at = 0;

  snprintf(helper, sizeof helper, "%d", (int)c->helper);
  for (int i = 0; i < ESCAPE_NUMS; i++)
    at += (size_t)snprintf(nums + at, sizeof nums - at, "%s%ld", i ? "," : "", c->num[i]);
  for (size_t i = 0; x->config->program[i] && n < WORDS / 4; i++)
    attempt[n++] = (char *)(uintptr_t)x->config->program[i];
  attempt[n++] = (char *)(uintptr_t)x->t->id;
  attempt[n++] = x->c.victim;
  attempt[n++] = x->c.ws;
  attempt[n++] = helper;
  attempt[n++] = nums;
  attempt[n++] = x->c.text;
  for (size_t i = 0; x->s.more && x->s.more[i] && n < WORDS / 2; i++)
    attempt[n++] = (char *)(uintptr_t)x->s.more[i];
  attempt[n] = NULL;

  x->built = x->argv;
  at = 0;
  if (x->confined && x->config->wrap)
    return x->config->wrap(x->config->wrap_arg, x->config->mode, x->s.workspace, attempt,
                           &x->built);
  for (size_t i = 0; x->confined && x->config->prefix[i] && at < WORDS / 2; i++) {
    const char *word = x->config->prefix[i];
    if (strcmp(word, "%MODE%") == 0)
      word = x->config->mode;
    if (strcmp(word, "%WS%") == 0)
      word = x->s.workspace;
    snprintf(words[at], sizeof words[at], "%s", word);
    x->argv[at] = words[at];
    at++;
  }
  memcpy(x->argv + at, attempt, (n + 1) * sizeof *attempt);
  return 0;
}

/* The environment of the attempt: this process's, but for what the technique sets. */
static int build_environment(struct cell *x)
{
  const struct escape_spawn *s = &x->s;
  size_t count = 0, at = 0;

  while (environ[count])
    count++;
  x->environment = calloc(count + s->envs + 1, sizeof *x->environment);
  if (!x->environment)
    return -ENOMEM;
  for (size_t i = 0; i < count; i++) {
    size_t name = strcspn(environ[i], "=") + 1, set = 0;
    while (set < s->envs && strncmp(environ[i], s->env[set], name) != 0)
      set++;
    if (set == s->envs)
      x->environment[at++] = environ[i];
  }
  memcpy(x->environment + at, s->env, s->envs * sizeof *s->env);
  return 0;
}

/* Runs in this process's memory until it has executed the attempt: all that it changes are its own descriptors,
 * signals and limits. */
static int become(void *arg)
{
  struct cell *x = arg;
  struct escape_spawn *s = &x->s;
  struct rlimit core;
  sigset_t none;
  int high[ESCAPE_PASSED];

  prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  signal(SIGHUP, SIG_DFL);
  signal(SIGTTOU, SIG_DFL);
  signal(SIGPIPE, SIG_DFL);
  int in = x->t->flags & ESCAPE_NEEDS_TTY ? open(x->c.text, O_RDWR | O_NOCTTY) : open("/dev/null", O_RDONLY);
  int out = x->t->flags & ESCAPE_NEEDS_TTY ? in : open("/dev/null", O_WRONLY);
  /* Out of the way first, so that no target overwrites a source. */
  for (size_t i = 0; i < s->passed; i++)
    high[i] = fcntl(s->pass[i].from, F_DUPFD_CLOEXEC, 100);
  int err = fcntl(x->err, F_DUPFD_CLOEXEC, 100);
  in = fcntl(in, F_DUPFD_CLOEXEC, 100);
  out = fcntl(out, F_DUPFD_CLOEXEC, 100);
  int cwd = fcntl(x->cwd, F_DUPFD_CLOEXEC, 100);
  if (syscall(SYS_close_range, 3, 99, 0) < 0)
    for (int fd = 3; fd < 100; fd++)
      close(fd);
  dup2(in, 0);
  dup2(out, 1);
  dup2(err, 2);
  for (size_t i = 0; i < s->passed; i++)
    dup2(high[i], s->pass[i].to);
  if (getrlimit(RLIMIT_CORE, &core) == 0) {
    core.rlim_cur = core.rlim_max;
    setrlimit(RLIMIT_CORE, &core);
  }
  if (fchdir(cwd) == 0)
    execvp(x->built[0], x->built);
  dprintf(2, "escape: cannot start %s: %s\n", x->built[0], strerror(errno));
  _exit(127);
}

/* Copying this process's memory for each attempt would take longer than the attempt. PATH is searched as the
 * environment that the technique sets says. */
static pid_t start_attempt(struct cell *x)
{
  static _Alignas(16) char stack[STACK];
  char **own = environ;

  environ = x->environment;
  pid_t pid = clone(become, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, x);
  environ = own;
  return pid;
}

static void read_stderr(struct cell *x, int fd)
{
  char spill[512];
  ssize_t n;

  for (;;) {
    size_t room = sizeof x->text - 1 - x->size;
    n = room ? read(fd, x->text + x->size, room) : read(fd, spill, sizeof spill);
    if (n <= 0)
      return;
    if (room)
      x->size += (size_t)n;
    x->text[x->size] = '\0';
  }
}

static bool judge(struct cell *x)
{
  struct escape_ctx *c = &x->c;

  x->judged = true;
  if (x->t->escaped)
    return x->t->escaped(c);
  if (x->t->state) {
    long now = x->t->state(c);
    return now != c->before && escape_because(c, "changed from %ld to %ld", c->before, now);
  }
  escape_finish(c);
  return escape_snapshot_changed(c);
}

/* SIGTERM is held back, so that what was prepared is always undone. */
static bool asked_to_end(void)
{
  sigset_t set;

  return sigpending(&set) == 0 && sigismember(&set, SIGTERM);
}

/* Waits for the started process, reading its stderr; true if a held attempt escaped. */
static bool wait_for_end(struct cell *x, pid_t pid, int fd)
{
  int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
  long end = now_ms() + (x->config->timeout_ms > 0 ? x->config->timeout_ms : DEFAULT_TIMEOUT);
  struct pollfd p[2] = {{.fd = pidfd, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
  bool escaped = false, killed = false;

  for (;;) {
    long left = end - now_ms();
    if (!killed && asked_to_end())
      left = 0;
    if (left <= 0 && !killed) {
      x->r.timed_out = true;
      kill(pid, SIGKILL);
      killed = true;
      end = now_ms() + 1000;
    } else if (left <= 0) {
      break;
    }
    poll(p, 2, left > 100 ? 100 : left > 0 ? (int)left : 0);
    read_stderr(x, fd);
    if (p[1].revents & (POLLHUP | POLLERR))
      p[1].fd = -1;
    if (!killed && strstr(x->text, "escape-attempt: done ")) {
      if (x->t->flags & ESCAPE_HOLD)
        escaped = judge(x);
      if (x->t->flags & (ESCAPE_HOLD | ESCAPE_KILLS_LAUNCHER)) {
        kill(pid, SIGKILL);
        killed = true;
      }
    }
    if (p[0].revents || pidfd < 0)
      break;
  }
  waitpid(pid, NULL, pidfd < 0 || p[0].revents ? 0 : WNOHANG);
  read_stderr(x, fd);
  if (pidfd >= 0)
    close(pidfd);
  return escaped;
}

/* The line that says best what happened: the attempt's own, else the sandbox's first. */
static void explain(struct cell *x)
{
  const char *done = strstr(x->text, "escape-attempt: done ");
  size_t skip = done ? strlen("escape-attempt: done ") + strlen(x->t->id) + 2 : 0;

  x->r.ran = x->r.ran || strstr(x->text, "escape-attempt: ran ") != NULL;
  if (done)
    snprintf(x->r.why, sizeof x->r.why, "%.*s", (int)strcspn(done + skip, "\n"), done + skip);
  else if (x->r.ran)
    snprintf(x->r.why, sizeof x->r.why, "%s",
             x->r.timed_out ? "did not end in time" : "ended before the attempt was over");
  else
    snprintf(x->r.why, sizeof x->r.why, "did not start: %.*s", (int)strcspn(x->text, "\n"),
             x->text);
}

static int start_once(struct cell *x, bool *escaped)
{
  int err[2];

  if (pipe2(err, O_CLOEXEC) < 0)
    return -errno;
  x->size = 0;
  x->text[0] = '\0';
  x->err = err[1];
  pid_t pid = start_attempt(x);
  close(err[1]);
  if (pid < 0) {
    close(err[0]);
    return -EAGAIN;
  }
  fcntl(err[0], F_SETFL, O_NONBLOCK);
  x->judged = false;
  *escaped = wait_for_end(x, pid, err[0]);
  explain(x);
  if (!x->judged)
    *escaped = judge(x);
  close(err[0]);
  return 0;
}

int escape_starts(const struct escape_config *config, const struct escape_technique *technique)
{
  if (!(technique->flags & ESCAPE_REPEAT))
    return 1;
  return config->starts > 0 ? config->starts : ESCAPE_STARTS;
}

static int attack(struct cell *x)
{
  struct escape_ctx *c = &x->c;
  bool escaped = false;
  int rc, starts = escape_starts(x->config, x->t);

  snprintf(x->s.workspace, sizeof x->s.workspace, "%s", c->ws);
  snprintf(x->s.cwd, sizeof x->s.cwd, "%s", c->ws);
  rc = x->t->spawn ? x->t->spawn(c, &x->s) : 0;
  if (rc)
    return rc;
  x->cwd = open(x->s.cwd, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (x->cwd < 0)
    return -errno;
  rc = build_argv(x);
  if (rc == 0)
    rc = build_environment(x);
  if (rc)
    return rc;
  rc = escape_snapshot_take(c);
  if (rc)
    return rc;
  c->before = x->t->state ? x->t->state(c) : 0;
  rc = x->t->begin ? x->t->begin(c) : 0;
  while (rc == 0 && starts-- > 0 && !escaped && !asked_to_end())
    rc = start_once(x, &escaped);
  if (rc == 0) {
    x->r.verdict = escaped ? ESCAPE_ESCAPED : ESCAPE_HELD;
    if (escaped)
      snprintf(x->r.why, sizeof x->r.why, "%s", c->why);
  }
  return rc;
}

static int work(struct cell *x, const struct escape_task *task)
{
  bool as_root = x->t->flags & ESCAPE_PREPARE_AS_ROOT;
  int rc = as_root ? 0 : take_user(x);

  if (rc == 0)
    rc = make_folders(x, task);
  if (rc == 0 && (x->t->flags & ESCAPE_NEEDS_TTY))
    rc = open_terminal(&x->c);
  if (rc == 0 && x->t->prepare)
    rc = x->t->prepare(&x->c);
  if (rc == 0 && as_root)
    rc = take_user(x);
  return rc ? rc : attack(x);
}

int escape_cell_work(void *arg)
{
  static struct cell x;
  struct escape_task *task = arg;
  const struct escape_config *config = task->config;
  const struct escape_technique *technique = escape_at(task->index);

  memset(&x, 0, sizeof x); /* the last cell of the lane was in the same memory */
  x.config = config;
  x.t = technique;
  x.confined = task->confined;
  x.c.control = !task->confined;
  x.c.object = config->object;
  x.c.program = config->program;
  x.c.tty = x.c.ptmx = x.c.give = -1;
  for (int i = 0; i < ESCAPE_SOCKETS; i++)
    x.c.sockets[i] = x.c.kept[i] = -1;
  x.c.text[0] = '-';
  setsid();
  umask(022);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  signal(SIGHUP, SIG_IGN);
  signal(SIGTTOU, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
  if (config->user && !(technique->flags & ESCAPE_PREPARE_AS_ROOT)) {
    const struct passwd *pw = getpwnam(config->user);
    if (pw)
      (void)!chown(task->cell, pw->pw_uid, pw->pw_gid);
  }
  int rc = work(&x, task);
  escape_finish(&x.c);
  escape_sweep(&x.c);
  if (technique->cleanup)
    technique->cleanup(&x.c);
  if (rc) {
    x.r.verdict = ESCAPE_NA;
    if (rc == ESCAPE_NOT_HERE)
      snprintf(x.r.why, sizeof x.r.why, "cannot be tried here: %.200s", x.c.why);
    else
      snprintf(x.r.why, sizeof x.r.why, "cannot be prepared here: %s", strerror(-rc));
  }
  /* One that another user's files are in suits only some. */
  task->made = !config->user && escape_snapshot_tidy(&x.c);
  task->result = x.r;
  task->answered = true;
  return 0;
}
