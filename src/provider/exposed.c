#include "provider/internal.h"

const char *confine__runner_exposed(const struct confine__snapshot *snapshot, confine_runner runner,
                                    const confine_policy *policy) {
  const struct confine__guarded *programs = NULL;
  size_t count = 1;
  switch (runner) {
  case CONFINE_RUNNER_NAMESPACE:
    programs = &snapshot->namespace_run;
    break;
  case CONFINE_RUNNER_BWRAP: /* landlock-run is bound read-only over itself */
    programs = &snapshot->bwrap;
    break;
  case CONFINE_RUNNER_LANDLOCK:
    programs = &snapshot->landlock_run;
    break;
  case CONFINE_RUNNER_CUSTOM:
    programs = snapshot->custom;
    count = snapshot->custom_count;
    break;
  default:
    return NULL;
  }
  for (size_t i = 0; i < count; i++)
    if (programs[i].path &&
        confine__guarded_reached(&programs[i], policy, confine__leaves_host_tmp(runner)))
      return programs[i].path;
  return NULL;
}

int confine__leaves_host_tmp(confine_runner runner) {
  return runner == CONFINE_RUNNER_LANDLOCK;
}
