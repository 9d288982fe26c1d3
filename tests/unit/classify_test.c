/* confine_classify against classify_cases.txt; a new case is a new row there. */
#include "runner/runner.h"

#include <confine/classify.h>

#include <errno.h>
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

#define COLUMNS 7
#define RULES_MAX 4

static const char *cases_path;

struct rules {
  confine_failure_rule rules[RULES_MAX];
  size_t count;
  const char *const *denials;
};

static const char *const nothing[] = {NULL};

static void add_rule(struct rules *rules, const int *codes, size_t code_count, const char *const *fatal,
                     const char *const *informational) {
  rules->rules[rules->count++] =
      (confine_failure_rule){sizeof(confine_failure_rule), codes, code_count, fatal, informational};
}

static void rules_of(const char *name, struct rules *rules) {
  static const char *const shim[] = {"shim-run: ", "FATAL shim", NULL}, *const exec[] = {"sandbox-exec: ", NULL},
                           *const acl[] = {"windows-acl-run: ", NULL},
                           *const not_permitted[] = {"operation not permitted", NULL},
                           *const access[] = {"access is denied", "access to the path", "permission denied", NULL};
  static const int code_127[] = {127};
  confine_runner id = CONFINE_RUNNER_NONE;
  rules->count = 0;
  assert_int_equal(confine_runner_parse(name, &id), 0);
  const struct confine__runner *runner = confine__runner_find(id);
  if (id == CONFINE_RUNNER_CUSTOM) {
    add_rule(rules, NULL, 0, shim, NULL);
  } else if (id == CONFINE_RUNNER_SEATBELT) {
    add_rule(rules, NULL, 0, exec, nothing);
    rules->denials = not_permitted;
    return;
  } else if (id == CONFINE_RUNNER_WINDOWS_ACL) {
    add_rule(rules, code_127, 1, acl, nothing);
    rules->denials = access;
    return;
  }
  for (size_t i = 0; i < runner->rule_count; i++)
    add_rule(rules, runner->rules[i].exit_codes, runner->rules[i].exit_code_count, runner->rules[i].fatal,
             runner->rules[i].informational);
  rules->denials = runner->denial_signatures;
}

/* In place; returns the number of bytes. */
static size_t unescape(char *text) {
  char *out = text;
  for (const char *c = text; *c; c++) {
    if (*c != '\\') {
      *out++ = *c;
      continue;
    }
    c++;
    if (*c == 'x') {
      char digits[3] = {c[1], c[2], 0}, *end;
      long byte = strtol(digits, &end, 16);
      if (*end) { /* not an escape, as in a Windows path */
        *out++ = '\\';
        *out++ = 'x';
        continue;
      }
      *out++ = (char)byte;
      c += 2;
    } else {
      *out++ = *c == 'n' ? '\n' : *c == 'r' ? '\r' : *c == 't' ? '\t' : *c == '0' ? '\0' : *c;
    }
  }
  return (size_t)(out - text);
}

static void set_records(const char *word, confine_records *records) {
  records->has_status = strcmp(word, "started") == 0 || strcmp(word, "failed") == 0 || strcmp(word, "not-found") == 0;
  records->started = strcmp(word, "started") == 0;
  records->not_found = strcmp(word, "not-found") == 0 ? 127 : 0;
  if (strncmp(word, "observer=", 9) == 0) {
    records->has_status = records->started = records->has_observer = 1;
    records->denials = strtoull(word + 9, NULL, 10);
  }
}

static int split(char *row, char *columns[COLUMNS]) {
  for (int i = 0; i < COLUMNS - 1; i++) {
    int empty = strncmp(row, "| ", 2) == 0;
    char *end = empty ? row : strstr(row, " | ");
    if (!end)
      return 0;
    columns[i] = row;
    row = end + (empty ? 2 : 3);
    *end = '\0';
  }
  columns[COLUMNS - 1] = row;
  return 1;
}

/* Returns 1 if the row's verdict is another. */
static int check_row(char *row, int number) {
  char *columns[COLUMNS];
  struct rules rules;
  confine_records records = CONFINE_RECORDS_INIT;
  confine_outcome outcome = CONFINE_OUTCOME_INIT;
  confine_verdict verdict = CONFINE_VERDICT_INIT;
  if (!split(row, columns))
    fail_msg("row %d has too few columns", number);
  rules_of(columns[0], &rules);
  set_records(columns[3], &records);
  outcome.records = strcmp(columns[3], "-") == 0 ? NULL : &records;
  outcome.signal = strncmp(columns[1], "sig", 3) == 0 ? (int)strtol(columns[1] + 3, NULL, 10) : 0;
  outcome.exit_code = outcome.signal ? -1 : (int)strtol(columns[1], NULL, 10);
  outcome.stderr_length = unescape(columns[2]);
  outcome.stderr_bytes = columns[2];
  assert_int_equal(confine_classify_by_rules(rules.rules, rules.count, rules.denials, &outcome, &verdict), 0);
  const char *kind = confine_verdict_name(verdict.kind), *evidence = confine_evidence_name(verdict.evidence);
  if (strcmp(kind, columns[4]) == 0 && strcmp(evidence, columns[5]) == 0)
    return 0;
  print_error("row %d (%s): %s by %s, expected %s by %s\n", number, columns[6], kind, evidence, columns[4], columns[5]);
  return 1;
}

static void table(void **state) {
  (void)state;
  char row[1024];
  int wrong = 0, rows = 0, number = 0;
  FILE *file = fopen(cases_path, "re");
  assert_non_null(file);
  while (fgets(row, sizeof row, file)) {
    number++;
    row[strcspn(row, "\n")] = '\0';
    if (!*row || *row == '#')
      continue;
    wrong += check_row(row, number);
    rows++;
  }
  fclose(file);
  assert_true(rows >= 60);
  assert_int_equal(wrong, 0);
}

/* The line that decided is pointed at. */
static void says_where(void **state) {
  (void)state;
  static const char text[] = "first\r\nbwrap: no\r\nlast\n";
  struct rules rules;
  confine_outcome outcome = CONFINE_OUTCOME_INIT;
  confine_verdict verdict = CONFINE_VERDICT_INIT;
  rules_of("bwrap", &rules);
  outcome.exit_code = 1;
  outcome.stderr_bytes = text;
  outcome.stderr_length = sizeof text - 1;
  assert_int_equal(confine_classify_by_rules(rules.rules, rules.count, rules.denials, &outcome, &verdict), 0);
  assert_string_equal(verdict.signature, "bwrap: ");
  assert_int_equal(verdict.line_offset, 7);
  assert_int_equal(verdict.line_length, 9);
}

/* Only the last CONFINE_CLASSIFY_MAX bytes count. */
static void is_bounded(void **state) {
  (void)state;
  size_t length = CONFINE_CLASSIFY_MAX + 4096;
  char *text = malloc(length);
  struct rules rules;
  confine_outcome outcome = CONFINE_OUTCOME_INIT;
  confine_verdict verdict = CONFINE_VERDICT_INIT;
  memset(text, 'x', length);
  memcpy(text, "bwrap: early\n", 13);
  rules_of("bwrap", &rules);
  outcome.exit_code = 1;
  outcome.stderr_bytes = text;
  outcome.stderr_length = length;
  assert_int_equal(confine_classify_by_rules(rules.rules, rules.count, rules.denials, &outcome, &verdict), 0);
  assert_int_equal(verdict.kind, CONFINE_VERDICT_COMMAND_FAILED);
  memcpy(text + length - 12, "\nbwrap: late", 12);
  assert_int_equal(confine_classify_by_rules(rules.rules, rules.count, rules.denials, &outcome, &verdict), 0);
  assert_int_equal(verdict.kind, CONFINE_VERDICT_RUNNER_FAILED);
  assert_int_equal(verdict.line_offset, length - 11);
  assert_int_equal(confine_classify_by_rules(rules.rules, 65, rules.denials, &outcome, &verdict), CONFINE_EINVAL);
  free(text);
}

/* A struct of another version of the library is refused, not misread. */
static void sizes_are_checked(void **state) {
  (void)state;
  struct rules rules;
  confine_outcome outcome = CONFINE_OUTCOME_INIT;
  confine_verdict verdict = CONFINE_VERDICT_INIT;
  confine_records records = CONFINE_RECORDS_INIT;
  rules_of("landlock", &rules);
  outcome.size--;
  assert_int_equal(confine_classify_by_rules(rules.rules, 1, rules.denials, &outcome, &verdict), CONFINE_EINVAL);
  outcome.size++;
  verdict.size = 0;
  assert_int_equal(confine_classify_by_rules(rules.rules, 1, rules.denials, &outcome, &verdict), CONFINE_EINVAL);
  verdict.size = sizeof verdict;
  records.size = 1;
  outcome.records = &records;
  assert_int_equal(confine_classify_by_rules(rules.rules, 1, rules.denials, &outcome, &verdict), CONFINE_EINVAL);
  outcome.records = NULL;
  rules.rules[0].size = 0;
  assert_int_equal(confine_classify_by_rules(rules.rules, 1, rules.denials, &outcome, &verdict), CONFINE_EINVAL);
}

static confine_wrapped *wrap(confine_mode mode, const char *workspace) {
  static const char *const command[] = {"/bin/true", NULL}, *const runner[] = {"/bin/sh", NULL},
                           *const signatures[] = {"shim: ", NULL};
  confine_settings settings = CONFINE_SETTINGS_INIT;
  confine_provider *provider;
  confine_policy *policy;
  confine_wrapped *wrapped;
  settings.runner_command = runner;
  settings.runner_failure_signatures = signatures;
  assert_int_equal(confine_provider_new(&settings, &provider, NULL), 0);
  assert_int_equal(confine_policy_new(mode, &policy, NULL), 0);
  assert_int_equal(confine_policy_set_workspace(policy, workspace, NULL), 0);
  assert_int_equal(confine_provider_confine(provider, command, policy, &wrapped, NULL), 0);
  confine_policy_free(policy);
  confine_provider_free(provider);
  return wrapped;
}

static confine_verdict_kind blame(const confine_wrapped *wrapped, int spawn_errno, const char *workdir) {
  confine_verdict verdict = CONFINE_VERDICT_INIT;
  assert_int_equal(confine_classify_spawn_error(wrapped, spawn_errno, workdir, &verdict), 0);
  assert_int_equal(verdict.evidence, CONFINE_EVIDENCE_SPAWN_ERROR);
  return verdict.kind;
}

static void spawn_errors_are_attributed(void **state) {
  (void)state;
  char place[] = "/var/tmp/confine-classify-XXXXXX", missing[64];
  assert_non_null(mkdtemp(place));
  snprintf(missing, sizeof missing, "%s/missing", place);
  confine_wrapped *confined = wrap(CONFINE_MODE_READ_ONLY, place), *open = wrap(CONFINE_MODE_DANGER_FULL_ACCESS, place);
  assert_int_equal(blame(confined, ENOENT, place), CONFINE_VERDICT_RUNNER_FAILED);
  assert_int_equal(blame(confined, EACCES, place), CONFINE_VERDICT_RUNNER_FAILED);
  assert_int_equal(blame(confined, ENOENT, NULL), CONFINE_VERDICT_RUNNER_FAILED);
  assert_int_equal(blame(confined, ENOENT, missing), CONFINE_VERDICT_NOT_STARTED);
  assert_int_equal(blame(confined, EACCES, "/dev/null"), CONFINE_VERDICT_NOT_STARTED);
  assert_int_equal(blame(confined, E2BIG, place), CONFINE_VERDICT_NOT_STARTED);
  assert_int_equal(blame(confined, EAGAIN, place), CONFINE_VERDICT_NOT_STARTED);
  assert_int_equal(blame(open, ENOENT, place), CONFINE_VERDICT_NOT_STARTED);
  confine_wrapped_free(confined);
  confine_wrapped_free(open);
  rmdir(place);
}

/* The rules that a wrapped command carries are the ones it is judged by. */
static void wrapped_commands_are_judged_by_their_rules(void **state) {
  (void)state;
  confine_wrapped *wrapped = wrap(CONFINE_MODE_READ_ONLY, "/usr");
  confine_outcome outcome = CONFINE_OUTCOME_INIT;
  confine_verdict verdict = CONFINE_VERDICT_INIT;
  outcome.exit_code = 3;
  outcome.stderr_bytes = "Shim: broken";
  outcome.stderr_length = 12;
  assert_int_equal(confine_classify(wrapped, &outcome, &verdict), 0);
  assert_int_equal(verdict.kind, CONFINE_VERDICT_RUNNER_FAILED);
  confine_wrapped_free(wrapped);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(table),
      cmocka_unit_test(says_where),
      cmocka_unit_test(is_bounded),
      cmocka_unit_test(sizes_are_checked),
      cmocka_unit_test(spawn_errors_are_attributed),
      cmocka_unit_test(wrapped_commands_are_judged_by_their_rules),
  };
  if (argc != 2)
    return 2;
  cases_path = argv[1];
  return cmocka_run_group_tests_name("classify", tests, NULL, NULL);
}
