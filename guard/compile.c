#include "compile.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rules.h"

#define CALL_RULES_MAX 64
#define SPANS_MAX 512
/* Up to this many values are compared one by one: a tree would be no shorter. */
#define LINEAR_VALUES 3
#define BLOCK_WEIGHT 16

/* The rules in force for one call, in order. */
struct call_rules {
  const struct guard_rule *rules[CALL_RULES_MAX];
  size_t count;
};

/* Numbers from `first` up to the next span's first that are decided alike. */
struct span {
  uint32_t first;
  guard_label block; /* where arguments are looked at, or 0: */
  uint32_t action;
  uint32_t weight; /* how much a short path to it is worth */
};

struct span_list {
  struct span spans[SPANS_MAX];
  size_t count;
};

static bool is_single_equality(const struct guard_rule *rule) {
  return rule->tests[0].op == GUARD_EQUAL && rule->tests[1].op == GUARD_NONE;
}

static bool in_force(const struct guard_rule *rule, unsigned variants) {
  return rule->variants == 0 || (rule->variants & variants) != 0;
}

static int compare_values(const void *a, const void *b) {
  const struct guard_rule *const *left = a;
  const struct guard_rule *const *right = b;
  uint32_t x = (*left)->tests[0].value;
  uint32_t y = (*right)->tests[0].value;

  return (x > y) - (x < y);
}

static guard_label compile_values(struct guard_program *program, const struct guard_rule **sorted,
                                  size_t count, guard_label otherwise) {
  if (count <= LINEAR_VALUES) {
    guard_label label = otherwise;

    for (size_t i = count; i-- > 0;) {
      guard_label hit = guard_return(program, sorted[i]->action);

      label = guard_branch(program, BPF_JEQ, sorted[i]->tests[0].value, hit, label);
    }
    return label;
  }
  size_t half = count / 2;
  guard_label high = compile_values(program, sorted + half, count - half, otherwise);
  guard_label low = compile_values(program, sorted, half, otherwise);

  return guard_branch(program, BPF_JGE, sorted[half]->tests[0].value, high, low);
}

static guard_label load_argument(struct guard_program *program, const struct guard_test *test,
                                 guard_label next) {
  bool masked = test->op == GUARD_EQUAL || test->op == GUARD_DIFFERENT;
  /* The low half comes first: every architecture here is little-endian. */
  uint32_t offset = (uint32_t)(offsetof(struct seccomp_data, args) + 8 * test->arg);

  if (masked && test->mask != UINT32_MAX)
    next = guard_step(program, BPF_ALU | BPF_AND | BPF_K, test->mask, next);
  return guard_step(program, BPF_LD | BPF_W | BPF_ABS, offset, next);
}

/*
 * The rules rules[first..last], all a single comparison of the same masked argument. Their order does not
 * matter, so they become a tree.
 */
static guard_label compile_run(struct guard_program *program, const struct guard_rule **rules,
                               size_t count, guard_label otherwise) {
  const struct guard_test *test = &rules[0]->tests[0];

  qsort(rules, count, sizeof rules[0], compare_values);
  for (size_t i = 1; i < count; i++) {
    if (rules[i]->tests[0].value == rules[i - 1]->tests[0].value) {
      fprintf(stderr, "guard-gen: %s: two rules for the value %#x\n", rules[i]->name,
              rules[i]->tests[0].value);
      return 0;
    }
  }
  return load_argument(program, test, compile_values(program, rules, count, otherwise));
}

static guard_label compile_conjunction(struct guard_program *program, const struct guard_rule *rule,
                                       guard_label otherwise) {
  guard_label label = guard_return(program, rule->action);
  size_t count = 0;

  while (count < GUARD_TESTS_MAX && rule->tests[count].op != GUARD_NONE)
    count++;
  for (size_t i = count; i-- > 0;) {
    const struct guard_test *test = &rule->tests[i];
    bool bits = test->op == GUARD_ANY_BIT || test->op == GUARD_NO_BIT;
    bool negated = test->op == GUARD_DIFFERENT || test->op == GUARD_NO_BIT;

    label = guard_branch(program, bits ? BPF_JSET : BPF_JEQ, test->value,
                         negated ? otherwise : label, negated ? label : otherwise);
    label = load_argument(program, test, label);
  }
  return label;
}

static guard_label compile_call(struct guard_program *program, struct call_rules *call) {
  guard_label next = guard_return(program, GUARD_ALLOW);
  size_t end = call->count;

  while (end > 0 && next != 0) {
    const struct guard_rule *last = call->rules[end - 1];
    size_t begin = end - 1;

    while (is_single_equality(last) && begin > 0 && is_single_equality(call->rules[begin - 1]) &&
           call->rules[begin - 1]->tests[0].arg == last->tests[0].arg &&
           call->rules[begin - 1]->tests[0].mask == last->tests[0].mask)
      begin--;
    next = is_single_equality(last)
             ? compile_run(program, &call->rules[begin], end - begin, next)
             : compile_conjunction(program, last, next);
    end = begin;
  }
  return next;
}

/* Which rules decide about call `number`. Returns -1 when there are too many. */
static int collect_rules(struct call_rules *call, const int *rule_numbers, int number,
                         unsigned variants) {
  call->count = 0;
  for (size_t i = 0; i < guard_rules_count; i++) {
    if (rule_numbers[i] != number || !in_force(&guard_rules[i], variants))
      continue;
    if (call->count == CALL_RULES_MAX) {
      fprintf(stderr, "guard-gen: %s: more than %d rules\n", guard_rules[i].name, CALL_RULES_MAX);
      return -1;
    }
    call->rules[call->count++] = &guard_rules[i];
    if (guard_rules[i].tests[0].op == GUARD_NONE)
      break;
  }
  return 0;
}

static int add_span(struct span_list *list, uint32_t first, guard_label block, uint32_t action) {
  const struct span *previous = list->count > 0 ? &list->spans[list->count - 1] : NULL;

  if (previous != NULL && previous->block == block && previous->action == action)
    return 0;
  if (list->count == SPANS_MAX) {
    fprintf(stderr, "guard-gen: more than %d spans of numbers\n", SPANS_MAX);
    return -1;
  }
  list->spans[list->count++] = (struct span){first, block, action, 0};
  return 0;
}

static int add_call(struct guard_program *program, struct span_list *list, int number,
                    struct call_rules *call) {
  uint32_t action = GUARD_ALLOW;
  guard_label block = 0;

  if (call->count > 0 && call->rules[0]->tests[0].op == GUARD_NONE) {
    action = call->rules[0]->action;
  } else if (call->count > 0) {
    block = compile_call(program, call);
    if (block == 0)
      return -1;
  }
  return add_span(list, (uint32_t)number, block, action);
}

static int add_numbers_above(struct span_list *list, const struct guard_abi *abi) {
  int error = add_span(list, GUARD_NEWEST_CALL + 1, 0, GUARD_ERRNO(ENOSYS));

  if (abi->extra_last != 0) {
    error |= add_span(list, abi->extra_first, 0, GUARD_ALLOW);
    error |= add_span(list, abi->extra_last + 1, 0, GUARD_ERRNO(ENOSYS));
  }
  /* -1 is how a tracer skips a call; the kernel runs nothing and the tracer's result must stay. */
  return error | add_span(list, UINT32_MAX, 0, GUARD_ALLOW);
}

static bool decided_alike(const struct span *a, const struct span *b) {
  return a->block == b->block && a->action == b->action;
}

static guard_label compile_leaf(struct guard_program *program, const struct span *span) {
  return span->block != 0 ? span->block : guard_return(program, span->action);
}

/*
 * A span counts as many times as it has numbers, since the kernel tries each when it takes the filter;
 * numbers it can not remember as allowed take the path again at each call.
 */
static void weigh(struct span_list *list) {
  for (size_t i = 0; i < list->count; i++) {
    struct span *span = &list->spans[i];

    span->weight = 1;
    if (i + 1 < list->count && span->first <= GUARD_NEWEST_CALL)
      span->weight = list->spans[i + 1].first - span->first;
    if (span->block != 0)
      span->weight += BLOCK_WEIGHT;
  }
}

/* Where to split so that both halves weigh about the same: 1 to count - 1. */
static size_t middle(const struct span *spans, size_t count) {
  uint64_t total = 0;
  uint64_t below = 0;
  size_t split = 1;

  for (size_t i = 0; i < count; i++)
    total += spans[i].weight;
  for (size_t i = 0; i + 1 < count; i++) {
    if (i > 0 && 2 * below + spans[i].weight > total)
      break;
    below += spans[i].weight;
    split = i + 1;
  }
  return split;
}

static guard_label compile_spans(struct guard_program *program, const struct span *spans,
                                 size_t count) {
  if (count == 1)
    return compile_leaf(program, spans);
  if (count == 3 && decided_alike(&spans[0], &spans[2]) &&
      spans[2].first == spans[1].first + 1) {
    guard_label around = compile_leaf(program, &spans[0]);
    guard_label hit = compile_leaf(program, &spans[1]);

    return guard_branch(program, BPF_JEQ, spans[1].first, hit, around);
  }
  size_t half = middle(spans, count);
  guard_label high = compile_spans(program, spans + half, count - half);
  guard_label low = compile_spans(program, spans, half);

  return guard_branch(program, BPF_JGE, spans[half].first, high, low);
}

/* Returns the label of the ABI's first instruction, or 0. */
static guard_label compile_abi(struct guard_program *program, const struct guard_abi *abi,
                               unsigned variants) {
  int rule_numbers[GUARD_RULES_MAX];
  struct span_list list = {.count = 0};
  struct call_rules call;

  for (size_t i = 0; i < guard_rules_count; i++) {
    rule_numbers[i] = guard_call_number(abi, guard_rules[i].name);
    if (rule_numbers[i] == -2 || rule_numbers[i] > GUARD_NEWEST_CALL) {
      fprintf(stderr, "guard-gen: no usable number for %s on %s\n", guard_rules[i].name, abi->name);
      return 0;
    }
  }
  for (int number = 0; number <= GUARD_NEWEST_CALL; number++) {
    if (collect_rules(&call, rule_numbers, number, variants) != 0 ||
        add_call(program, &list, number, &call) != 0)
      return 0;
  }
  if (add_numbers_above(&list, abi) != 0)
    return 0;
  weigh(&list);
  return guard_step(program, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr),
                    compile_spans(program, list.spans, list.count));
}

int guard_compile(struct guard_program *program, const struct guard_arch *arch, unsigned variants) {
  program->count = 0;
  program->overflow = false;

  guard_label compat = compile_abi(program, &arch->compat, variants);
  if (compat == 0)
    return -1;
  /*
   * A filter that looks at an argument ends the kernel's trial of a number at once. For the numbers of
   * the other ABI, hardly ever used, that saves more at each installation than it costs their callers.
   */
  guard_label stranger = guard_return(program, GUARD_ERRNO(ENOSYS));
  guard_label other = guard_branch(program, BPF_JEQ, arch->compat.audit_arch, compat, stranger);
  other = guard_step(program, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch), other);
  other = guard_step(program, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args), other);
  guard_label native = compile_abi(program, &arch->native, variants);
  if (native == 0)
    return -1;

  guard_label first = guard_branch(program, BPF_JEQ, arch->native.audit_arch, native, other);

  guard_step(program, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch), first);
  if (program->overflow) {
    fprintf(stderr, "guard-gen: filter for %s longer than %d instructions\n", arch->name,
            BPF_MAXINSNS);
    return -1;
  }
  return 0;
}
