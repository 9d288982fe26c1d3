#include "guard_numbers.h"

/*
 * arm64 takes its numbers from the generic table with these parts switched on. No other header may come
 * before, or this machine's own names would be compared.
 */
#define __ARCH_WANT_RENAMEAT
#define __ARCH_WANT_NEW_STAT
#define __ARCH_WANT_SET_GET_RLIMIT
#define __ARCH_WANT_TIME32_SYSCALLS
#define __ARCH_WANT_SYS_CLONE3
#define __ARCH_WANT_MEMFD_SECRET
#include <asm-generic/unistd.h>

const struct guard_number guard_numbers_aarch64[] = {
#include "guard/numbers-aarch64.h"
};

const size_t guard_numbers_aarch64_count =
  sizeof guard_numbers_aarch64 / sizeof guard_numbers_aarch64[0];
