#include "assemble.h"

/*
 * A conditional jump skips at most 255 instructions. A little less is used, since bringing one target
 * within reach may add an instruction that moves the other target away.
 */
#define REACH 250

static bool falls_through(uint16_t code) {
  return BPF_CLASS(code) != BPF_JMP && BPF_CLASS(code) != BPF_RET;
}

static guard_label append(struct guard_program *program, struct guard_instruction instruction) {
  if (program->count == BPF_MAXINSNS) {
    program->overflow = true;
    return program->count;
  }
  program->from_end[program->count++] = instruction;
  return program->count;
}

static guard_label find_near(const struct guard_program *program,
                             const struct guard_instruction *wanted) {
  for (guard_label label = program->count; label > 0 && program->count - label < REACH; label--) {
    const struct guard_instruction *have = &program->from_end[label - 1];

    if (have->code == wanted->code && have->k == wanted->k && have->yes == wanted->yes &&
        have->no == wanted->no)
      return label;
  }
  return 0;
}

static guard_label find_or_append(struct guard_program *program,
                                  struct guard_instruction instruction) {
  guard_label label = find_near(program, &instruction);

  return label != 0 ? label : append(program, instruction);
}

static guard_label jump_to(struct guard_program *program, guard_label target) {
  struct guard_instruction jump = {BPF_JMP | BPF_JA, 0, target, 0};

  return find_or_append(program, jump);
}

/* `target` itself, or something near the top that does the same. */
static guard_label within_reach(struct guard_program *program, guard_label target) {
  if (target == 0 || program->count - target < REACH)
    return target;
  if (BPF_CLASS(program->from_end[target - 1].code) == BPF_RET)
    return guard_return(program, program->from_end[target - 1].k);
  return jump_to(program, target);
}

guard_label guard_return(struct guard_program *program, uint32_t action) {
  struct guard_instruction end = {BPF_RET | BPF_K, action, 0, 0};

  return find_or_append(program, end);
}

guard_label guard_step(struct guard_program *program, uint16_t code, uint32_t k, guard_label next) {
  struct guard_instruction step = {code, k, next, 0};
  guard_label have = find_near(program, &step);

  if (have != 0)
    return have;
  if (next != program->count) {
    struct guard_instruction jump = {BPF_JMP | BPF_JA, 0, next, 0};

    step.yes = append(program, jump);
  }
  return append(program, step);
}

guard_label guard_branch(struct guard_program *program, uint16_t comparison, uint32_t k,
                         guard_label yes, guard_label no) {
  struct guard_instruction branch = {BPF_JMP | BPF_K | comparison, k, 0, 0};

  branch.yes = within_reach(program, yes);
  branch.no = within_reach(program, no);
  if (branch.yes == branch.no)
    return branch.yes;
  return find_or_append(program, branch);
}

struct sock_filter guard_instruction_at(const struct guard_program *program, unsigned index) {
  guard_label label = program->count - index;
  const struct guard_instruction *from = &program->from_end[label - 1];
  struct sock_filter to = {from->code, 0, 0, from->k};

  if (falls_through(from->code) || BPF_CLASS(from->code) == BPF_RET)
    return to;
  if (BPF_OP(from->code) == BPF_JA) {
    to.k = label - from->yes - 1;
  } else {
    to.jt = (uint8_t)(label - from->yes - 1);
    to.jf = (uint8_t)(label - from->no - 1);
  }
  return to;
}
