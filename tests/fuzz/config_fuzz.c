/*
 * The configuration file, from bytes to a provider's settings: what is accepted is complete and within the documented
 * limits, what is refused says where and why, and both come out the same the second time.
 */
#include "fuzz.h"

#include "policy/config.h"
#include "provider/internal.h"

#include <math.h>

#define DIRECTORY "/etc/conf"

/* Every kind of line end that YAML knows counts, and "\r\n" twice: no more lines than this. */
static uint32_t lines_at_most(const uint8_t *data, size_t size) {
  uint32_t lines = 1;
  for (size_t i = 0; i < size; i++)
    lines += data[i] == '\n' || data[i] == '\r' || data[i] == 0x85 || data[i] == 0xa8 || data[i] == 0xa9;
  return lines;
}

static void check_error(const confine_error *error, int r, uint32_t lines) {
  REQUIRE(error->code == r);
  REQUIRE(r == CONFINE_ECONFIG || r == CONFINE_ELIMIT);
  size_t length = strlen(error->text);
  REQUIRE(length > 0 && error->text[length - 1] != '\n');
  REQUIRE(error->line >= 1 && error->line <= lines + 1);
  REQUIRE(error->column >= 1);
}

static void check_path(const char *path) {
  REQUIRE(path[0] == '/');
  REQUIRE(strlen(path) <= sizeof DIRECTORY + CONFINE_CONFIG_STRING_MAX);
}

static void check_list(const char *const *words, size_t limit) {
  size_t count = 0;
  for (; words && words[count]; count++)
    REQUIRE(strlen(words[count]) <= CONFINE_CONFIG_STRING_MAX);
  REQUIRE(count <= limit);
}

static void check_settings(const confine_settings *settings) {
  REQUIRE(isfinite(settings->probe_timeout_ms) && settings->probe_timeout_ms >= 0);
  check_list(settings->runner_command, CONFINE_RUNNER_COMMAND_MAX);
  check_list(settings->runner_failure_signatures, CONFINE_SIGNATURES_MAX);
  for (size_t i = 0; settings->chain && i < settings->chain_length; i++) {
    REQUIRE(confine_runner_name(settings->chain[i]));
    for (size_t j = 0; j < i; j++)
      REQUIRE(settings->chain[i] != settings->chain[j]);
  }
}

/* What confine_provider_new does with them before it looks at the host. */
static void give_to_provider(const confine_settings *settings) {
  confine_provider provider = {.probe_timeout_ms = 0};
  confine_error error = CONFINE_ERROR_INIT;
  int r = confine__settings_copy(&provider, settings, &error);
  if (r < 0)
    REQUIRE(error.code == r && error.text[0]);
  else
    REQUIRE(provider.probe_timeout_ms > 0 && provider.chain_length > 0);
  confine__argv_release(&provider.runner_command);
  confine__argv_release(&provider.signatures);
}

static void check_config(const confine_config *config) {
  confine_settings settings = CONFINE_SETTINGS_INIT;
  confine_mode mode;
  size_t count = confine_config_writable_count(config);
  if (confine_config_mode(config, &mode))
    REQUIRE(confine_mode_name(mode));
  if (confine_config_workspace(config))
    check_path(confine_config_workspace(config));
  REQUIRE(count < CONFINE_ROOTS_MAX);
  for (size_t i = 0; i < count; i++)
    check_path(confine_config_writable(config, i));
  REQUIRE(!confine_config_writable(config, count));
  REQUIRE(confine_config_settings(config, &settings) == 0);
  check_settings(&settings);
  give_to_provider(&settings);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  confine_error error = CONFINE_ERROR_INIT, again = CONFINE_ERROR_INIT;
  confine_config *config = NULL, *same = NULL;
  int r = confine__config_parse(data, size, DIRECTORY "/c.yml", DIRECTORY, &config, &error);
  REQUIRE(confine__config_parse(data, size, DIRECTORY "/c.yml", DIRECTORY, &same, &again) == r);
  if (r < 0) {
    REQUIRE(!config && !same);
    check_error(&error, r, lines_at_most(data, size));
    REQUIRE(error.line == again.line && error.column == again.column && strcmp(error.text, again.text) == 0);
  } else {
    REQUIRE(!error.code);
    check_config(config);
    REQUIRE(confine_config_writable_count(config) == confine_config_writable_count(same));
  }
  confine_config_free(config);
  confine_config_free(same);
  return 0;
}
