#include "cli.h"
#include "options.h"
#include "report.h"
#include "run.h"

#include <stdlib.h>

/* On the stack it would take a page or two, which the usual call has no need to touch. */
static confine_error error = CONFINE_ERROR_INIT;

/* The result is on record; standard error is for what a person must know although the command never ran. */
static void explain(const confine_result *result, const confine_policy *policy, const char *command) {
  if (confine_result_failed_step(result)) {
    if (!confine_result_started(result))
      confine_unavailable_text(confine_policy_mode(policy), confine_result_failure_detail(result), &error);
    cli_refuse("%s", *error.text ? error.text : confine_result_failure_detail(result));
  } else if (!confine_result_started(result) && confine_result_exit_code(result) == 127) {
    cli_refuse("%s: command not found", command);
  } else if (!confine_result_started(result) && confine_result_exit_code(result) == 126) {
    cli_refuse("%s: found but not executable", command);
  }
}

static int write_record(struct report *report, const confine_result *result) {
  char *record = NULL;
  if (!report_wanted(report))
    return 0;
  if (confine_result_json(result, &record, &error) < 0) {
    report_abandon(report);
    return cli_refuse_error(&error);
  }
  int status = report_write(report, record);
  free(record);
  return status;
}

int cli_execute(enum cli_command command, int argc, char **argv, cli_afterwards *afterwards, void *context) {
  struct cli_options options;
  confine_provider *provider = NULL;
  confine_policy *policy = NULL;
  confine_result *result = NULL;
  confine_run_options run = CONFINE_RUN_OPTIONS_INIT;
  struct report report = {.fd = -1, .directory = -1};
  int status = cli_options_parse(command, argc, argv, &options);
  if (status <= 0)
    return status == 0 ? 0 : CLI_REFUSED;
  status = report_open(options.report, &report);
  if (status == 0)
    status = cli_options_apply(&options, &provider, &policy, &run.runner);
  if (status == 0) {
    run.require_full = options.require_full;
    run.keep_background = options.keep_background;
    run.no_observe = options.no_observe;
    run.release_stdio = 1;
    run.timeout_seconds = options.timeout_seconds;
    if (confine_run(provider, options.command, policy, &run, &result, &error) < 0)
      status = cli_refuse_error(&error);
  }
  if (result) {
    explain(result, policy, options.command[0]);
    status = write_record(&report, result);
    if (status == 0 && afterwards)
      status = afterwards(&options, provider, policy, result, context);
    if (status == 0)
      status = confine_result_exit_status(result);
  } else {
    report_abandon(&report);
  }
  /* The process ends here, which frees everything at once; doing it piece by piece costs 25 us. */
  return status;
}

int cli_run(int argc, char **argv) {
  return cli_execute(CLI_RUN, argc, argv, NULL, NULL);
}
