/*
 * The command line of confine, up to where something would be done: the options of run, wrap and learn. What is
 * accepted is complete, and everything in it was among the words; what is refused leaves nothing behind.
 */
#include "fuzz.h"

#include "cli/cli.h"
#include "cli/options.h"

#include <math.h>

int main_main(int argc, char **argv);

static int is_among(const char *word, int argc, char **argv) {
  for (int i = 0; word && i < argc; i++)
    if (argv[i] == word)
      return 1;
  return !word;
}

static void check_options(enum cli_command command, const struct cli_options *options, int argc, char **argv) {
  const char *const *end = (const char *const *)argv + argc;
  confine_mode mode;
  confine_runner runner;
  REQUIRE(options->command >= (const char *const *)argv && options->command < end);
  REQUIRE(options->writable_count <= (size_t)argc && !options->writable[options->writable_count]);
  for (size_t i = 0; i < options->writable_count; i++)
    REQUIRE(options->writable[i] && is_among(options->writable[i], argc, argv));
  REQUIRE(!options->mode || confine_mode_parse(options->mode, &mode) == 0);
  REQUIRE(!options->runner || strcmp(options->runner, "auto") == 0 ||
          confine_runner_parse(options->runner, &runner) == 0);
  REQUIRE(options->isolation < 8);
  REQUIRE(isfinite(options->timeout_seconds) && options->timeout_seconds >= 0);
  REQUIRE(is_among(options->workspace, argc, argv) && is_among(options->config, argc, argv));
  REQUIRE(is_among(options->report, argc, argv));
  if (command == CLI_WRAP)
    REQUIRE(!options->report && !options->keep_background && !options->no_observe && options->timeout_seconds == 0);
  if (command != CLI_LEARN)
    REQUIRE(!options->json);
}

static int parse(enum cli_command command, int argc, char **argv) {
  struct cli_options options;
  int r = cli_options_parse(command, argc, argv, &options);
  if (r == 1) {
    check_options(command, &options, argc, argv);
    cli_options_release(&options);
  }
  return r < 0 ? CLI_REFUSED : 0;
}

/* What the subcommands begin with; they would go on and do it. */
int cli_run(int argc, char **argv) {
  return parse(CLI_RUN, argc, argv);
}

int cli_wrap(int argc, char **argv) {
  return parse(CLI_WRAP, argc, argv);
}

int cli_learn(int argc, char **argv) {
  return parse(CLI_LEARN, argc, argv);
}

/* Its options are two words, told apart in the file that probes the host. */
int cli_doctor(int argc, char **argv) {
  (void)argc;
  (void)argv;
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fuzz_input input = {data, size};
  size_t count;
  char **words = fuzz_words(&input, &count);
  int status = main_main((int)count, words);
  REQUIRE(status == 0 || status == CLI_REFUSED);
  fuzz_free_words(words);
  return 0;
}
