/*
 * The guard's filters, as generated, against guard/rules.c read from top to bottom: for any call of any ABI, in any
 * variant, both must give the same answer. Numbers and arguments are mostly those that rules name, or nearly.
 */
#include "fuzz.h"

#include <errno.h>

#include <linux/audit.h>

#include "guard/abi.h"
#include "guard/rules.h"
#include "tests/unit/guard_run.h"

#define CONFINE__GUARD_EVERY_ARCH
#include "guard/filters.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define X32_BIT 0x40000000U
#define ARGUMENTS 6

int LLVMFuzzerInitialize(int *argc, char ***argv);

static const struct {
  const char *name;
  const struct confine__guard_filter *filters;
  size_t count;
} tables[] = {
  {"x86_64", confine__guard_filters_x86_64, COUNT(confine__guard_filters_x86_64)},
  {"aarch64", confine__guard_filters_aarch64, COUNT(confine__guard_filters_aarch64)},
};

enum { NATIVE, COMPAT, ABIS };
static int numbers[COUNT(tables)][ABIS][GUARD_RULES_MAX];

static const struct guard_abi *abi_of(size_t arch, int abi) {
  return abi == NATIVE ? &guard_arches[arch].native : &guard_arches[arch].compat;
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc;
  (void)argv;
  for (size_t arch = 0; arch < COUNT(tables); arch++) {
    REQUIRE(strcmp(guard_arches[arch].name, tables[arch].name) == 0);
    for (int abi = 0; abi < ABIS; abi++)
      for (size_t i = 0; i < guard_rules_count; i++)
        numbers[arch][abi][i] = guard_call_number(abi_of(arch, abi), guard_rules[i].name);
  }
  return 0;
}

static int holds(const struct guard_test *test, const struct seccomp_data *call) {
  uint32_t argument = (uint32_t)call->args[test->arg];

  switch (test->op) {
  case GUARD_EQUAL: return (argument & test->mask) == test->value;
  case GUARD_DIFFERENT: return (argument & test->mask) != test->value;
  case GUARD_ANY_BIT: return (argument & test->value) != 0;
  case GUARD_NO_BIT: return (argument & test->value) == 0;
  default: return 0;
  }
}

static int decides(const struct guard_rule *rule, const struct seccomp_data *call, unsigned variants) {
  if (rule->variants && !(rule->variants & variants))
    return 0;
  for (size_t i = 0; i < GUARD_TESTS_MAX && rule->tests[i].op != GUARD_NONE; i++)
    if (!holds(&rule->tests[i], call))
      return 0;
  return 1;
}

/* What rules.h, and abi.h of numbers that nobody knows, say in words. */
static uint32_t expected_answer(size_t arch, const struct seccomp_data *call, unsigned variants) {
  int abi = call->arch == guard_arches[arch].native.audit_arch ? NATIVE : COMPAT;
  const struct guard_abi *known = abi_of(arch, abi);
  uint32_t number = (uint32_t)call->nr;

  if (call->arch != known->audit_arch)
    return GUARD_ERRNO(ENOSYS);
  if (number == UINT32_MAX)
    return GUARD_ALLOW;
  if (number > GUARD_NEWEST_CALL)
    return known->extra_last && number >= known->extra_first && number <= known->extra_last ? GUARD_ALLOW
                                                                                           : GUARD_ERRNO(ENOSYS);
  for (size_t i = 0; i < guard_rules_count; i++)
    if (numbers[arch][abi][i] == call->nr && decides(&guard_rules[i], call, variants))
      return guard_rules[i].action;
  return GUARD_ALLOW;
}

static uint32_t take_arch(struct fuzz_input *input, size_t arch) {
  uint8_t kind = fuzz_byte(input);

  if (kind < 120)
    return guard_arches[arch].native.audit_arch;
  if (kind < 240)
    return guard_arches[arch].compat.audit_arch;
  if (kind < 248)
    return guard_arches[1 - arch].native.audit_arch;
  return (uint32_t)fuzz_number(input, 4);
}

static uint32_t take_number(struct fuzz_input *input, size_t arch, uint32_t audit_arch, size_t rule) {
  int abi = audit_arch == guard_arches[arch].native.audit_arch ? NATIVE : COMPAT;
  const struct guard_abi *known = abi_of(arch, abi);
  uint8_t kind = fuzz_byte(input);

  if (kind < 160)
    return (uint32_t)numbers[arch][abi][rule];
  if (kind < 180)
    return (uint32_t)numbers[arch][abi][rule] | X32_BIT;
  if (kind < 220)
    return (uint32_t)fuzz_number(input, 2) % (2 * GUARD_NEWEST_CALL);
  if (kind < 240)
    return known->extra_last - 8 + (uint32_t)fuzz_byte(input) % 16;
  return (uint32_t)fuzz_number(input, 4);
}

/* The value of a test of this argument in a rule not far away, and perhaps other bits. */
static uint64_t take_argument(struct fuzz_input *input, unsigned argument, size_t rule) {
  uint8_t kind = fuzz_byte(input);
  uint64_t value = 0;

  if (kind < 64)
    return fuzz_number(input, 8);
  const struct guard_rule *near = &guard_rules[(rule + kind % 48) % guard_rules_count];
  for (size_t i = 0; i < GUARD_TESTS_MAX; i++)
    if (near->tests[i].op != GUARD_NONE && near->tests[i].arg == argument)
      value = near->tests[i].value;
  if (kind < 128)
    value ^= fuzz_number(input, 8);
  else if (kind < 160)
    value ^= 1ull << fuzz_byte(input) % 64;
  return value;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fuzz_input input = {data, size};
  size_t arch = fuzz_byte(&input) % COUNT(tables);
  const struct confine__guard_filter *filter = &tables[arch].filters[fuzz_byte(&input) % tables[arch].count];
  size_t rule = fuzz_byte(&input) % guard_rules_count;
  struct seccomp_data call = {.arch = take_arch(&input, arch)};
  uint32_t answer = 0;
  unsigned steps = 0;

  call.nr = (int)take_number(&input, arch, call.arch, rule);
  for (unsigned i = 0; i < ARGUMENTS; i++)
    call.args[i] = take_argument(&input, i, rule);
  REQUIRE(guard_run(filter->filter, filter->len, &call, &answer, &steps) == 0);
  REQUIRE(answer == expected_answer(arch, &call, filter->mask));
  return 0;
}
