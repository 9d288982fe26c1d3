#define _GNU_SOURCE
#include "run.h"

#include "abi.h"
#include "cell.h"
#include "outside.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { DEFAULT_TIMEOUT = 5000, JOBS_MAX = 64 };

static long now_ms(void)
{
  struct timespec t;

  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void say(struct escape_result *r, enum escape_verdict verdict, const char *why)
{
  r->verdict = verdict;
  snprintf(r->why, sizeof r->why, "%s", why);
}

/* Jobs hold back the signals that ask them to end, so that they can clean up first. */
static bool asked_to_end(void)
{
  sigset_t set;

  return sigpending(&set) == 0 && (sigismember(&set, SIGTERM) || sigismember(&set, SIGINT));
}

/* Reads the worker's result within its time; a worker that does not answer is killed. */
static int read_result(int fd, pid_t worker, long limit_ms, struct escape_result *out)
{
  struct pollfd p = {.fd = fd, .events = POLLIN};
  struct escape_result r;
  long end = now_ms() + limit_ms;
  bool told = false;
  int ready = 0;

  while (ready <= 0 && now_ms() < end) {
    ready = poll(&p, 1, 100);
    if (!told && ready <= 0 && asked_to_end()) {
      kill(worker, SIGTERM);
      told = true;
      end = now_ms() + 5000;
    }
  }
  ssize_t n = ready > 0 ? read(fd, &r, sizeof r) : -1;
  if (n != sizeof r)
    kill(worker, SIGKILL);
  while (waitpid(worker, NULL, 0) < 0 && errno == EINTR) {
  }
  if (n != sizeof r)
    return -ETIMEDOUT;
  *out = r;
  return 0;
}

/* One cell: a folder and a worker process of its own, which takes the rest from there. */
static int run_cell(const struct escape_config *config, const struct escape_technique *t,
                    bool confined, struct escape_result *r)
{
  char cell[ESCAPE_PATH];
  int result[2], rc;
  long starts = escape_starts(config, t);
  long timeout = config->timeout_ms > 0 ? config->timeout_ms : DEFAULT_TIMEOUT;

  if (snprintf(cell, sizeof cell, "%s/cell-XXXXXX", config->scratch) >= (int)sizeof cell)
    return -ENAMETOOLONG;
  if (!mkdtemp(cell))
    return -errno;
  chmod(cell, 0755);
  if (pipe2(result, O_CLOEXEC) < 0) {
    rc = -errno;
    goto out;
  }
  pid_t pid = fork();
  if (pid == 0) {
    close(result[0]);
    escape_cell_work(config, t, confined, cell, result[1]);
    _exit(0);
  }
  close(result[1]);
  rc = pid < 0 ? -EAGAIN : read_result(result[0], pid, timeout * starts + 8000, r);
  close(result[0]);
  if (rc == -ETIMEDOUT) {
    say(r, ESCAPE_NA, "the driver's own process did not answer and was killed");
    rc = 0;
  }
out:
  escape_remove_tree(cell);
  return rc;
}

static const char *not_for(const struct escape_config *config, const struct escape_technique *t)
{
  bool root = geteuid() == 0 && !(config->user && strcmp(config->user, "root") != 0);

  if ((t->flags & ESCAPE_ROOT_ONLY) && !root)
    return "only root can try it";
  if ((t->flags & ESCAPE_USER_ONLY) && root)
    return "only an ordinary user has something to gain";
  if ((t->flags & ESCAPE_WORKSPACE_ONLY) && strcmp(config->mode, "read-only") == 0)
    return "needs a writable workspace";
  if ((t->flags & ESCAPE_SWAPS_WORKSPACE) && config->resolves_late)
    return "the workspace's name is resolved when the command starts, so it may mean another then";
  return NULL;
}

int escape_run_one(const struct escape_config *config, const struct escape_technique *technique,
                   struct escape_result *result)
{
  struct escape_result r;
  const char *reason = not_for(config, technique);
  size_t index = 0;
  long start = now_ms();
  int rc = 0;

  memset(&r, 0, sizeof r);
  r.technique = technique;
  if (reason) {
    say(&r, ESCAPE_NA, reason);
    goto out;
  }
  while (escape_at(index) != technique)
    index++;
  signed char known = config->controls ? config->controls[index] : 0;
  if (known == 0) {
    rc = run_cell(config, technique, false, &r);
    if (rc)
      return rc;
    known = r.verdict == ESCAPE_ESCAPED ? 1 : -1;
    if (config->controls)
      config->controls[index] = known;
    if (r.verdict == ESCAPE_HELD) {
      char why[ESCAPE_WHY];
      snprintf(why, sizeof why, "does not work without confinement either: %.200s", r.why);
      say(&r, ESCAPE_NA, why);
    }
  } else if (known < 0) {
    say(&r, ESCAPE_NA, "does not work without confinement either");
  }
  if (known > 0 && !asked_to_end())
    rc = run_cell(config, technique, true, &r);
  r.control = known;
out:
  r.technique = technique;
  r.milliseconds = (int)(now_ms() - start);
  if (rc == 0)
    *result = r;
  return rc;
}

struct job {
  pid_t pid;
  int fd;
  size_t index;
};

static int start_job(const struct escape_config *config, size_t index, struct job *job)
{
  int fds[2];

  if (pipe2(fds, O_CLOEXEC) < 0)
    return -errno;
  pid_t pid = fork();
  if (pid < 0) {
    close(fds[0]);
    close(fds[1]);
    return -EAGAIN;
  }
  if (pid == 0) {
    struct escape_result r;
    sigset_t set;
    close(fds[0]);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    int rc = escape_run_one(config, escape_at(index), &r);
    struct escape_ctx none;
    memset(&none, 0, sizeof none);
    escape_sweep(&none);
    if (rc == 0)
      (void)!write(fds[1], &r, sizeof r);
    _exit(rc ? 1 : 0);
  }
  close(fds[1]);
  *job = (struct job){pid, fds[0], index};
  return 0;
}

static void end_job(const struct escape_config *config, struct job *job, struct escape_result *all)
{
  struct escape_result *r = &all[job->index];

  if (read(job->fd, r, sizeof *r) != sizeof *r) {
    memset(r, 0, sizeof *r);
    say(r, ESCAPE_NA, "the driver could not make a process or folder for it");
  } else if (config->controls && r->control) {
    /* A job's own notes died with it. */
    config->controls[job->index] = r->control;
  }
  r->technique = escape_at(job->index);
  close(job->fd);
  while (waitpid(job->pid, NULL, 0) < 0 && errno == EINTR) {
  }
}

/* Waits until some job has a result, takes those that have. */
static int wait_for_jobs(const struct escape_config *config, struct job *job, size_t *running,
                         struct escape_result *all)
{
  struct pollfd p[JOBS_MAX] = {{0}};

  for (size_t i = 0; i < *running; i++)
    p[i] = (struct pollfd){.fd = job[i].fd, .events = POLLIN};
  if (poll(p, *running, 500) < 0 && errno != EINTR)
    return -errno;
  for (size_t i = *running; i-- > 0;)
    if (p[i].revents) {
      end_job(config, &job[i], all);
      job[i] = job[--*running];
    }
  return 0;
}

int escape_run_all(const struct escape_config *config,
                   bool (*wanted)(const struct escape_technique *technique, void *arg),
                   void (*done)(const struct escape_result *result, void *arg), void *arg)
{
  struct job job[JOBS_MAX] = {{0}};
  size_t count = escape_count(), next = 0, told = 0, running = 0;
  size_t jobs = config->jobs < 1 ? 1 : config->jobs > JOBS_MAX ? JOBS_MAX : (size_t)config->jobs;
  struct escape_result *all = calloc(count, sizeof *all);
  int rc = 0;

  if (!all)
    return -ENOMEM;
  while (rc == 0 && (next < count || running > 0)) {
    while (next < count && running < jobs && rc == 0) {
      const struct escape_technique *t = escape_at(next);
      if (!wanted || wanted(t, arg)) {
        rc = start_job(config, next, &job[running]);
        running += rc == 0;
      }
      next++;
    }
    if (rc == 0 && running > 0)
      rc = wait_for_jobs(config, job, &running, all);
    if (rc == 0 && config->cancel && *config->cancel)
      rc = -ECANCELED;
    size_t first = next;
    for (size_t i = 0; i < running; i++)
      if (job[i].index < first)
        first = job[i].index;
    for (; told < first; told++)
      if (all[told].technique && done)
        done(&all[told], arg);
  }
  for (size_t i = 0; i < running; i++)
    kill(job[i].pid, SIGTERM);
  while (running > 0)
    end_job(config, &job[--running], all);
  free(all);
  return rc;
}
