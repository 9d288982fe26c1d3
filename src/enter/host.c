#include "enter/plan.h"
#include "enter/sys.h"

#include <linux/capability.h>

/* mount(2) needs CAP_SYS_ADMIN; whoever has it needs no user namespace, in which root would lose its
 * power over other users' files. */
static int may_mount(void) {
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  struct __user_cap_data_struct data[2];
  if (sys(__NR_capget, &header, data) < 0)
    return 0;
  return (data[0].effective & (1u << CAP_SYS_ADMIN)) != 0;
}

void confine__plan_host(struct confine__plan *plan) {
  plan->uid = (uint32_t)sys(__NR_geteuid);
  plan->gid = (uint32_t)sys(__NR_getegid);
  plan->landlock_abi = confine__landlock_abi();
  if ((plan->flags & CONFINE__PLAN_MOUNTS) && !may_mount())
    plan->flags |= CONFINE__PLAN_USERNS;
}
