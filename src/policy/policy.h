#ifndef CONFINE_POLICY_POLICY_H
#define CONFINE_POLICY_POLICY_H

#include <confine/policy.h>

#include <stdint.h>

/* A file or directory known by what it is, not only by its name. */
struct confine__held_path {
  char *path; /* canonical, absolute, owned */
  int fd;     /* O_PATH, close-on-exec, owned */
  uint64_t device, inode;
  int is_directory;
};

struct confine_policy {
  confine_mode mode;
  uint32_t isolation;
  struct confine__held_path workspace; /* path NULL: not set */
  struct confine__held_path *writable; /* further roots */
  size_t writable_count;
  struct confine__guarded *guarded; /* policy/guarded.h */
  size_t guarded_count;
};

/* A root of the policy, the workspace first; NULL past the end. Owned by the policy. */
const struct confine__held_path *confine__policy_root(const confine_policy *policy, size_t index);

/* The path of a protected file that a call under the policy could write (policy/guarded.h), or NULL. */
const char *confine__policy_exposed(const confine_policy *policy, int host_tmp);
/* Frees the protected files' list. */
void confine__policy_unguard(confine_policy *policy);

/*
 * Opens path (NULL: the current directory) and finds its canonical name. A name that no longer leads to
 * the opened object, or is not to be had, is CONFINE_EPATH. what names the thing in messages, such as
 * "workspace".
 */
int confine__path_hold(const char *path, const char *what, struct confine__held_path *ret_held,
                       confine_error *error);
void confine__path_release(struct confine__held_path *held);

/* CONFINE_EPATH with the reason if a workspace, or another root, may not be this. */
int confine__path_check_workspace(const struct confine__held_path *held, confine_error *error);
int confine__path_check_root(const struct confine__held_path *held, confine_error *error);

#endif
