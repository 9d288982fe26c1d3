/*
 * Profiles against tests/golden/profiles.txt: what each runner makes of a host and a policy. A new case is a
 * new block there. With GOLDEN_UPDATE=FILE in the environment the table as it is now is written to FILE.
 */
#include "runner/runner.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LINES_MAX 128
#define ROOTS_MAX 8

struct block {
  char *lines[LINES_MAX];
  size_t count;
  char runner[32], mode[32], isolate[64], command[64];
  char gaps[128];
  char *roots[ROOTS_MAX];
  size_t root_count;
  struct confine__host host;
};

static const char *const runner_command[] = {"/opt/shim/run", "--strict", NULL};

static void set_host(struct confine__host *host, const char *value) {
  static const struct confine__host paths = {.landlock_run = "/lib/confine/landlock-run",
                                             .namespace_run = "/lib/confine/namespace-run",
                                             .bwrap = "/usr/bin/bwrap"};
  *host = paths;
  host->runner_command = runner_command;
  host->guard = strstr(value, "guard") != NULL;
  host->supervisor = strstr(value, "supervisor") != NULL;
  host->mounts_without_userns = strstr(value, "mounts") != NULL;
  const char *abi = strstr(value, "abi=");
  host->landlock_abi = abi ? (int)strtol(abi + 4, NULL, 10) : 0;
}

static void take(struct block *block, const char *key, char *value) {
  if (strcmp(key, "runner") == 0)
    snprintf(block->runner, sizeof block->runner, "%s", value);
  else if (strcmp(key, "mode") == 0)
    snprintf(block->mode, sizeof block->mode, "%s", value);
  else if (strcmp(key, "isolate") == 0)
    snprintf(block->isolate, sizeof block->isolate, "%s", value);
  else if (strcmp(key, "call") == 0)
    snprintf(block->command, sizeof block->command, "%s", value);
  else if (strcmp(key, "host") == 0)
    set_host(&block->host, value);
  else if (strcmp(key, "gaps") == 0)
    snprintf(block->gaps, sizeof block->gaps, "%s", value);
  else if (strcmp(key, "root") == 0 && block->root_count < ROOTS_MAX)
    block->roots[block->root_count++] = value;
  else if (strcmp(key, "case") != 0 && strcmp(key, "argv") != 0)
    fail_msg("unknown key %s in the table", key);
}

static uint32_t isolation_of(const char *list) {
  uint32_t bits = 0;
  bits |= strstr(list, "network") ? CONFINE_ISOLATE_NETWORK : 0;
  bits |= strstr(list, "process") ? CONFINE_ISOLATE_PROCESS : 0;
  bits |= strstr(list, "ipc") ? CONFINE_ISOLATE_IPC : 0;
  return bits;
}

static void set_policy(const struct block *block, confine_policy *policy, struct confine__held_path *roots) {
  memset(policy, 0, sizeof *policy);
  assert_int_equal(confine_mode_parse(block->mode, &policy->mode), 0);
  policy->isolation = isolation_of(block->isolate);
  for (size_t i = 0; i < block->root_count; i++)
    roots[i] = (struct confine__held_path){.path = block->roots[i], .fd = -1, .device = 1, .inode = 100 + i};
  if (block->root_count) {
    policy->workspace = roots[0];
    policy->writable = roots + 1;
    policy->writable_count = block->root_count - 1;
  }
}

static void name_gaps(uint32_t gaps, char *out, size_t size) {
  out[0] = '\0';
  for (uint32_t bit = 1; bit; bit <<= 1)
    if (gaps & bit) {
      size_t n = strlen(out);
      snprintf(out + n, size - n, "%s%s", n ? " " : "", confine_gap_name(bit));
    }
}

static void make(const struct block *block, struct confine__argv *argv, char *gaps, size_t size) {
  static const char *const command[] = {"cmd", "arg with space", "--flag", NULL};
  confine_runner id = CONFINE_RUNNER_NONE;
  struct confine__held_path roots[ROOTS_MAX];
  confine_policy policy;
  struct confine__call call = {.argv = command, .status_fd = -1};
  set_policy(block, &policy, roots);
  if (strstr(block->command, "status"))
    call.status_fd = 7;
  call.keep_background = strstr(block->command, "background") != NULL;
  assert_int_equal(confine_runner_parse(block->runner, &id), 0);
  const struct confine__runner *runner = confine__runner_find(id);
  assert_non_null(runner);
  runner->argv(&block->host, &policy, &call, argv);
  assert_int_equal(argv->failed, 0);
  name_gaps(runner->gaps(&block->host), gaps, size);
}

static void update(const struct block *block, const struct confine__argv *argv, const char *gaps, FILE *out) {
  fprintf(out, "\n");
  for (size_t i = 0; i < block->count; i++)
    if (strncmp(block->lines[i], "  ", 2) != 0 && strncmp(block->lines[i], "argv:", 5) != 0 &&
        strncmp(block->lines[i], "gaps:", 5) != 0)
      fprintf(out, "%s\n", block->lines[i]);
  fprintf(out, "gaps:%s%s\nargv:\n", *gaps ? " " : "", gaps);
  for (size_t i = 0; i < argv->count; i++)
    fprintf(out, "  %s\n", argv->words[i]);
}

static int compare(const struct block *block, const struct confine__argv *argv, const char *gaps) {
  size_t at = 0;
  int wrong = 0;
  for (size_t i = 0; i < block->count; i++) {
    if (strncmp(block->lines[i], "  ", 2) != 0)
      continue;
    const char *expected = block->lines[i] + 2, *got = at < argv->count ? argv->words[at] : "(nothing)";
    wrong |= strcmp(expected, got) != 0;
    if (strcmp(expected, got) != 0)
      print_error("%s: word %zu is `%s`, expected `%s`\n", block->lines[0], at, got, expected);
    at++;
  }
  if (at < argv->count)
    print_error("%s: %zu words too many, the first is `%s`\n", block->lines[0], argv->count - at, argv->words[at]);
  if (strcmp(gaps, block->gaps) != 0)
    print_error("%s: gaps are `%s`, expected `%s`\n", block->lines[0], gaps, block->gaps);
  return wrong || at != argv->count || strcmp(gaps, block->gaps) != 0;
}

/* Splits text into the lines of one block; returns where the next begins, or NULL at the end. */
static char *next_block(char *text, struct block *block) {
  memset(block, 0, sizeof *block);
  while (text && *text && block->count < LINES_MAX) {
    char *line = text, *end = strchr(text, '\n');
    if (end)
      *end = '\0';
    text = end ? end + 1 : NULL;
    if (!*line && block->count)
      return text;
    if (*line && *line != '#')
      block->lines[block->count++] = line;
  }
  return block->count ? text : NULL;
}

static char *read_table(void) {
  char path[4096];
  size_t size = 1 << 20;
  snprintf(path, sizeof path, "%s/profiles.txt", getenv("GOLDEN"));
  char *text = calloc(1, size);
  FILE *file = fopen(path, "re");
  assert_non_null(file);
  assert_true(fread(text, 1, size - 1, file) > 0);
  fclose(file);
  return text;
}

static void profiles_are_as_in_the_table(void **state) {
  (void)state;
  const char *updated = getenv("GOLDEN_UPDATE");
  char *table = read_table(), *at = table, *head = strstr(table, "\n\n");
  FILE *out = updated ? fopen(updated, "we") : NULL;
  if (out && head)
    fprintf(out, "%.*s\n", (int)(head - table), table);
  struct block block;
  int wrong = 0, cases = 0;
  while ((at = next_block(at, &block), block.count)) {
    struct confine__argv argv = {0};
    char gaps[256];
    for (size_t i = 0; i < block.count; i++) {
      char key[32], *value = strchr(block.lines[i], ':');
      if (strncmp(block.lines[i], "  ", 2) == 0 || !value)
        continue;
      snprintf(key, sizeof key, "%.*s", (int)(value - block.lines[i]), block.lines[i]);
      take(&block, key, value + 1 + strspn(value + 1, " "));
    }
    make(&block, &argv, gaps, sizeof gaps);
    if (out)
      update(&block, &argv, gaps, out);
    else
      wrong += compare(&block, &argv, gaps);
    cases++;
    confine__argv_release(&argv);
    if (!at)
      break;
  }
  if (out)
    fclose(out);
  free(table);
  assert_true(cases >= 20);
  assert_int_equal(wrong, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(profiles_are_as_in_the_table)};
  return cmocka_run_group_tests_name("golden", tests, NULL, NULL);
}
