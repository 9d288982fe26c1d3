/*
 * The guard's call numbers beside those of the kernel's headers, one table per ABI. Each table needs a
 * file of its own, since the headers define the same names for every ABI.
 */
#ifndef CONFINE_TESTS_GUARD_NUMBERS_H
#define CONFINE_TESTS_GUARD_NUMBERS_H

#include <stddef.h>

struct guard_number {
  const char *name;
  int ours;   /* -1: this ABI has no such call */
  int header; /* -1: this header does not name it */
};

extern const struct guard_number guard_numbers_x86_64[];
extern const size_t guard_numbers_x86_64_count;
extern const struct guard_number guard_numbers_i386[];
extern const size_t guard_numbers_i386_count;
extern const struct guard_number guard_numbers_aarch64[];
extern const size_t guard_numbers_aarch64_count;

#endif
