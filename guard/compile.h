/*
 * From rules to a program: per ABI a balanced search tree over call numbers whose leaves return, or
 * look at arguments first. The kernel runs a filter once for each number when it is installed, to learn
 * which are always allowed, and skips the filter for those; short paths that only look at the number
 * keep both that and the calls it cannot skip cheap.
 */
#ifndef CONFINE_GUARD_COMPILE_H
#define CONFINE_GUARD_COMPILE_H

#include "abi.h"
#include "assemble.h"

/*
 * Write the filter of `arch` for the variant bits `variants` into `program`. Returns 0, or -1 after
 * saying on stderr what is wrong with the rules.
 */
int guard_compile(struct guard_program *program, const struct guard_arch *arch, unsigned variants);

#endif
