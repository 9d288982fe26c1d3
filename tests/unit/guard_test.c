/*
 * The guard's generated filters, run by a small interpreter against guard_cases.txt (first argument), and
 * their call numbers compared with the kernel's headers.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <linux/audit.h>
#include <linux/seccomp.h>

#define CONFINE__GUARD_EVERY_ARCH
#include "guard/filters.h"

#include "guard_numbers.h"
#include "guard_run.h"

#define CASES_MIN 150
#define LINE_MAX_BYTES 256
#define X32_BIT 0x40000000U
#define ERRNO_OF(error) (SECCOMP_RET_ERRNO | (uint32_t)(error))
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static const char *cases_path;

struct table {
  const char *name;
  const struct confine__guard_filter *filters;
  size_t count;
};

static const struct table x86_64 = {"x86_64", confine__guard_filters_x86_64,
                                    COUNT(confine__guard_filters_x86_64)};
static const struct table aarch64 = {"aarch64", confine__guard_filters_aarch64,
                                     COUNT(confine__guard_filters_aarch64)};

static const struct {
  const char *name;
  const struct table *table;
  uint32_t audit_arch;
  uint32_t number_bits;
} abis[] = {
  {"x86_64", &x86_64, AUDIT_ARCH_X86_64, 0},  {"x32", &x86_64, AUDIT_ARCH_X86_64, X32_BIT},
  {"i386", &x86_64, AUDIT_ARCH_I386, 0},      {"aarch64", &aarch64, AUDIT_ARCH_AARCH64, 0},
  {"arm", &aarch64, AUDIT_ARCH_ARM, 0},       {"alien", &x86_64, AUDIT_ARCH_S390X, 0},
};

static const struct {
  const char *name;
  unsigned bit;
} variants[] = {
  {"ipc", CONFINE__GUARD_IPC},           {"objects", CONFINE__GUARD_IPC_OBJECTS},
  {"network", CONFINE__GUARD_NETWORK},   {"metadata", CONFINE__GUARD_METADATA},
  {"observe", CONFINE__GUARD_OBSERVE},
  {"streams", CONFINE__GUARD_STREAMS},
};

static const struct {
  const char *name;
  uint32_t action;
} answers[] = {
  {"allow", SECCOMP_RET_ALLOW}, {"notify", SECCOMP_RET_USER_NOTIF}, {"EPERM", ERRNO_OF(EPERM)},
  {"EACCES", ERRNO_OF(EACCES)}, {"ENOSYS", ERRNO_OF(ENOSYS)}, {"EOPNOTSUPP", ERRNO_OF(EOPNOTSUPP)},
};

struct guard_case {
  const struct table *table;
  unsigned mask;
  uint32_t answer;
  struct seccomp_data call;
};

static uint32_t run_filter(const struct confine__guard_filter *filter,
                           const struct seccomp_data *call, unsigned *steps) {
  uint32_t answer;

  if (guard_run(filter->filter, filter->len, call, &answer, steps) != 0)
    fail_msg("filter %u is not one that the kernel takes", filter->mask);
  return answer;
}

static const struct confine__guard_filter *find(const struct table *table, unsigned mask) {
  for (size_t i = 0; i < table->count; i++) {
    if (table->filters[i].mask == mask)
      return &table->filters[i];
  }
  fail_msg("no %s filter for %u", table->name, mask);
  return NULL;
}

static int parse_abi(struct guard_case *parsed, const char *name) {
  for (size_t i = 0; i < COUNT(abis); i++) {
    if (strcmp(abis[i].name, name) == 0) {
      parsed->table = abis[i].table;
      parsed->call.arch = abis[i].audit_arch;
      parsed->call.nr = (int)abis[i].number_bits;
      return 0;
    }
  }
  return -1;
}

static int parse_variants(struct guard_case *parsed, char *list) {
  char *rest = NULL;

  if (strcmp(list, "-") == 0)
    return 0;
  for (char *word = strtok_r(list, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
    size_t i = 0;

    while (i < COUNT(variants) && strcmp(variants[i].name, word) != 0)
      i++;
    if (i == COUNT(variants))
      return -1;
    parsed->mask |= variants[i].bit;
  }
  return 0;
}

static int parse_answer(struct guard_case *parsed, const char *name) {
  for (size_t i = 0; i < COUNT(answers); i++) {
    if (strcmp(answers[i].name, name) == 0) {
      parsed->answer = answers[i].action;
      return 0;
    }
  }
  return -1;
}

static int parse_number(uint64_t *number, const char *word) {
  char *end;

  errno = 0;
  *number = strtoull(word, &end, 0);
  return errno != 0 || end == word || *end != '\0' ? -1 : 0;
}

static int parse_case(struct guard_case *parsed, char *line) {
  char *rest = NULL;
  char *words[4];
  uint64_t number;

  memset(parsed, 0, sizeof *parsed);
  for (size_t i = 0; i < COUNT(words); i++) {
    words[i] = strtok_r(i == 0 ? line : NULL, " \t\n", &rest);
    if (words[i] == NULL)
      return -1;
  }
  if (parse_abi(parsed, words[0]) != 0 || parse_variants(parsed, words[1]) != 0 ||
      parse_number(&number, words[2]) != 0 || parse_answer(parsed, words[3]) != 0)
    return -1;
  parsed->call.nr |= (int)(uint32_t)number;
  for (size_t i = 0; i < 6; i++) {
    char *word = strtok_r(NULL, " \t\n", &rest);

    if (word == NULL)
      break;
    if (parse_number(&number, word) != 0)
      return -1;
    parsed->call.args[i] = number;
  }
  return strtok_r(NULL, " \t\n", &rest) == NULL ? 0 : -1;
}

static void cases_hold(void **state) {
  (void)state;
  FILE *file = fopen(cases_path, "re");
  char line[LINE_MAX_BYTES];
  unsigned number = 0;
  unsigned cases = 0;
  unsigned wrong = 0;

  if (file == NULL)
    fail_msg("%s: %s", cases_path, strerrordesc_np(errno));
  while (fgets(line, sizeof line, file) != NULL) {
    struct guard_case parsed;
    unsigned steps = 0;

    number++;
    if (line[0] == '#' || line[0] == '\n')
      continue;
    if (parse_case(&parsed, line) != 0)
      fail_msg("%s:%u: not a case", cases_path, number);
    uint32_t answer = run_filter(find(parsed.table, parsed.mask), &parsed.call, &steps);
    if (answer != parsed.answer) {
      print_error("%s:%u: answered %#x, not %#x\n", cases_path, number, answer, parsed.answer);
      wrong++;
    }
    cases++;
  }
  fclose(file);
  print_message("# %u cases\n", cases);
  assert_int_equal(wrong, 0);
  assert_true(cases >= CASES_MIN);
}

/* A variant may only add to the base: what the base refuses, every variant refuses the same way. */
static void variants_only_add(void **state) {
  (void)state;
  static const uint64_t requests[] = {0, 0x5401, 0x5412, 0x541c, 0x400, 0x10000011, 0x40086602};

  for (size_t a = 0; a < COUNT(abis); a++) {
    const struct confine__guard_filter *base = find(abis[a].table, 0);

    for (uint32_t nr = 0; nr < 600; nr++) {
      for (size_t r = 0; r < COUNT(requests); r++) {
        struct seccomp_data call = {
          (int)(nr | abis[a].number_bits),
          abis[a].audit_arch,
          0,
          {requests[r], requests[r], 0x6000, 0, 0, 0},
        };
        unsigned steps = 0;
        uint32_t expected = run_filter(base, &call, &steps);

        for (size_t v = 0; expected != SECCOMP_RET_ALLOW && v < abis[a].table->count; v++)
          assert_int_equal(run_filter(&abis[a].table->filters[v], &call, &steps), expected);
      }
    }
  }
}

static void paths_are_short(void **state) {
  (void)state;
  unsigned longest = 0;

  for (size_t a = 0; a < COUNT(abis); a++) {
    for (size_t v = 0; v < abis[a].table->count; v++) {
      const struct confine__guard_filter *filter = &abis[a].table->filters[v];

      for (uint32_t nr = 0; nr < 600; nr++) {
        struct seccomp_data call = {(int)nr, abis[a].audit_arch, 0, {0}};
        unsigned steps = 0;

        run_filter(filter, &call, &steps);
        longest = steps > longest ? steps : longest;
      }
    }
  }
  print_message("# longest path %u instructions\n", longest);
  assert_true(longest <= 32);
}

static void lookup_is_exact(void **state) {
  (void)state;
  unsigned both = CONFINE__GUARD_METADATA | CONFINE__GUARD_OBSERVE;

  assert_non_null(confine__guard_find(0));
  assert_int_equal(confine__guard_find(both)->mask, CONFINE__GUARD_OBSERVE);
  assert_int_equal(confine__guard_find(CONFINE__GUARD_IPC)->mask, CONFINE__GUARD_IPC);
  assert_null(confine__guard_find(CONFINE__GUARD_IPC_OBJECTS));
  assert_null(confine__guard_find(32));
}

static void check_numbers(const char *abi, const struct guard_number *numbers, size_t count) {
  unsigned compared = 0;
  unsigned newer = 0;
  unsigned absent = 0;

  for (size_t i = 0; i < count; i++) {
    if (numbers[i].header >= 0) {
      if (numbers[i].ours != numbers[i].header)
        fail_msg("%s %s: %d here, %d in the header", abi, numbers[i].name, numbers[i].ours,
                 numbers[i].header);
      compared++;
    } else if (numbers[i].ours >= 0) {
      newer++;
    } else {
      absent++;
    }
  }
  print_message("# %s: %u numbers equal, %u not in the header, %u not in this ABI\n", abi, compared,
                newer, absent);
  assert_true(compared > count / 2);
}

static void numbers_match_headers(void **state) {
  (void)state;
#ifdef __x86_64__
  check_numbers("x86_64", guard_numbers_x86_64, guard_numbers_x86_64_count);
  check_numbers("i386", guard_numbers_i386, guard_numbers_i386_count);
#endif
  check_numbers("aarch64", guard_numbers_aarch64, guard_numbers_aarch64_count);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(cases_hold),      cmocka_unit_test(variants_only_add),
    cmocka_unit_test(paths_are_short), cmocka_unit_test(lookup_is_exact),
    cmocka_unit_test(numbers_match_headers),
  };

  if (argc != 2) {
    fprintf(stderr, "usage: guard_test CASES\n");
    return 2;
  }
  cases_path = argv[1];
  return cmocka_run_group_tests(tests, NULL, NULL);
}
