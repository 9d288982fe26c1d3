#include "guard_numbers.h"

/* On another machine the header is missing, or names that machine's own numbers. */
#ifdef __x86_64__
#include <asm/unistd_32.h>

const struct guard_number guard_numbers_i386[] = {
#include "guard/numbers-i386.h"
};

const size_t guard_numbers_i386_count = sizeof guard_numbers_i386 / sizeof guard_numbers_i386[0];
#endif
