#include "options.h"
#include "cli.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One row per option: the source of parsing and of --help. */
struct row {
  const char *flag, *value, *help;
  unsigned commands;
  int (*take)(struct cli_options *options, const char *value);
};

#define ALL (CLI_RUN | CLI_WRAP | CLI_LEARN)
#define EXECUTING (CLI_RUN | CLI_LEARN)

static int take_mode(struct cli_options *options, const char *value) {
  confine_mode mode;
  options->mode = value;
  if (confine_mode_parse(value, &mode) == 0)
    return 0;
  return cli_refuse("--mode %s: choose read-only, workspace-write or danger-full-access", value);
}

static int take_workspace(struct cli_options *options, const char *value) {
  options->workspace = value;
  return 0;
}

static int take_write(struct cli_options *options, const char *value) {
  options->writable[options->writable_count++] = value;
  return 0;
}

static int take_runner(struct cli_options *options, const char *value) {
  confine_runner runner;
  options->runner = value;
  if (strcmp(value, "auto") == 0 || confine_runner_parse(value, &runner) == 0)
    return 0;
  return cli_refuse(
      "--runner %s: choose auto, namespace, bwrap, landlock, seatbelt, windows-acl or custom", value);
}

static int take_require(struct cli_options *options, const char *value) {
  options->require_full = 1;
  return strcmp(value, "full") == 0 ? 0 : cli_refuse("--require %s: the only value is full", value);
}

static int take_isolate(struct cli_options *options, const char *value) {
  static const char *const words[] = {"network", "process", "ipc"};
  for (const char *word = value;;) {
    size_t length = strcspn(word, ","), i = 0;
    while (i < 3 && (strlen(words[i]) != length || strncmp(words[i], word, length) != 0))
      i++;
    if (i == 3)
      return cli_refuse("--isolate %s: a comma-separated list of network, process, ipc", value);
    options->isolation |= 1u << i;
    if (!word[length])
      return 0;
    word += length + 1;
  }
}

static int take_config(struct cli_options *options, const char *value) {
  options->config = value;
  return 0;
}

static int take_timeout(struct cli_options *options, const char *value) {
  char *end;
  errno = 0;
  options->timeout_seconds = strtod(value, &end);
  if (errno || end == value || *end || !isfinite(options->timeout_seconds) || options->timeout_seconds <= 0 ||
      options->timeout_seconds > 1e9)
    return cli_refuse("--timeout %s: a positive number of seconds", value);
  return 0;
}

static int take_report(struct cli_options *options, const char *value) {
  options->report = value;
  return 0;
}

static int take_keep(struct cli_options *options, const char *value) {
  (void)value;
  options->keep_background = 1;
  return 0;
}

static int take_no_observe(struct cli_options *options, const char *value) {
  (void)value;
  options->no_observe = 1;
  return 0;
}

static int take_json(struct cli_options *options, const char *value) {
  (void)value;
  options->json = 1;
  return 0;
}

static const struct row rows[] = {
    {"--mode", "MODE", "read-only | workspace-write | danger-full-access (default workspace-write)", ALL, take_mode},
    {"--workspace", "DIR", "the writable directory (default: the current directory)", ALL, take_workspace},
    {"--write", "PATH", "a further writable directory or file; repeatable", ALL, take_write},
    {"--runner", "NAME", "auto | namespace | bwrap | landlock | seatbelt | windows-acl | custom (default auto)", ALL,
     take_runner},
    {"--require", "full", "refuse rather than run with partial enforcement", ALL, take_require},
    {"--isolate", "LIST", "also cut off: network, process, ipc (comma-separated)", ALL, take_isolate},
    {"--config", "FILE", "read settings from a YAML file, confine-policy(5)", ALL, take_config},
    {"--timeout", "SECONDS", "end the command and all it started after so long", EXECUTING, take_timeout},
    {"--report", "FILE|fd:N", "write the result record there, confine-results(5)", EXECUTING, take_report},
    {"--keep-background", NULL, "leave background processes of the command running", EXECUTING, take_keep},
    {"--no-observe", NULL, "do not watch for refused writes", EXECUTING, take_no_observe},
    {"--json", NULL, "tell what it wanted to write as one line of JSON, confine-results(5)", CLI_LEARN, take_json},
};
#define ROWS (sizeof rows / sizeof rows[0])

static const char *command_name(enum cli_command command) {
  return command == CLI_RUN ? "run" : command == CLI_WRAP ? "wrap" : "learn";
}

static void print_help(enum cli_command command) {
  printf("usage: confine %s [options] [--] COMMAND [ARG...]\n\n", command_name(command));
  for (size_t i = 0; i < ROWS; i++) {
    char head[64];
    if (!(rows[i].commands & command))
      continue;
    snprintf(head, sizeof head, "%s%s%s", rows[i].flag, rows[i].value ? " " : "", rows[i].value ? rows[i].value : "");
    printf("  %-22s %s\n", head, rows[i].help);
  }
  printf("  %-22s %s\n", "--help", "this text");
}

/* Levenshtein distance of two short words; words over 31 characters are far from everything. */
static size_t distance(const char *a, const char *b) {
  size_t row[32], n = strlen(b);
  if (n > 31 || strlen(a) > 31)
    return 32;
  for (size_t j = 0; j <= n; j++)
    row[j] = j;
  for (size_t i = 1; a[i - 1]; i++) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= n; j++) {
      size_t above = row[j], best = diagonal + (a[i - 1] != b[j - 1]);
      if (above + 1 < best)
        best = above + 1;
      if (row[j - 1] + 1 < best)
        best = row[j - 1] + 1;
      row[j] = best;
      diagonal = above;
    }
  }
  return row[n];
}

static int refuse_unknown(enum cli_command command, const char *flag) {
  const char *nearest = "--help";
  for (size_t i = 0; i < ROWS; i++)
    if ((rows[i].commands & command) && distance(flag, rows[i].flag) < distance(flag, nearest))
      nearest = rows[i].flag;
  return cli_refuse("%s: unknown option %s; the nearest is %s (put -- before a command that begins with -)",
                    command_name(command), flag, nearest);
}

static const struct row *find(enum cli_command command, const char *flag) {
  for (size_t i = 0; i < ROWS; i++)
    if ((rows[i].commands & command) && strcmp(rows[i].flag, flag) == 0)
      return &rows[i];
  return NULL;
}

static int usage(enum cli_command command, int argc, char **argv, struct cli_options *options) {
  int i = 0;
  for (; i < argc && argv[i][0] == '-' && argv[i][1]; i++) {
    if (strcmp(argv[i], "--") == 0) {
      i++;
      break;
    }
    if (strcmp(argv[i], "--help") == 0) {
      print_help(command);
      return 0;
    }
    const struct row *row = find(command, argv[i]);
    if (!row) {
      refuse_unknown(command, argv[i]);
      return -1;
    }
    const char *value = NULL;
    if (row->value && i + 1 >= argc) {
      cli_refuse("%s: %s requires a value: %s %s", command_name(command), row->flag, row->flag, row->value);
      return -1;
    }
    if (row->value)
      value = argv[++i];
    if (row->take(options, value) != 0)
      return -1;
  }
  if (i >= argc) {
    cli_refuse("%s: no command given; say what to run, as in: confine %s -- COMMAND [ARG...]",
               command_name(command), command_name(command));
    return -1;
  }
  options->command = (const char *const *)(argv + i);
  return 1;
}

int cli_options_parse(enum cli_command command, int argc, char **argv, struct cli_options *ret_options) {
  memset(ret_options, 0, sizeof *ret_options);
  ret_options->writable = calloc((size_t)argc + 1, sizeof *ret_options->writable);
  if (!ret_options->writable) {
    cli_refuse("out of memory");
    return -1;
  }
  int r = usage(command, argc, argv, ret_options);
  if (r <= 0)
    cli_options_release(ret_options);
  return r;
}

void cli_options_release(struct cli_options *options) {
  free(options->writable);
  options->writable = NULL;
}

/* The options outrank the file, if there is one. */
static int make_policy(const struct cli_options *options, const confine_config *config, confine_policy **ret_policy,
                       confine_error *error) {
  confine_mode mode = CONFINE_MODE_WORKSPACE_WRITE;
  confine_policy *policy = NULL;
  const char *workspace = options->workspace;
  if (config)
    confine_config_mode(config, &mode);
  if (options->mode)
    confine_mode_parse(options->mode, &mode);
  if (config && !workspace)
    workspace = confine_config_workspace(config);
  int r = confine_policy_new(mode, &policy, error);
  /* Full access needs no workspace, so a directory that could not be one is no reason to refuse. */
  if (r == 0 && (mode != CONFINE_MODE_DANGER_FULL_ACCESS || workspace))
    r = confine_policy_set_workspace(policy, workspace, error);
  for (size_t i = 0; r == 0 && config && i < confine_config_writable_count(config); i++)
    r = confine_policy_add_writable(policy, confine_config_writable(config, i), error);
  for (size_t i = 0; r == 0 && i < options->writable_count; i++)
    r = confine_policy_add_writable(policy, options->writable[i], error);
  if (r == 0)
    r = confine_policy_set_isolation(policy, options->isolation, error);
  if (r == 0 && config)
    r = confine_policy_protect(policy, confine_config_path(config), error);
  if (r < 0) {
    confine_policy_free(policy);
    return r;
  }
  *ret_policy = policy;
  return 0;
}

/* A runner that is asked for by name is the only candidate. */
static int make_provider(const struct cli_options *options, const confine_config *config, confine_runner *runner,
                         confine_provider **ret_provider, confine_error *error) {
  confine_settings settings = CONFINE_SETTINGS_INIT;
  if (config)
    confine_config_settings(config, &settings);
  if (options->runner && strcmp(options->runner, "auto") != 0) {
    confine_runner_parse(options->runner, runner);
    settings.chain = runner;
    settings.chain_length = 1;
    if (*runner != CONFINE_RUNNER_CUSTOM)
      settings.runner_command = settings.runner_failure_signatures = NULL;
  }
  return confine_provider_new(&settings, ret_provider, error);
}

int cli_options_apply(const struct cli_options *options, confine_provider **ret_provider,
                      confine_policy **ret_policy, confine_runner *ret_runner) {
  static confine_error error = CONFINE_ERROR_INIT; /* as in run.c */
  confine_provider *provider = NULL;
  confine_config *config = NULL;
  int r = options->config ? confine_config_load(options->config, &config, &error) : 0;
  if (r == 0)
    r = make_provider(options, config, ret_runner, &provider, &error);
  if (r == 0)
    r = make_policy(options, config, ret_policy, &error);
  confine_config_free(config);
  if (r < 0) {
    confine_provider_free(provider);
    return cli_refuse_error(&error);
  }
  *ret_provider = provider;
  return 0;
}
