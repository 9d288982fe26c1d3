/*
 * What the worker process of one cell does: takes on the user's ids, prepares, starts the attempt,
 * judges, cleans up, answers. It has a session of its own and is the subreaper of all that the
 * attempt leaves behind.
 */
#ifndef ESCAPE_CELL_H
#define ESCAPE_CELL_H

#include "run.h"

/* In memory that the driver sees. */
struct escape_task {
  const struct escape_config *config;
  size_t index; /* of the technique */
  bool confined;
  char cell[ESCAPE_PATH]; /* the folder */
  bool made; /* it has the usual victim and workspace, and nothing else; when over: still */
  bool answered;          /* result is one */
  struct escape_result result;
};

/* arg is the struct escape_task. SIGINT and SIGTERM are held back; a pending SIGTERM asks to end. For clone(2). */
int escape_cell_work(void *arg);

/* How often the attempt may be started. */
int escape_starts(const struct escape_config *config, const struct escape_technique *technique);

#endif
