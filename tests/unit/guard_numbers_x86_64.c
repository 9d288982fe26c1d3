#include "guard_numbers.h"

/* On another machine the header is missing, or names that machine's own numbers. */
#ifdef __x86_64__
#include <asm/unistd_64.h>

const struct guard_number guard_numbers_x86_64[] = {
#include "guard/numbers-x86_64.h"
};

const size_t guard_numbers_x86_64_count = sizeof guard_numbers_x86_64 / sizeof guard_numbers_x86_64[0];
#endif
