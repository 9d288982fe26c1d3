#define _GNU_SOURCE
#include "run.h"

#include "lane.h"
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
  long started, deadline;  /* ms */
  struct escape_lane lane; /* of one job after the other */
  struct escape_task task; /* its folder stays if it is as good as new */
  bool running;
  bool told; /* that it is to end */
  signed char control;
};

/* 0 or -errno. */
static int start_cell(const struct escape_config *config, struct job *job)
{
  long timeout = config->timeout_ms > 0 ? config->timeout_ms : DEFAULT_TIMEOUT;
  struct escape_task *task = &job->task;

  task->config = config;
  task->answered = false;
  if (!task->made) {
    if (snprintf(task->cell, sizeof task->cell, "%s/cell-XXXXXX", config->scratch) >=
        (int)sizeof task->cell)
      return -ENAMETOOLONG;
    if (!mkdtemp(task->cell))
      return -errno;
    chmod(task->cell, 0755);
  }
  int rc = escape_lane_start(&job->lane, task);
  if (rc) {
    escape_remove_tree(task->cell);
    task->made = false;
    return rc;
  }
  job->deadline = now_ms() + timeout * escape_starts(config, escape_at(task->index)) + 8000;
  return 0;
}

/* Takes the worker's result, and the cell away if it is not as good as new. */
static void end_cell(struct job *job, struct escape_result *r)
{
  escape_lane_finish(&job->lane, &job->task);
  if (job->task.answered) {
    *r = job->task.result;
  } else {
    memset(r, 0, sizeof *r);
    say(r, ESCAPE_NA, "the driver's own process did not answer and was killed");
  }
  if (!job->task.made)
    escape_remove_tree(job->task.cell);
}

static void close_job(struct job *job)
{
  escape_lane_close(&job->lane);
  if (job->task.made)
    escape_remove_tree(job->task.cell);
  memset(job, 0, sizeof *job);
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
  job->task.confined = confined;
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

  job->task.index = index;
  job->started = now_ms();
  job->told = false;
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
    config->controls[job->task.index] = job->control;
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
  if (!job->task.confined && after_control(config, job, r))
    return true;
  r->control = job->control;
  r->technique = escape_at(job->task.index);
  r->milliseconds = (int)(now_ms() - job->started);
  return false;
}

static void ask_to_end(struct job *job)
{
  long end = now_ms() + 5000;

  escape_lane_cancel(&job->lane);
  job->told = true;
  if (end < job->deadline)
    job->deadline = end;
}

static bool any_running(const struct job *job, size_t jobs)
{
  for (size_t i = 0; i < jobs; i++)
    if (job[i].running)
      return true;
  return false;
}

/* Waits until some cell has a result or no time left, and goes on from there. */
static int wait_for_jobs(const struct escape_config *config, struct job *job, size_t jobs,
                         struct escape_result *all)
{
  struct pollfd p[JOBS_MAX] = {{0}};

  for (size_t i = 0; i < jobs; i++)
    p[i] = (struct pollfd){.fd = job[i].running ? job[i].lane.fd : -1, .events = POLLIN};
  if (poll(p, jobs, 500) < 0 && errno != EINTR)
    return -errno;
  for (size_t i = 0; i < jobs; i++)
    if (job[i].running && (p[i].revents || now_ms() >= job[i].deadline))
      job[i].running = end_job(config, &job[i], &all[job[i].task.index]);
  return 0;
}

int escape_run_all(const struct escape_config *config,
                   bool (*wanted)(const struct escape_technique *technique, void *arg),
                   void (*done)(const struct escape_result *result, void *arg), void *arg)
{
  static struct job job[JOBS_MAX];
  size_t count = escape_count(), next = 0, told = 0;
  size_t jobs = config->jobs < 1 ? 1 : config->jobs > JOBS_MAX ? JOBS_MAX : (size_t)config->jobs;
  struct escape_result *all = calloc(count, sizeof *all);
  int rc = 0;

  if (!all)
    return -ENOMEM;
  while (rc == 0 && (next < count || any_running(job, jobs))) {
    for (size_t i = 0; i < jobs; i++)
      while (!job[i].running && next < count) {
        if (!wanted || wanted(escape_at(next), arg)) {
          all[next].technique = escape_at(next);
          job[i].running = start_job(config, next, &job[i], &all[next]);
        }
        next++;
      }
    if (any_running(job, jobs))
      rc = wait_for_jobs(config, job, jobs, all);
    if (rc == 0 && config->cancel && *config->cancel)
      rc = -ECANCELED;
    size_t first = next;
    for (size_t i = 0; i < jobs; i++)
      if (job[i].running && job[i].task.index < first)
        first = job[i].task.index;
    for (; told < first; told++)
      if (all[told].technique && done)
        done(&all[told], arg);
  }
  for (size_t i = 0; i < jobs; i++)
    if (job[i].running)
      ask_to_end(&job[i]);
  while (any_running(job, jobs) && wait_for_jobs(config, job, jobs, all) == 0) {
  }
  for (size_t i = 0; i < jobs; i++)
    close_job(&job[i]);
  free(all);
  return rc;
}
