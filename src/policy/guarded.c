#include "policy/guarded.h"
#include "base/error.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int note_chain(struct confine__guarded *guarded) {
  char above[PATH_MAX];
  size_t length = strlen(guarded->path), parts = 1;
  for (const char *c = guarded->path; *c; c++)
    parts += *c == '/';
  if (length >= sizeof above)
    return -ENAMETOOLONG;
  guarded->chain = calloc(parts, sizeof *guarded->chain);
  if (!guarded->chain)
    return -ENOMEM;
  memcpy(above, guarded->path, length + 1);
  while (guarded->chain_length < parts) {
    struct stat st;
    if (stat(*above ? above : "/", &st) != 0)
      return -errno;
    guarded->chain[guarded->chain_length++] = (struct confine__identity){st.st_dev, st.st_ino};
    char *slash = strrchr(above, '/');
    if (!slash)
      break;
    *slash = '\0';
  }
  return 0;
}

int confine__guarded_init(struct confine__guarded *guarded, const char *path) {
  memset(guarded, 0, sizeof *guarded);
  int r = 0;
  guarded->path = realpath(path, NULL);
  if (!guarded->path) {
    r = -errno;
    guarded->path = r == -ENOMEM ? NULL : strdup(path);
    if (!guarded->path)
      r = -ENOMEM;
  }
  if (r == 0)
    r = note_chain(guarded);
  if (r == -ENOMEM)
    confine__guarded_release(guarded);
  return r;
}

void confine__guarded_release(struct confine__guarded *guarded) {
  free(guarded->path);
  free(guarded->chain);
  memset(guarded, 0, sizeof *guarded);
}

static int lies_in(const char *path, const char *directory) {
  size_t n = strlen(directory);
  return strncmp(path, directory, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

static int is_beneath(const struct confine__guarded *guarded, const struct confine__held_path *root) {
  if (lies_in(guarded->path, root->path))
    return 1;
  for (size_t i = 0; i < guarded->chain_length; i++)
    if (guarded->chain[i].device == root->device && guarded->chain[i].inode == root->inode)
      return 1;
  return 0;
}

int confine__guarded_reached(const struct confine__guarded *guarded, const confine_policy *policy, int host_tmp) {
  const struct confine__held_path *root;
  if (policy->mode != CONFINE_MODE_WORKSPACE_WRITE)
    return 0;
  if (host_tmp && lies_in(guarded->path, "/tmp"))
    return 1;
  for (size_t i = 0; (root = confine__policy_root(policy, i)) != NULL; i++)
    if (is_beneath(guarded, root))
      return 1;
  return 0;
}

int confine_policy_protect(confine_policy *policy, const char *path, confine_error *error) {
  if (policy->guarded_count == CONFINE_PROTECTED_MAX)
    return confine__error(error, CONFINE_ELIMIT, "%s: more than %d protected files", path, CONFINE_PROTECTED_MAX);
  struct confine__guarded *grown = realloc(policy->guarded, (policy->guarded_count + 1) * sizeof *grown);
  if (!grown)
    return confine__error_memory(error);
  policy->guarded = grown;
  int r = confine__guarded_init(&grown[policy->guarded_count], path);
  if (r == -ENOMEM)
    return confine__error_memory(error);
  if (r < 0) {
    confine__guarded_release(&grown[policy->guarded_count]);
    return confine__error_errno(error, CONFINE_EPATH, -r, "protected file %s", path);
  }
  policy->guarded_count++;
  return 0;
}

void confine__policy_unguard(confine_policy *policy) {
  for (size_t i = 0; i < policy->guarded_count; i++)
    confine__guarded_release(&policy->guarded[i]);
  free(policy->guarded);
}

const char *confine__policy_exposed(const confine_policy *policy, int host_tmp) {
  for (size_t i = 0; i < policy->guarded_count; i++)
    if (confine__guarded_reached(&policy->guarded[i], policy, host_tmp))
      return policy->guarded[i].path;
  return NULL;
}
