/*
 * What the worker process of one cell does: takes on the user's ids, prepares, starts the attempt,
 * judges, cleans up, writes one struct escape_result to `out`. It has a session of its own and is
 * the subreaper of all that the attempt leaves behind.
 */
#ifndef ESCAPE_CELL_H
#define ESCAPE_CELL_H

#include "run.h"

void escape_cell_work(const struct escape_config *config, const struct escape_technique *technique,
                      bool confined, const char *cell, int out);

/* How often the attempt may be started. */
int escape_starts(const struct escape_config *config, const struct escape_technique *technique);

#endif
