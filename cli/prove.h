/* `confine doctor --prove`: the escape techniques, tried on this host. */
#ifndef CONFINE_CLI_PROVE_H
#define CONFINE_CLI_PROVE_H

#include <confine/confine.h>

/*
 * Tries every technique under every usable runner of the report, in both modes, as the calling user, and
 * prints what came of it. Everything made for that is gone afterwards, also if this process is killed.
 * Returns the exit status: 0, 1 if something escaped that the runner promises to stop, or CLI_REFUSED,
 * after printing why, if it is not known. Does not return after SIGHUP, SIGINT, SIGQUIT and SIGTERM.
 */
int cli_prove(const confine_host_report *report, int json);

#endif
