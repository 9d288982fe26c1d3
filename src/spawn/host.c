#include "spawn/host.h"
#include "enter/plan.h"

void confine__abilities(struct confine__abilities *ret_abilities) {
  struct confine__plan plan = {.flags = CONFINE__PLAN_MOUNTS};
  confine__plan_host(&plan);
  ret_abilities->supervisor = confine__listener_available();
  ret_abilities->landlock_abi = plan.landlock_abi;
  ret_abilities->mounts_without_userns = !(plan.flags & CONFINE__PLAN_USERNS);
}
