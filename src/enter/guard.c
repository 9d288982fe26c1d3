#include "enter/plan.h"
#include "enter/sys.h"

#include "guard/filters.h"

#include <linux/seccomp.h>

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5) /* Linux 5.19 */
#endif

static uint32_t filter_mask(const struct confine__plan *plan) {
  uint32_t mask = 0;
  if (plan->flags & CONFINE__PLAN_ISOLATE_IPC)
    mask |= CONFINE__GUARD_IPC;
  /* Without a namespace of its own for them, IPC objects are reachable by number or name. */
  if ((plan->flags & CONFINE__PLAN_ISOLATE_IPC) && !(plan->flags & CONFINE__PLAN_MOUNTS))
    mask |= CONFINE__GUARD_IPC_OBJECTS;
  if ((plan->flags & CONFINE__PLAN_ISOLATE_NETWORK) && !(plan->flags & CONFINE__PLAN_MOUNTS))
    mask |= CONFINE__GUARD_NETWORK;
  if (plan->flags & CONFINE__PLAN_OBSERVE)
    mask |= CONFINE__GUARD_OBSERVE;
  if (plan->flags & CONFINE__PLAN_METADATA)
    mask |= CONFINE__GUARD_METADATA;
  if (plan->flags & CONFINE__PLAN_STREAMS)
    mask |= CONFINE__GUARD_STREAMS;
  return mask;
}

/* seccomp(2), after no_new_privs. The filter comes last: it may trap calls that set-up needs, and no
 * trapped call may be made before the parent is free to answer. */
int confine__enter_guard(struct confine__enter_state *state) {
  const struct confine__plan *plan = state->plan;
  int listening = (plan->flags & (CONFINE__PLAN_METADATA | CONFINE__PLAN_OBSERVE)) != 0;
  const struct confine__guard_filter *filter = confine__guard_find(filter_mask(plan));
  if (!filter)
    return confine__fail(state, CONFINE__STEP_GUARD, -1, -ENOTSUP);
  struct sock_fprog program = {.len = filter->len, .filter = (struct sock_filter *)filter->filter};
  unsigned long flags = listening ? SECCOMP_FILTER_FLAG_NEW_LISTENER : 0;
  unsigned long killable = listening ? SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV : 0;
  long r = sys(__NR_seccomp, SECCOMP_SET_MODE_FILTER, flags | killable, &program);
  if (r == -EINVAL && killable)
    r = sys(__NR_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
  if (r < 0)
    return confine__fail(state, CONFINE__STEP_GUARD, -1, r);
  if (listening)
    state->outcome->listener = (int32_t)r;
  return 0;
}
