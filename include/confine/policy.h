/* The policy of one call: what file effects the command may have. */
#ifndef CONFINE_POLICY_H
#define CONFINE_POLICY_H

#include <confine/error.h>

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* From narrow to wide. */
typedef enum confine_mode {
  CONFINE_MODE_READ_ONLY = 1,
  CONFINE_MODE_WORKSPACE_WRITE = 2,
  CONFINE_MODE_DANGER_FULL_ACCESS = 3
} confine_mode;

/* Opt-in isolation beyond the modes' file effects; a set of bits. */
enum confine_isolation {
  CONFINE_ISOLATE_NETWORK = 1,
  CONFINE_ISOLATE_PROCESS = 2,
  CONFINE_ISOLATE_IPC = 4
};

/* Most writable roots of one policy, the workspace included. */
#define CONFINE_ROOTS_MAX 512
/* Most protected files of one policy. */
#define CONFINE_PROTECTED_MAX 16

/* "read-only", "workspace-write" or "danger-full-access"; NULL for another value. */
CONFINE_API const char *confine_mode_name(confine_mode mode);
/* Returns CONFINE_EINVAL, and leaves *ret_mode, for a word that is no mode. */
CONFINE_API int confine_mode_parse(const char *word, confine_mode *ret_mode);

/*
 * Opaque. Not to be changed while another thread uses it; once built, any number of threads may use it
 * at once. The workspace and the roots are held by descriptor from the moment they are set, so a path
 * that is replaced later does not change what the policy means. Each free accepts NULL.
 */
typedef struct confine_policy confine_policy;

CONFINE_API int confine_policy_new(confine_mode mode, confine_policy **ret_policy, confine_error *error);
CONFINE_API void confine_policy_free(confine_policy *policy);

/*
 * The workspace is the directory where chdir(2) to path would land: symbolic links are followed before
 * `..` is (path_resolution(7)). NULL: the current directory, by descriptor, whatever its name. Refused
 * with CONFINE_EPATH: what does not exist or is no directory; /, /tmp, /var/tmp, /proc, /sys, /dev and
 * what lies below the last three. May be set once.
 */
CONFINE_API int confine_policy_set_workspace(confine_policy *policy, const char *path, confine_error *error);

/* Adds a directory or file that the command may also write; it must exist. */
CONFINE_API int confine_policy_add_writable(confine_policy *policy, const char *path, confine_error *error);

/*
 * Names a file or directory that decides about calls and so must not be writable by one: a configuration file, a
 * log, a state directory. It must exist. A call that could write it, or a directory above it, is refused
 * with CONFINE_EPATH by whatever confines under this policy.
 */
CONFINE_API int confine_policy_protect(confine_policy *policy, const char *path, confine_error *error);

/* isolation: bits of enum confine_isolation; an unknown bit is CONFINE_EINVAL. */
CONFINE_API int confine_policy_set_isolation(confine_policy *policy, uint32_t isolation, confine_error *error);

CONFINE_API confine_mode confine_policy_mode(const confine_policy *policy);
CONFINE_API uint32_t confine_policy_isolation(const confine_policy *policy);
/* The canonical workspace root, or NULL before one is set. Owned by the policy. */
CONFINE_API const char *confine_policy_workspace(const confine_policy *policy);
/* Writable roots in the order they were set, the workspace first; in read-only mode there are none. */
CONFINE_API size_t confine_policy_root_count(const confine_policy *policy);
/* Canonical path of a root, owned by the policy; NULL past the end. */
CONFINE_API const char *confine_policy_root(const confine_policy *policy, size_t index);

#ifdef __cplusplus
}
#endif
#endif
