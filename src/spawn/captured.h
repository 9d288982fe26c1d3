/*
 * A short-lived program of our own choosing, started unconfined and ended with everything it started:
 * what a probe needs. Changes nothing that belongs to the whole process: no signal handler, no SIGCHLD, no
 * subreaper; a monitor (monitor/monitor.h) is parent and subreaper of what runs.
 */
#ifndef CONFINE_SPAWN_CAPTURED_H
#define CONFINE_SPAWN_CAPTURED_H

#include <confine/error.h>

#include <stddef.h>
#include <stdint.h>

/* Most bytes of output that are kept; what follows is read and dropped. */
#define CONFINE__CAPTURE_MAX 4096

struct confine__captured {
  int started;     /* the program was executed */
  int error;       /* not started: an errno, or 0 when nothing is known */
  int timed_out;   /* it was ended at the limit */
  int wait_status; /* started: as wait4(2) gives it; SIGKILL when nothing else is known */
  size_t length;
  char output[CONFINE__CAPTURE_MAX + 1]; /* standard output and standard error together, terminated */
};

struct confine__capture;

/*
 * Starts argv, whose first word is an absolute path, with standard input from /dev/null, the environment
 * PATH=/usr/bin:/bin LC_ALL=C, and every signal blocked. limit_ms counts from now. argv must outlive
 * the capture. Several may run at once; any thread.
 */
int confine__capture_start(const char *const *argv, int64_t limit_ms, struct confine__capture **ret_capture,
                           confine_error *error);

/* Waits for the end, by poll, fills *ret_captured and frees the capture. What is left running at the limit is
 * ended; unless a process cannot be killed, nothing is left afterwards. */
void confine__capture_finish(struct confine__capture *capture, struct confine__captured *ret_captured);

#endif
