/*
 * A small assembler for classic BPF, written from the last instruction to the first.
 *
 * Jumps only go forward in classic BPF, so with this order the target of a jump always exists already.
 * A label counts instructions from the end of the program: the last one is 1, and 0 is no label. An
 * instruction equal to one within reach is not written again, which lets branches share their tails.
 *
 * A full program sets `overflow` and further calls have no effect; look once, at the end.
 */
#ifndef CONFINE_GUARD_ASSEMBLE_H
#define CONFINE_GUARD_ASSEMBLE_H

#include <stdbool.h>
#include <stdint.h>

#include <linux/bpf_common.h>
#include <linux/filter.h>

typedef unsigned guard_label;

struct guard_program {
  struct guard_instruction {
    uint16_t code;
    uint32_t k;
    guard_label yes; /* of a jump; of any other instruction the one after it */
    guard_label no;
  } from_end[BPF_MAXINSNS];
  unsigned count;
  bool overflow;
};

/* End with `action`, a SECCOMP_RET_ value. */
guard_label guard_return(struct guard_program *program, uint32_t action);

/* A load or arithmetic instruction, going on at `next`. */
guard_label guard_step(struct guard_program *program, uint16_t code, uint32_t k, guard_label next);

/* A comparison of the accumulator with k: BPF_JEQ, BPF_JGE or BPF_JSET. */
guard_label guard_branch(struct guard_program *program, uint16_t comparison, uint32_t k,
                         guard_label yes, guard_label no);

/*
 * Instruction `index` in the order of execution, beginning at 0, of a program whose first instruction is
 * the last one added.
 */
struct sock_filter guard_instruction_at(const struct guard_program *program, unsigned index);

#endif
