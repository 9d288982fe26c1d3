/* Options of run, wrap and learn. */
#ifndef CONFINE_CLI_OPTIONS_H
#define CONFINE_CLI_OPTIONS_H

#include <confine/confine.h>

/* The subcommands that take an option; bits of cli_option.commands. */
enum cli_command { CLI_RUN = 1, CLI_WRAP = 2, CLI_LEARN = 4 };

struct cli_options {
  const char *mode;        /* words as given, or NULL */
  const char *workspace;
  const char **writable;   /* NULL-terminated, owned */
  size_t writable_count;
  const char *runner;
  const char *config;
  const char *report;
  uint32_t isolation;
  double timeout_seconds;
  int require_full, keep_background, no_observe, json;
  const char *const *command; /* what is left; never empty */
};

/*
 * Parses the words after the subcommand. Returns 1 to go on, 0 when --help was answered, or -1 after a
 * refusal has been printed.
 */
int cli_options_parse(enum cli_command command, int argc, char **argv, struct cli_options *ret_options);
void cli_options_release(struct cli_options *options);

/*
 * Makes provider and policy of the options, and of the configuration file they name. Returns 0, or
 * CLI_REFUSED after printing why. The runner asked for is in *ret_runner, NONE for auto.
 */
int cli_options_apply(const struct cli_options *options, confine_provider **ret_provider,
                      confine_policy **ret_policy, confine_runner *ret_runner);

#endif
