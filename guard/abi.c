#include "abi.h"

#include <string.h>

#include <linux/audit.h>
#include <seccomp.h>

/*
 * x32 needs no entry: its numbers arrive under AUDIT_ARCH_X86_64 with bit 30 set, so all are above the
 * newest and get ENOSYS, as from a kernel built without it (the default of the distributions).
 */
const struct guard_arch guard_arches[2] = {
  {
    "x86_64",
    "__x86_64__",
    {"x86_64", AUDIT_ARCH_X86_64, SCMP_ARCH_X86_64, 0, 0},
    {"i386", AUDIT_ARCH_I386, SCMP_ARCH_X86, 0, 0},
  },
  {
    "aarch64",
    "__aarch64__",
    {"aarch64", AUDIT_ARCH_AARCH64, SCMP_ARCH_AARCH64, 0, 0},
    /* ARM's private calls: breakpoint, cacheflush, usr26, usr32, set_tls, get_tls. */
    {"arm", AUDIT_ARCH_ARM, SCMP_ARCH_ARM, 0x0f0001, 0x0f0006},
  },
};

/*
 * Numbers that libseccomp 2.5.4 does not give: calls newer than itself, and those i386 has had directly
 * since Linux 4.3 and 5.1, for which it only has stand-ins that mean socketcall and ipc.
 */
static const struct {
  const char *name;
  int number;
  uint32_t scmp_arch; /* 0: the same number on every ABI */
} own_numbers[] = {
  {"fchmodat2", 452, 0},
  {"setxattrat", 463, 0},
  {"removexattrat", 466, 0},
  {"open_tree_attr", 467, 0},
  {"file_setattr", 469, 0},
  {"socket", 359, SCMP_ARCH_X86},
  {"socketpair", 360, SCMP_ARCH_X86},
  {"bind", 361, SCMP_ARCH_X86},
  {"semget", 393, SCMP_ARCH_X86},
  {"semctl", 394, SCMP_ARCH_X86},
  {"shmget", 395, SCMP_ARCH_X86},
  {"shmctl", 396, SCMP_ARCH_X86},
  {"shmat", 397, SCMP_ARCH_X86},
  {"msgget", 399, SCMP_ARCH_X86},
  {"msgsnd", 400, SCMP_ARCH_X86},
  {"msgrcv", 401, SCMP_ARCH_X86},
  {"msgctl", 402, SCMP_ARCH_X86},
};

int guard_call_number(const struct guard_abi *abi, const char *name) {
  int number = seccomp_syscall_resolve_name_arch(abi->scmp_arch, name);

  for (size_t i = 0; i < sizeof own_numbers / sizeof own_numbers[0]; i++) {
    if (strcmp(own_numbers[i].name, name) != 0 ||
        (own_numbers[i].scmp_arch != 0 && own_numbers[i].scmp_arch != abi->scmp_arch))
      continue;
    if (number >= 0 && number != own_numbers[i].number)
      return -2;
    return own_numbers[i].number;
  }
  if (number >= 0)
    return number;
  /* libseccomp gives a call that only other ABIs have a negative number of its own below -1. */
  return number == __NR_SCMP_ERROR ? -2 : -1;
}
