/*
 * The system call ABIs the guard covers, and the numbers of calls in each.
 */
#ifndef CONFINE_GUARD_ABI_H
#define CONFINE_GUARD_ABI_H

#include <stdint.h>

/*
 * The newest system call known here (rseq_slice_yield, Linux 7.0). Since Linux 5.0 a new call has one
 * number for every ABI. Whatever is above is answered with ENOSYS: a future call may change files in a
 * way no rule names, and programs take ENOSYS as "older kernel".
 */
#define GUARD_NEWEST_CALL 471

struct guard_abi {
  const char *name;
  uint32_t audit_arch;  /* AUDIT_ARCH_..., what the kernel puts in seccomp_data.arch */
  uint32_t scmp_arch;   /* SCMP_ARCH_..., libseccomp's word for it */
  uint32_t extra_first; /* numbers above the newest that are allowed, or 0 and 0 */
  uint32_t extra_last;
};

/* An architecture a filter is made for: what the kernel runs natively, and its 32-bit relative. */
struct guard_arch {
  const char *name; /* part of the array names */
  const char *macro; /* compiler's macro that tells it */
  struct guard_abi native;
  struct guard_abi compat;
};

extern const struct guard_arch guard_arches[2];

/*
 * The number of the call `name` in `abi`, -1 when that ABI does not have it, -2 when the name is known
 * to nobody (or libseccomp and the table here disagree): a mistake in the rules.
 */
int guard_call_number(const struct guard_abi *abi, const char *name);

#endif
