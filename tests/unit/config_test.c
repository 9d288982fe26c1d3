/* The configuration file against config_cases.txt (a new case is a new block there), its limits, and files. */
#include "policy/config.h"

#include <fcntl.h>
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static const char *cases_path;

static int parse(const char *text, size_t length, confine_config **config, confine_error *error) {
  return confine__config_parse((const unsigned char *)text, length, "/etc/conf/c.yml", "/etc/conf", config, error);
}

static void add(char *out, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void add(char *out, size_t size, const char *format, ...) {
  size_t n = strlen(out);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(out + n, size - n, format, arguments);
  va_end(arguments);
}

static void add_list(char *out, size_t size, const char *name, const char *const *words) {
  add(out, size, " %s=[", name);
  for (size_t i = 0; words[i]; i++)
    add(out, size, "%s%s", i ? "," : "", words[i]);
  add(out, size, "]");
}

/* All that a configuration says, in one line. */
static void describe(const confine_config *config, char *out, size_t size) {
  confine_settings settings = CONFINE_SETTINGS_INIT;
  confine_mode mode;
  snprintf(out, size, "ok");
  if (confine_config_mode(config, &mode))
    add(out, size, " mode=%s", confine_mode_name(mode));
  if (confine_config_workspace(config))
    add(out, size, " workspace=%s", confine_config_workspace(config));
  if (confine_config_writable_count(config)) {
    add(out, size, " writable=[");
    for (size_t i = 0; i < confine_config_writable_count(config); i++)
      add(out, size, "%s%s", i ? "," : "", confine_config_writable(config, i));
    add(out, size, "]");
  }
  assert_null(confine_config_writable(config, confine_config_writable_count(config)));
  assert_int_equal(confine_config_settings(config, &settings), 0);
  if (settings.chain) {
    add(out, size, " chain=[");
    for (size_t i = 0; i < settings.chain_length; i++)
      add(out, size, "%s%s", i ? "," : "", confine_runner_name(settings.chain[i]));
    add(out, size, "]");
  }
  if (settings.runner_command)
    add_list(out, size, "command", settings.runner_command);
  if (settings.runner_failure_signatures)
    add_list(out, size, "signatures", settings.runner_failure_signatures);
  if (settings.probe_timeout_ms > 0)
    add(out, size, " timeout=%g", settings.probe_timeout_ms);
}

/* Returns 1 if the block came out otherwise. */
static int check_block(const char *name, const char *text, const char *expected) {
  char got[CONFINE_ERROR_TEXT_MAX + 64];
  confine_error error = CONFINE_ERROR_INIT;
  confine_config *config = NULL;
  int r = parse(text, strlen(text), &config, &error);
  if (r == 0) {
    describe(config, got, sizeof got);
    confine_config_free(config);
  } else {
    assert_int_equal(error.code, r);
    snprintf(got, sizeof got, "error %u:%u %s", error.line, error.column, error.text);
  }
  got[strcspn(got, "\n")] = '\0';
  if (strcmp(got, expected) == 0)
    return 0;
  print_error("%s:\n  got      %s\n  expected %s\n", name, got, expected);
  return 1;
}

static void table(void **state) {
  (void)state;
  char line[1024], name[128] = "", text[4096] = "";
  int wrong = 0, cases = 0;
  FILE *file = fopen(cases_path, "re");
  assert_non_null(file);
  while (fgets(line, sizeof line, file)) {
    if (strncmp(line, "== ", 3) == 0) {
      snprintf(name, sizeof name, "%.100s", line + 3);
      text[0] = '\0';
    } else if (strncmp(line, "-- ", 3) == 0) {
      line[strcspn(line, "\n")] = '\0';
      wrong += check_block(name, text, line + 3);
      cases++;
    } else {
      add(text, sizeof text, "%s", line);
    }
  }
  fclose(file);
  assert_true(cases >= 50);
  assert_int_equal(wrong, 0);
}

/* Expects a refusal; returns the error for a look. */
static confine_error refused(const char *text, size_t length) {
  confine_error error = CONFINE_ERROR_INIT;
  confine_config *config = NULL;
  assert_true(parse(text, length, &config, &error) < 0);
  assert_null(config);
  return error;
}

static void bytes_that_are_no_text(void **state) {
  (void)state;
  static const char control[] = "mode: read-only\nchain: [\x01]\n", latin[] = "workspaceRoot: /caf\xe9\n",
                    nul[] = "mode: read-only\n\0\n";
  confine_error error = refused(control, sizeof control - 1);
  assert_int_equal(error.code, CONFINE_ECONFIG);
  assert_int_equal(error.line, 2);
  assert_int_equal(error.column, 9);
  assert_int_equal(refused(latin, sizeof latin - 1).line, 1);
  assert_int_equal(refused(nul, sizeof nul - 1).line, 2);
}

static char *list_of(const char *key, size_t count, const char *entry) {
  size_t size = strlen(key) + 8 + count * (strlen(entry) + 16);
  char *text = malloc(size);
  size_t n = (size_t)snprintf(text, size, "%s:\n", key);
  for (size_t i = 0; i < count; i++)
    n += (size_t)snprintf(text + n, size - n, "- %s%zu\n", entry, i);
  return text;
}

static void list_limit(const char *key, size_t limit) {
  confine_config *config = NULL;
  char *text = list_of(key, limit, "/a");
  assert_int_equal(parse(text, strlen(text), &config, NULL), 0);
  confine_config_free(config);
  free(text);
  text = list_of(key, limit + 1, "/a");
  confine_error error = refused(text, strlen(text));
  assert_int_equal(error.code, CONFINE_ELIMIT);
  assert_int_equal(error.line, limit + 2);
  free(text);
}

static void limits(void **state) {
  (void)state;
  list_limit("writableRoots", CONFINE_ROOTS_MAX - 1);
  list_limit("runnerCommand", CONFINE_RUNNER_COMMAND_MAX);
  list_limit("runnerFailureSignatures", CONFINE_SIGNATURES_MAX);
  size_t large = CONFINE_CONFIG_MAX + 1;
  char *text = malloc(large);
  memset(text, '\n', large);
  confine_config *config = NULL;
  assert_int_equal(parse(text, large - 1, &config, NULL), 0);
  confine_config_free(config);
  assert_int_equal(refused(text, large).code, CONFINE_ELIMIT);
  memset(text, 'x', large);
  memcpy(text, "mode: ", 6);
  assert_int_equal(refused(text, 6 + CONFINE_CONFIG_STRING_MAX + 1).code, CONFINE_ELIMIT);
  assert_int_equal(refused(text, 6 + CONFINE_CONFIG_STRING_MAX).code, CONFINE_ECONFIG);
  /* Depth is no one's to choose, and costs nothing. */
  memset(text, '[', large);
  assert_int_equal(refused(text, CONFINE_CONFIG_MAX).code, CONFINE_ECONFIG);
  memcpy(text, "chain: ", 7);
  assert_int_equal(refused(text, CONFINE_CONFIG_MAX).code, CONFINE_ECONFIG);
  free(text);
}

/* A decimal point is one whatever the host's locale says. */
static void numbers_do_not_depend_on_the_locale(void **state) {
  (void)state;
  confine_config *config = NULL;
  confine_settings settings = CONFINE_SETTINGS_INIT;
  if (!setlocale(LC_ALL, "de_DE.UTF-8"))
    print_message("# no German locale here; the C locale it is\n");
  assert_int_equal(parse("probeTimeoutMs: 2.5", 19, &config, NULL), 0);
  assert_int_equal(confine_config_settings(config, &settings), 0);
  setlocale(LC_ALL, "C");
  assert_true(settings.probe_timeout_ms > 2.4 && settings.probe_timeout_ms < 2.6);
  settings.size = 1;
  assert_int_equal(confine_config_settings(config, &settings), CONFINE_EINVAL);
  confine_config_free(config);
}

static void write_file(const char *path, const char *text) {
  FILE *file = fopen(path, "we");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
}

static void files(void **state) {
  (void)state;
  char place[] = "/var/tmp/confine-config-XXXXXX", path[128], link[128], fifo[128], expected[160];
  confine_error error = CONFINE_ERROR_INIT;
  confine_config *config = NULL;
  assert_non_null(mkdtemp(place));
  snprintf(path, sizeof path, "%s/c.yml", place);
  snprintf(link, sizeof link, "%s/link.yml", place);
  snprintf(fifo, sizeof fifo, "%s/fifo", place);
  snprintf(expected, sizeof expected, "%s/sub", place);
  write_file(path, "workspaceRoot: sub\n");
  assert_int_equal(symlink("c.yml", link), 0);
  assert_int_equal(mkfifo(fifo, 0600), 0);
  assert_int_equal(confine_config_load(link, &config, &error), 0);
  assert_string_equal(confine_config_path(config), path);
  assert_string_equal(confine_config_workspace(config), expected);
  confine_config_free(config);
  config = NULL;
  assert_int_equal(confine_config_load(fifo, &config, &error), CONFINE_ECONFIG);
  assert_non_null(strstr(error.text, "it is not a regular file"));
  assert_int_equal(confine_config_load(place, &config, &error), CONFINE_ECONFIG);
  assert_int_equal(confine_config_load("/nonexistent/c.yml", &config, &error), CONFINE_ECONFIG);
  assert_non_null(strstr(error.text, "/nonexistent/c.yml: No such file"));
  assert_int_equal(confine_config_load("", &config, &error), CONFINE_EINVAL);
  assert_int_equal(truncate(path, CONFINE_CONFIG_MAX + 1), 0);
  assert_int_equal(confine_config_load(path, &config, &error), CONFINE_ELIMIT);
  assert_null(config);
  unlink(path);
  unlink(link);
  unlink(fifo);
  rmdir(place);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(table),
      cmocka_unit_test(bytes_that_are_no_text),
      cmocka_unit_test(limits),
      cmocka_unit_test(numbers_do_not_depend_on_the_locale),
      cmocka_unit_test(files),
  };
  if (argc != 2)
    return 2;
  cases_path = argv[1];
  return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
