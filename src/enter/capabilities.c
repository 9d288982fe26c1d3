#include "enter/plan.h"
#include "enter/sys.h"

#include <linux/capability.h>

/* What ordinary work as uid 0 needs (git, npm, tar -p, cp -a, set-id bits, services on low ports). None
 * of them re-opens a read-only mount, reaches another process's memory or touches a device. */
#define KEPT \
  ((1ull << CAP_CHOWN) | (1ull << CAP_DAC_OVERRIDE) | (1ull << CAP_FOWNER) | (1ull << CAP_FSETID) | \
   (1ull << CAP_KILL) | (1ull << CAP_SETGID) | (1ull << CAP_SETUID) | (1ull << CAP_NET_BIND_SERVICE))

/*
 * Drops every other capability. Not from the bounding set, at a system call each: no_new_privs already
 * keeps execve(2), as uid 0 too, from giving any back (capabilities(7), security/commoncap.c), and the
 * escape suite tries.
 */
int confine__enter_capabilities(struct confine__enter_state *state) {
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  struct __user_cap_data_struct data[2];
  long r = sys(__NR_capget, &header, data);
  if (r < 0)
    return confine__fail(state, CONFINE__STEP_CAPABILITIES, -1, r);
  uint64_t permitted = data[0].permitted | (uint64_t)data[1].permitted << 32;
  uint64_t kept = state->plan->uid == 0 ? permitted & KEPT : 0;
  if (!permitted)
    return 0; /* then the ambient set is empty too */
  for (int i = 0; i < 2; i++) {
    data[i].effective = data[i].permitted = (uint32_t)(kept >> (32 * i));
    data[i].inheritable = 0;
  }
  r = sys(__NR_capset, &header, data); /* which takes what is lost from the ambient set as well */
  return r < 0 ? confine__fail(state, CONFINE__STEP_CAPABILITIES, -1, r) : 0;
}
