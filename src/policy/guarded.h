#ifndef CONFINE_POLICY_GUARDED_H
#define CONFINE_POLICY_GUARDED_H

#include "policy/policy.h"

#include <stddef.h>
#include <stdint.h>

/*
 * A file that decides about calls (a runner, a configuration) and that no call may therefore write: known by
 * its path and by what the file and each directory above it are, since a directory may have other names
 * (bind mounts).
 */
struct confine__guarded {
  char *path; /* canonical, owned */
  struct confine__identity {
    uint64_t device, inode;
  } *chain; /* the file first, / last */
  size_t chain_length;
};

/* Takes path, which need not exist, as it is now. Returns 0, -ENOENT and the like with only the path known, or
 * -ENOMEM with nothing. */
int confine__guarded_init(struct confine__guarded *guarded, const char *path);
void confine__guarded_release(struct confine__guarded *guarded);

/* Whether a call under the policy may write it or a directory above it. host_tmp: the runner leaves the host's
 * /tmp writable in workspace-write mode. No system calls. */
int confine__guarded_reached(const struct confine__guarded *guarded, const confine_policy *policy, int host_tmp);

#endif
