/* What run and learn do alike. */
#ifndef CONFINE_CLI_RUN_H
#define CONFINE_CLI_RUN_H

#include "options.h"

/* What is to be done when the call has an outcome, whose record has been written. Returns 0, or CLI_REFUSED
 * after printing why. */
typedef int cli_afterwards(const struct cli_options *options, confine_provider *provider,
                           const confine_policy *policy, const confine_result *result, void *context);

/* Parses the words after the subcommand, runs the command, writes its record and then calls afterwards, if
 * that is not NULL. Returns the exit status. By then standard input and output may have been let go of. */
int cli_execute(enum cli_command command, int argc, char **argv, cli_afterwards *afterwards, void *context);

#endif
