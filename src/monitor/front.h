/*
 * Runs one command in the foreground of a program that owns its process: signals, job control and the
 * terminal behave as if the command had been started without anything between. Changes what is
 * process-wide (signal mask, child subreaper) and is therefore only for such programs: the confine
 * program and the launchers with --monitor.
 */
#ifndef CONFINE_MONITOR_FRONT_H
#define CONFINE_MONITOR_FRONT_H

#include "enter/plan.h"
#include "monitor/denials.h"
#include "monitor/protocol.h"

#include <stdint.h>

/* Last bytes of a stream that passed through. */
#define CONFINE__TAIL_MAX 65536

struct confine__tail {
  char bytes[CONFINE__TAIL_MAX];
  size_t length;
};

struct confine__front_options {
  int64_t timeout_ms; /* 0: none */
  int keep_background;
  int follow_parent; /* end the tree when the parent of this process dies */
  int parent;        /* the same for a process somebody holds a pidfd of, which is closed here; or -1 */
  struct confine__denials *denials; /* to be filled where the plan observes, or NULL */
  int release_stdio; /* once the command has started, let go of standard input and output */
  int last_act;      /* the process ends next: what the kernel frees then is not freed here */
  int cwd_hidden;    /* the launcher has already left a hidden current directory */
  int stderr_pipe;   /* reading end of the command's standard error, to be passed on to ours; or -1 */
  int stderr_writer; /* with it: the writing end, closed here once the command has it */
  struct confine__tail *stderr_tail; /* with it: gets its end */
  int outside; /* launcher: channel on which to report to the caller, or -1 */
  int inside;  /* caller: channel of the launcher that runs inside this plan's command, or -1 */
};

struct confine__front_result {
  int stdio_released;
  int started;     /* the command itself was executed */
  int ended;       /* wait_status is the command's own */
  int wait_status; /* as wait4(2) */
  int timed_out;
  int cwd_hidden;
  enum confine__step step; /* not started: the step that failed, or NONE when nothing is known */
  int error, index;
  double duration_ms; /* from the start to the end of the tree */
};

/*
 * Runs the plan to its end. Returns 0 with *result filled, or a negated errno when no monitor could be
 * started (and nothing ran). The plan's signal_mask is set here. With last_act, once a command has
 * started, signals stay blocked: what follows is the record and the exit.
 */
int confine__front_run(struct confine__plan *plan, const struct confine__front_options *options,
                       struct confine__front_result *result);

/* Ends this process the way the command ended: its exit code, or its signal (without a core of ours). */
_Noreturn void confine__front_mirror(int wait_status);

#endif
