/*
 * A lane: a process that runs one cell after the other. Each cell's worker is a process with
 * descriptors, signals, ids and a session of its own, but it has the lane's memory while the lane
 * waits: to copy the driver's for each would take as long as the attempt.
 */
#ifndef ESCAPE_LANE_H
#define ESCAPE_LANE_H

#include "cell.h"

struct escape_lane {
  pid_t pid;                /* 0: not started */
  int fd;                   /* readable when the cell is over, whatever came of it */
  struct escape_task *task; /* the next cell, the last answer; shared */
};

/* Starts the lane if need be, and in it the cell that `task` names. 0 or -errno. */
int escape_lane_start(struct escape_lane *lane, const struct escape_task *task);

/* Ends the cell if it is not over, by killing all that is in it: then there is no answer. *ret_task is what
 * became of it. */
void escape_lane_finish(struct escape_lane *lane, struct escape_task *ret_task);

/* Lets the cell clean up and end, with the lane. */
void escape_lane_cancel(const struct escape_lane *lane);

/* To be called when no cell is under way. */
void escape_lane_close(struct escape_lane *lane);

#endif
