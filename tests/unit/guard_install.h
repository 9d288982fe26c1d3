/*
 * Put the calling process, and what it starts, under a generated guard filter. For tests.
 */
#ifndef CONFINE_TESTS_GUARD_INSTALL_H
#define CONFINE_TESTS_GUARD_INSTALL_H

#include <errno.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/seccomp.h>

#include "guard/filters.h"

/*
 * `mask` as for confine__guard_find(), `flags` SECCOMP_FILTER_FLAG_ bits. Returns 0, with
 * SECCOMP_FILTER_FLAG_NEW_LISTENER the listener (close-on-exec), or a negative errno.
 */
static inline int guard_install(unsigned mask, unsigned flags) {
  const struct confine__guard_filter *guard = confine__guard_find(mask);

  if (guard == 0)
    return -EINVAL;
  struct sock_fprog program = {guard->len, (struct sock_filter *)guard->filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    return -errno;
  long result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
  return result < 0 ? -errno : (int)result;
}

#endif
