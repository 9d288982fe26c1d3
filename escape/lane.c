#define _GNU_SOURCE
#include "lane.h"

#include "outside.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STACK = 1 << 20, GUARD = 1 << 16 };

/* A worker that takes on another user's ids must not do so in memory of root's. */
static int worker_flags(const struct escape_config *config)
{
  return CLONE_VFORK | SIGCHLD | (config->user ? 0 : CLONE_VM);
}

static _Noreturn void serve(struct escape_task *task, int fd)
{
  char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  sigset_t set;
  char byte;

  setsid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigprocmask(SIG_BLOCK, &set, NULL);
  if (stack == MAP_FAILED || mprotect(stack, GUARD, PROT_NONE) < 0)
    _exit(1);
  while (read(fd, &byte, 1) == 1) {
    pid_t worker = clone(escape_cell_work, stack + STACK, worker_flags(task->config), task);
    if (worker > 0)
      waitpid(worker, NULL, 0);
    while (waitpid(-1, NULL, WNOHANG) > 0) { /* what the worker has left */
    }
    if (write(fd, &byte, 1) != 1)
      break;
  }
  _exit(0);
}

static int open_lane(struct escape_lane *lane)
{
  int ends[2], rc;
  void *task = mmap(NULL, sizeof *lane->task, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

  if (task == MAP_FAILED)
    return -ENOMEM;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
    rc = -errno;
    goto unmap;
  }
  lane->pid = fork();
  if (lane->pid == 0) {
    close(ends[0]);
    serve(task, ends[1]);
  }
  close(ends[1]);
  if (lane->pid < 0) {
    lane->pid = 0;
    rc = -EAGAIN;
    close(ends[0]);
    goto unmap;
  }
  lane->fd = ends[0];
  lane->task = task;
  return 0;
unmap:
  munmap(task, sizeof *lane->task);
  return rc;
}

void escape_lane_close(struct escape_lane *lane)
{
  if (!lane->pid)
    return;
  kill(lane->pid, SIGKILL);
  while (waitpid(lane->pid, NULL, 0) < 0 && errno == EINTR) {
  }
  close(lane->fd);
  munmap(lane->task, sizeof *lane->task);
  *lane = (struct escape_lane){.fd = -1};
}

int escape_lane_start(struct escape_lane *lane, const struct escape_task *task)
{
  int rc = lane->pid ? 0 : open_lane(lane);

  if (rc)
    return rc;
  *lane->task = *task;
  if (send(lane->fd, "", 1, MSG_NOSIGNAL) == 1)
    return 0;
  escape_lane_close(lane);
  return -ECHILD;
}

void escape_lane_finish(struct escape_lane *lane, struct escape_task *ret_task)
{
  char byte;
  bool over = recv(lane->fd, &byte, 1, MSG_DONTWAIT) == 1;

  if (!over || !lane->task->answered)
    escape_kill_tree(lane->pid);
  *ret_task = *lane->task;
  if (over && ret_task->answered)
    return;
  /* What a worker says that was told to end is no answer. */
  ret_task->answered = ret_task->made = false;
  escape_lane_close(lane);
}

/* The worker is told by the lane's end, and outlasts it. */
void escape_lane_cancel(const struct escape_lane *lane)
{
  kill(lane->pid, SIGKILL);
}
