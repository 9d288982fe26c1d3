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

/* What is under way for one technique: a cell, that is a folder and a worker process of its own, first without
 * confinement if it is not known yet that the technique works, then confined. */
struct job {
  size_t index;
  long started, deadline; /* ms */
  pid_t worker;
  int fd; /* its result */
  bool confined;
  bool told; /* that it is to end */
  signed char control;
  char cell[ESCAPE_PATH];
};

/* 0 or -errno. */
static int start_cell(const struct escape_config *config, struct job *job)
{
  long timeout = config->timeout_ms > 0 ? config->timeout_ms : DEFAULT_TIMEOUT;
  int result[2], rc;

  if (snprintf(job->cell, sizeof job->cell, "%s/cell-XXXXXX", config->scratch) >=
      (int)sizeof job->cell)
    return -ENAMETOOLONG;
  if (!mkdtemp(job->cell))
    return -errno;
  chmod(job->cell, 0755);
  if (pipe2(result, O_CLOEXEC | O_NONBLOCK) < 0) {
    rc = -errno;
    goto remove_cell;
  }
  job->worker = fork();
  if (job->worker == 0) {
    escape_cell_work(config, escape_at(job->index), job->confined, job->cell, result[1]);
    _exit(0);
  }
  close(result[1]);
  if (job->worker < 0) {
    rc = -EAGAIN;
    close(result[0]);
    goto remove_cell;
  }
  job->fd = result[0];
  job->deadline = now_ms() + timeout * escape_starts(config, escape_at(job->index)) + 8000;
  return 0;
remove_cell:
  escape_remove_tree(job->cell);
  return rc;
}

/* Takes the worker's result, and whatever is left of the cell away; a worker without a result is killed with all
 * that is below it. */
static void end_cell(struct job *job, struct escape_result *r)
{
  if (read(job->fd, r, sizeof *r) != sizeof *r) {
    escape_kill_tree(job->worker);
    memset(r, 0, sizeof *r);
    say(r, ESCAPE_NA, "the driver's own process did not answer and was killed");
  }
  close(job->fd);
  while (waitpid(job->worker, NULL, 0) < 0 && errno == EINTR) {
  }
  escape_remove_tree(job->cell);
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

/* True if the cell is under way; else *r is the result. */
static bool enter_cell(const struct escape_config *config, struct job *job, bool confined,
                       struct escape_result *r)
{
  job->confined = confined;
  if (start_cell(config, job) == 0)
    return true;
  memset(r, 0, sizeof *r);
  say(r, ESCAPE_NA, "the driver could not make a process or folder for it");
  return false;
}

/* True if there is a cell to wait for; else *r is the result. */
static bool start_job(const struct escape_config *config, size_t index, struct job *job,
                      struct escape_result *r)
{
  const char *reason = not_for(config, escape_at(index));

  *job = (struct job){.index = index, .fd = -1, .started = now_ms()};
  job->control = config->controls ? config->controls[index] : 0;
  if (!reason && job->control < 0)
    reason = "does not work without confinement either";
  if (reason) {
    say(r, ESCAPE_NA, reason);
    r->control = job->control;
    return false;
  }
  return enter_cell(config, job, job->control > 0, r);
}

/* What follows from the control. True if the confined cell is under way. */
static bool after_control(const struct escape_config *config, struct job *job,
                          struct escape_result *r)
{
  job->control = r->verdict == ESCAPE_ESCAPED ? 1 : -1;
  if (config->controls)
    config->controls[job->index] = job->control;
  if (r->verdict == ESCAPE_HELD) {
    char why[ESCAPE_WHY];
    snprintf(why, sizeof why, "does not work without confinement either: %.200s", r->why);
    say(r, ESCAPE_NA, why);
  }
  return job->control > 0 && !job->told && enter_cell(config, job, true, r);
}

/* True if the job goes on with another cell; else *r is the result. */
static bool end_job(const struct escape_config *config, struct job *job, struct escape_result *r)
{
  end_cell(job, r);
  if (!job->confined && after_control(config, job, r))
    return true;
  r->control = job->control;
  r->technique = escape_at(job->index);
  r->milliseconds = (int)(now_ms() - job->started);
  return false;
}

static void ask_to_end(struct job *job)
{
  long end = now_ms() + 5000;

  kill(job->worker, SIGTERM);
  job->told = true;
  if (end < job->deadline)
    job->deadline = end;
}

/* Waits until some cell has a result or no time left, and goes on from there. */
static int wait_for_jobs(const struct escape_config *config, struct job *job, size_t *running,
                         struct escape_result *all)
{
  struct pollfd p[JOBS_MAX] = {{0}};

  for (size_t i = 0; i < *running; i++)
    p[i] = (struct pollfd){.fd = job[i].fd, .events = POLLIN};
  if (poll(p, *running, 500) < 0 && errno != EINTR)
    return -errno;
  for (size_t i = *running; i-- > 0;)
    if ((p[i].revents || now_ms() >= job[i].deadline) &&
        !end_job(config, &job[i], &all[job[i].index]))
      job[i] = job[--*running];
  return 0;
}

int escape_run_all(const struct escape_config *config,
                   bool (*wanted)(const struct escape_technique *technique, void *arg),
                   void (*done)(const struct escape_result *result, void *arg), void *arg)
{
  static struct job job[JOBS_MAX];
  size_t count = escape_count(), next = 0, told = 0, running = 0;
  size_t jobs = config->jobs < 1 ? 1 : config->jobs > JOBS_MAX ? JOBS_MAX : (size_t)config->jobs;
  struct escape_result *all = calloc(count, sizeof *all);
  int rc = 0;

  if (!all)
    return -ENOMEM;
  while (rc == 0 && (next < count || running > 0)) {
    while (next < count && running < jobs) {
      if (!wanted || wanted(escape_at(next), arg)) {
        all[next].technique = escape_at(next);
        running += start_job(config, next, &job[running], &all[next]);
      }
      next++;
    }
    if (running > 0)
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
    ask_to_end(&job[i]);
  while (running > 0 && wait_for_jobs(config, job, &running, all) == 0) {
  }
  free(all);
  return rc;
}
