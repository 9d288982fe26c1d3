/*
 * Runs techniques: a fresh victim and workspace, the attempt, the judge; first without
 * confinement (the control, which must escape), then confined.
 *
 * All work is done in forked processes; the calling process changes only by having had children.
 * They clean up and end on SIGTERM, and when the calling process ends. Not thread-safe.
 */
#ifndef ESCAPE_RUN_H
#define ESCAPE_RUN_H

#include "technique.h"

#include <signal.h>

enum escape_verdict {
  ESCAPE_HELD = 0,
  ESCAPE_ESCAPED = 1, /* "open" if by_design or its channel says so: the caller's to decide */
  ESCAPE_NA = 2
};

struct escape_result {
  const struct escape_technique *technique;
  enum escape_verdict verdict;
  bool ran; /* the attempt was started inside: else the sandbox refused, and `why` says how */
  bool timed_out;
  signed char control; /* 1 escapes, -1 does not, 0 not tried */
  int milliseconds;
  char why[ESCAPE_WHY];
};

/*
 * Builds the argv that starts `attempt` confined: *argv is malloc'd, as is each word. Called in a
 * forked process which already has the user's ids and the planted environment has not yet been
 * set. 0 or -errno.
 */
typedef int escape_wrap_fn(void *arg, const char *mode, const char *ws, char *const attempt[],
                           char ***argv);

struct escape_config {
  const char *mode; /* "read-only" or "workspace-write" */
  /* One of the two: words before the attempt's, in which %MODE% and %WS% stand for themselves,
   * or a callback. prefix[0] without a slash is looked up in PATH, planted ones included. */
  const char *const *prefix;
  escape_wrap_fn *wrap;
  void *wrap_arg;
  bool resolves_late; /* the workspace's name is resolved at the start, not when argv is built:
                         leave out ESCAPE_SWAPS_WORKSPACE */
  const char *const *program; /* argv of the attempt program, a path that is visible inside */
  const char *object;         /* shared object for the loader techniques, or NULL */
  const char *scratch;        /* an existing folder not below /tmp; cells are made in it */
  const char *user;           /* run all as this user (caller is root), or NULL */
  int timeout_ms;             /* for each start; 0 = 5000 */
  int starts;                 /* of an ESCAPE_REPEAT, at most; 0 = ESCAPE_STARTS */
  int jobs;                   /* at a time; 0 = 1 */
  /* Set by a signal handler, say: no more are started, those under way clean up and end. */
  const volatile sig_atomic_t *cancel;
  /* Controls already seen, one per technique: 0 unknown, 1 escapes, -1 does not. Valid across
   * modes and sandboxes for the same user. NULL = none kept. */
  signed char *controls;
};

/* Runs all that `wanted` accepts (NULL = all); results arrive in the table's order. 0, -ECANCELED if it was, or
 * -errno. */
int escape_run_all(const struct escape_config *config,
                   bool (*wanted)(const struct escape_technique *technique, void *arg),
                   void (*done)(const struct escape_result *result, void *arg), void *arg);

#endif
