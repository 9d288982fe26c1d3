/*
 * The arguments the Linux launchers share, and how a launcher ends. A launcher dies at one exit path:
 * one line `NAME: TEXT` on standard error and exit status 125, with the command not run.
 */
#ifndef CONFINE_LAUNCHER_OPTIONS_H
#define CONFINE_LAUNCHER_OPTIONS_H

#include "enter/plan.h"
#include "monitor/front.h"

#define LAUNCHER_FAILURE 125

struct launcher {
  const char *name; /* of the program, for messages */
  struct confine__plan plan;
  struct confine__root roots[CONFINE__ROOTS_MAX];
  struct confine__root readable[CONFINE__ROOTS_MAX];
  int workspace; /* index of the first --root, or -1 */
  int cwd_lost;  /* the caller's directory is hidden: start in the workspace */
  int monitor;
  int parent;    /* pidfd of the process whose death ends the tree, or -1: that is the parent */
  int status_fd; /* channel to the caller, or -1 */
};

/* Sets everything to nothing asked for. */
void launcher_init(struct launcher *launcher, const char *name, char **environment);

/*
 * Takes one option shared by the launchers from argv[*index], advancing *index past its value:
 *   --root DEV:INO:PATH  a writable root, refused unless PATH still is that object
 *   --monitor            stay as parent: reap, end the tree, mirror the command's end
 *   --status-fd N        report to the caller over this SOCK_SEQPACKET descriptor; needs --monitor
 *   --guard              capabilities at most those of ordinary work, and the system call guard
 *   --supervise          with both: calls that change metadata are made by the monitor, inside only
 *   --observe            with --supervise and --status-fd: report refused writes too
 *   --isolate LIST       network, process, ipc
 *   --keep-background    with --monitor: leave background processes running
 * Returns 1 if it was one of them, else 0. Dies on a bad value.
 */
int launcher_option(struct launcher *launcher, char **argv, int *index);

/* Adds a root or readable tree by path alone, opened now. Dies with `cannot open rule path`. */
void launcher_add_path(struct launcher *launcher, const char *path, int writable);

/* Confines and executes plan.argv; with --monitor waits and ends as the command did. */
_Noreturn void launcher_run(struct launcher *launcher);

/* Prints `NAME: TEXT` and exits with LAUNCHER_FAILURE. */
_Noreturn void launcher_die(const struct launcher *launcher, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
