/*
 * What the guard decides about each system call, as data.
 *
 * A guard filter never kills: a call is allowed, answered with an errno, or handed to the supervisor
 * (SECCOMP_RET_USER_NOTIF). Rules name system calls; the generator turns names into numbers for each
 * ABI and leaves out names an ABI does not have.
 *
 * Several rules may name one call. They are tried in table order, the first whose tests all hold
 * decides, and a call that no rule decides is allowed.
 */
#ifndef CONFINE_GUARD_RULES_H
#define CONFINE_GUARD_RULES_H

#include <stddef.h>
#include <stdint.h>

#include <linux/seccomp.h>

/*
 * What a variant of the filter covers beside the base rules. The values are part of the generated
 * header (CONFINE__GUARD_...), which documents them for its users.
 */
enum guard_variant {
  GUARD_IPC = 1,
  GUARD_IPC_OBJECTS = 2,
  GUARD_NETWORK = 4,
  GUARD_METADATA = 8,
  GUARD_OBSERVE = 16,
  GUARD_STREAMS = 32,
  GUARD_VARIANTS_END = 64,
};

enum guard_action {
  GUARD_ALLOW = SECCOMP_RET_ALLOW,
  GUARD_NOTIFY = SECCOMP_RET_USER_NOTIF,
};

#define GUARD_ERRNO(number) (SECCOMP_RET_ERRNO | (number))

enum guard_op {
  GUARD_NONE = 0, /* no test: ends the list */
  GUARD_EQUAL,    /* (argument & mask) == value */
  GUARD_DIFFERENT,
  GUARD_ANY_BIT, /* (argument & value) != 0; mask unused */
  GUARD_NO_BIT,
};

/*
 * A test of the low 32 bits of one argument. The high half is never looked at: the kernel declares
 * every argument tested here as a 32-bit type, or cuts it to one (clone), so a comparison of all 64
 * bits would let a request with garbage above bit 31 through while the kernel still acts on it.
 */
struct guard_test {
  enum guard_op op;
  unsigned arg; /* 0 to 5 */
  uint32_t mask;
  uint32_t value;
};

#define GUARD_TESTS_MAX 3

struct guard_rule {
  const char *name;
  unsigned variants; /* in force when the filter has any of these bits; 0: in every filter */
  uint32_t action;
  struct guard_test tests[GUARD_TESTS_MAX];
};

#define GUARD_RULES_MAX 256

extern const struct guard_rule guard_rules[];
extern const size_t guard_rules_count;

#endif
