#include "policy/policy.h"
#include "base/error.h"

#include <stdlib.h>
#include <string.h>

static const char *const mode_names[] = {
    [CONFINE_MODE_READ_ONLY] = "read-only",
    [CONFINE_MODE_WORKSPACE_WRITE] = "workspace-write",
    [CONFINE_MODE_DANGER_FULL_ACCESS] = "danger-full-access",
};
#define MODES ((int)(sizeof mode_names / sizeof mode_names[0]))

const char *confine_mode_name(confine_mode mode) {
  return (int)mode > 0 && (int)mode < MODES ? mode_names[mode] : NULL;
}

int confine_mode_parse(const char *word, confine_mode *ret_mode) {
  for (int i = 1; i < MODES; i++)
    if (strcmp(mode_names[i], word) == 0) {
      *ret_mode = (confine_mode)i;
      return 0;
    }
  return CONFINE_EINVAL;
}

int confine_policy_new(confine_mode mode, confine_policy **ret_policy, confine_error *error) {
  if (!confine_mode_name(mode))
    return confine__error(error, CONFINE_EINVAL, "mode %d is none of read-only, workspace-write, danger-full-access",
                          (int)mode);
  confine_policy *policy = calloc(1, sizeof *policy);
  if (!policy)
    return confine__error_memory(error);
  policy->mode = mode;
  *ret_policy = policy;
  return 0;
}

void confine_policy_free(confine_policy *policy) {
  if (!policy)
    return;
  confine__path_release(&policy->workspace);
  for (size_t i = 0; i < policy->writable_count; i++)
    confine__path_release(&policy->writable[i]);
  free(policy->writable);
  confine__policy_unguard(policy);
  free(policy);
}

int confine_policy_set_workspace(confine_policy *policy, const char *path, confine_error *error) {
  struct confine__held_path held;
  if (policy->workspace.path)
    return confine__error(error, CONFINE_EINVAL, "the policy has a workspace already: %s", policy->workspace.path);
  int r = confine__path_hold(path, "workspace", &held, error);
  if (r < 0)
    return r;
  r = confine__path_check_workspace(&held, error);
  if (r < 0) {
    confine__path_release(&held);
    return r;
  }
  policy->workspace = held;
  return 0;
}

int confine_policy_add_writable(confine_policy *policy, const char *path, confine_error *error) {
  struct confine__held_path held;
  if (!path)
    return confine__error(error, CONFINE_EINVAL, "a writable root needs a path");
  if (policy->writable_count + 1 >= CONFINE_ROOTS_MAX)
    return confine__error(error, CONFINE_ELIMIT, "writable root %s: more than %d roots", path, CONFINE_ROOTS_MAX);
  int r = confine__path_hold(path, "writable root", &held, error);
  if (r < 0)
    return r;
  r = confine__path_check_root(&held, error);
  struct confine__held_path *grown =
      r < 0 ? NULL : realloc(policy->writable, (policy->writable_count + 1) * sizeof *grown);
  if (!grown) {
    confine__path_release(&held);
    return r < 0 ? r : confine__error_memory(error);
  }
  policy->writable = grown;
  policy->writable[policy->writable_count++] = held;
  return 0;
}

int confine_policy_set_isolation(confine_policy *policy, uint32_t isolation, confine_error *error) {
  uint32_t known = CONFINE_ISOLATE_NETWORK | CONFINE_ISOLATE_PROCESS | CONFINE_ISOLATE_IPC;
  if (isolation & ~known)
    return confine__error(error, CONFINE_EINVAL, "unknown isolation bits 0x%x", (unsigned)(isolation & ~known));
  policy->isolation = isolation;
  return 0;
}

confine_mode confine_policy_mode(const confine_policy *policy) {
  return policy->mode;
}

uint32_t confine_policy_isolation(const confine_policy *policy) {
  return policy->isolation;
}

const char *confine_policy_workspace(const confine_policy *policy) {
  return policy->workspace.path;
}

const struct confine__held_path *confine__policy_root(const confine_policy *policy, size_t index) {
  if (policy->mode != CONFINE_MODE_WORKSPACE_WRITE || !policy->workspace.path)
    return NULL;
  if (index == 0)
    return &policy->workspace;
  return index <= policy->writable_count ? &policy->writable[index - 1] : NULL;
}

size_t confine_policy_root_count(const confine_policy *policy) {
  return confine__policy_root(policy, 0) ? policy->writable_count + 1 : 0;
}

const char *confine_policy_root(const confine_policy *policy, size_t index) {
  const struct confine__held_path *root = confine__policy_root(policy, index);
  return root ? root->path : NULL;
}
