#include "enter/plan.h"
#include "enter/sys.h"

#include <linux/capability.h>
#include <sys/prctl.h>

/* What ordinary work as uid 0 needs (git, npm, tar -p, cp -a, set-id bits, services on low ports). None
 * of them re-opens a read-only mount, reaches another process's memory or touches a device. */
#define KEPT \
  ((1ull << CAP_CHOWN) | (1ull << CAP_DAC_OVERRIDE) | (1ull << CAP_FOWNER) | (1ull << CAP_FSETID) | \
   (1ull << CAP_KILL) | (1ull << CAP_SETGID) | (1ull << CAP_SETUID) | (1ull << CAP_NET_BIND_SERVICE))

/* The kernel knows at most 64 capabilities (capget(2), version 3). */
#define CAPABILITY_LIMIT 64

/*
 * Drops every other capability from the bounding, ambient, inheritable, permitted and effective sets.
 * The bounding set counts because execve(2) as uid 0 would give it back.
 */
int confine__enter_capabilities(struct confine__enter_state *state) {
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  struct __user_cap_data_struct data[2];
  long r = sys(__NR_capget, &header, data);
  if (r < 0)
    return confine__fail(state, CONFINE__STEP_CAPABILITIES, -1, r);
  uint64_t permitted = data[0].permitted | (uint64_t)data[1].permitted << 32;
  uint64_t kept = state->plan->uid == 0 ? permitted & KEPT : 0;
  if (permitted & (1ull << CAP_SETPCAP)) {
    for (int capability = 0; capability < CAPABILITY_LIMIT; capability++) {
      if (kept & (1ull << capability))
        continue;
      r = sys(__NR_prctl, PR_CAPBSET_DROP, capability, 0, 0, 0);
      if (r == -EINVAL)
        break; /* past the last one this kernel has */
      if (r < 0)
        return confine__fail(state, CONFINE__STEP_CAPABILITIES, -1, r);
    }
  }
  r = sys(__NR_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  for (int i = 0; r == 0 && i < 2; i++) {
    data[i].effective = data[i].permitted = (uint32_t)(kept >> (32 * i));
    data[i].inheritable = 0;
  }
  if (r == 0 && permitted)
    r = sys(__NR_capset, &header, data);
  return r < 0 ? confine__fail(state, CONFINE__STEP_CAPABILITIES, -1, r) : 0;
}
