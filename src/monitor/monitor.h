/*
 * The monitor: a process that never execs, stands between caller and command, and is the command's
 * parent, its tree's reaper and its clock, with the supervisor as a thread beside it once there is a call
 * to answer. It shares the caller's memory (CLONE_VM), so it uses raw system calls only and no libc state.
 */
#ifndef CONFINE_MONITOR_MONITOR_H
#define CONFINE_MONITOR_MONITOR_H

#include "enter/plan.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct confine__denials;
struct confine__supervisor;

/* The kernel's sigaction (rt_sigaction(2)). */
struct confine__signal_action {
  void *handler;
  unsigned long flags;
  void *restorer;
  uint64_t mask;
};

struct confine__monitor {
  const struct confine__plan *plan;
  int channel;           /* the monitor's end */
  int keep_background;   /* leave the command's background processes running */
  int64_t timeout_ms;    /* 0: none */
  int64_t grace_ms;      /* between SIGTERM at the timeout and the end of the tree */
  int terminate_outside; /* somebody else delivers that SIGTERM */
  struct confine__denials *denials; /* filled by the observer, if the plan has one; or NULL */
  int announce;          /* send STARTED at once, not only know it at the end */
  struct confine__outcome outcome;
  char *command_stack; /* top of the child's stack, in the same mapping as the monitor's */
  struct confine__signal_action child_action; /* the caller's, of SIGCHLD */
  char *init_stack;
  /* With a process namespace: the command is a child of its init process, which is the monitor's. */
  int init_ready; /* futex */
  int command_descriptor; /* pidfd, or -1 */
  volatile int inner_ended, inner_status;
  volatile int told_stopped; /* the caller knows that the command has stopped */
  volatile int stops;        /* how many times it has */
  struct confine__supervisor *supervisor; /* in that mapping too; used once there is a listener */
  pid_t command;
  /* What the caller reads when the channel has closed; set before. */
  volatile int started, ended, wait_status, timed_out;
};

/*
 * Starts a monitor that carries the plan out; the caller's signals must be blocked. Returns 0 with the
 * monitor's pid (reap it with __WALL) and the caller's end of the channel, or a negated errno. *stack is
 * the mapping to free by confine__monitor_release once the monitor has been reaped. When the channel
 * closes, *monitor tells what happened; until then neither it nor the plan may change. With background
 * processes left, a message ENDED tells the same and is the last use of *monitor.
 */
int confine__monitor_start(struct confine__monitor *monitor, int *channel, pid_t *pid, void **stack);
void confine__monitor_release(void *stack);

/*
 * Kills every descendant of the calling process that is or becomes its child (the caller is a child
 * subreaper) and reaps them, until none is left, or limit_ms have passed, or for a second all that is left could
 * not be ended (a call in a file system that does not answer). Returns 1 when none is left.
 * If command's end is met, *command_status gets its wait status.
 */
int confine__end_tree(int limit_ms, pid_t command, int *command_status);

#endif
