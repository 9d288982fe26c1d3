/* The confine program: one file per subcommand; only the public library. */
#ifndef CONFINE_CLI_CLI_H
#define CONFINE_CLI_CLI_H

#include <confine/confine.h>

#include <stdio.h>

/* confine itself refused or failed; the command's own codes may be the same, the record tells. */
#define CLI_REFUSED 125

/* Each takes the arguments after the subcommand's name and returns the exit status. */
int cli_run(int argc, char **argv);
int cli_wrap(int argc, char **argv);
int cli_learn(int argc, char **argv);
int cli_doctor(int argc, char **argv);

/* Prints `confine: TEXT` on standard error, in one write, and returns CLI_REFUSED. */
int cli_refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* cli_refuse with the text of a library error. */
int cli_refuse_error(const confine_error *error);

/* Ends what is printed to out, standard output or a copy of it. Returns 0, or cli_refuse's with the reason when
 * some of it was lost. */
int cli_flush(FILE *out);

#endif
