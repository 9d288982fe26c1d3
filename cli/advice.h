/* What would have allowed the writes that were refused. */
#ifndef CONFINE_CLI_ADVICE_H
#define CONFINE_CLI_ADVICE_H

#include "options.h"

#include <limits.h>

struct wanted {
  confine_denial denial; /* strings belong to the result */
  size_t root;           /* index, or advice.root_count: nothing can allow it */
  char *why;             /* then: why not; owned */
};

struct advised_root {
  char path[PATH_MAX];
  int is_directory;
  int by_mode;    /* workspace-write alone makes it writable */
  int only_mkdir; /* all that was wanted of it are new directories: with those made beforehand, they suffice */
};

struct advice {
  struct wanted *wanted; /* in the order in which it first happened */
  size_t wanted_count;
  struct advised_root *roots; /* by path; none lies beneath another */
  size_t root_count;
};

/*
 * Finds for each denial of the result what the operation needs: the object itself where that is there and
 * was to be changed, the directory where a name was to be made, moved or removed; never a parent of those.
 * A root is tried against the policy's own rules. Returns 0, or -1 without memory; *ret_advice is released
 * by advice_release in either case.
 */
int advice_make(const struct cli_options *options, confine_provider *provider, const confine_policy *policy,
                const confine_result *result, struct advice *ret_advice);
void advice_release(struct advice *advice);

#endif
