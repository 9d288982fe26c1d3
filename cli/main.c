#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct {
  const char *name, *help;
  int (*run)(int argc, char **argv);
} commands[] = {
    {"run", "run a command confined", cli_run},
    {"wrap", "print what to spawn instead, as JSON", cli_wrap},
    {"learn", "run a command confined, then say what it wanted to write", cli_learn},
    {"doctor", "what this host can enforce, and why not more", cli_doctor},
};
#define COMMANDS (sizeof commands / sizeof commands[0])

int cli_refuse(const char *format, ...) {
  char line[CONFINE_ERROR_TEXT_MAX + 256] = "confine: ";
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line + 9, sizeof line - 10, format, arguments);
  va_end(arguments);
  size_t length = strlen(line);
  line[length] = '\n';
  ssize_t ignored = write(STDERR_FILENO, line, length + 1);
  (void)ignored;
  return CLI_REFUSED;
}

int cli_refuse_error(const confine_error *error) {
  if (error->line)
    return cli_refuse("%s (line %u, column %u)", error->text, error->line, error->column);
  return cli_refuse("%s", error->text);
}

int cli_flush(FILE *out) {
  /* A long text may have failed before, which leaves nothing to fail now, and perhaps another errno. */
  int failed_before = ferror(out);
  if (fflush(out) == 0 && !failed_before)
    return 0;
  return cli_refuse("standard output: %s", strerror(errno));
}

/* Success is for what has been said, a subcommand's help included. */
static int flushed(int status) {
  return status == 0 ? cli_flush(stdout) : status;
}

static int help(void) {
  puts("usage: confine COMMAND [ARGUMENTS]\n");
  for (size_t i = 0; i < COMMANDS; i++)
    printf("  %-8s %s\n", commands[i].name, commands[i].help);
  puts("\n  --version, --help; each command has a --help of its own");
  return flushed(0);
}

/* A standard stream that is closed stays so for the command, but its number is not for anything else. */
static void hold_streams(void) {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
    if (fcntl(fd, F_GETFD) < 0)
      open("/dev/null", O_RDWR | O_CLOEXEC); /* the lowest free number, which is this one */
}

int main(int argc, char **argv) {
  hold_streams();
  if (argc < 2)
    return cli_refuse("no command given; try: confine run -- COMMAND, or confine --help");
  if (strcmp(argv[1], "--help") == 0)
    return help();
  if (strcmp(argv[1], "--version") == 0) {
    puts("confine " CONFINE_VERSION);
    return flushed(0);
  }
  for (size_t i = 0; i < COMMANDS; i++)
    if (strcmp(argv[1], commands[i].name) == 0)
      return flushed(commands[i].run(argc - 2, argv + 2));
  return cli_refuse("unknown command %s; the commands are run, wrap, learn, doctor (see confine --help)", argv[1]);
}
