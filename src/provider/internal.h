/* What the files of the provider share. */
#ifndef CONFINE_PROVIDER_INTERNAL_H
#define CONFINE_PROVIDER_INTERNAL_H

#include "base/argv.h"
#include "policy/guarded.h"
#include "provider/provider.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#define CONFINE__RUNNERS 7 /* one more than the greatest enum confine_runner */
#define CONFINE__REASON_MAX 1024

/* Why there is no such program; empty where there is one. */
struct confine__missing {
  char launchers[CONFINE__REASON_MAX]; /* where was looked */
  char bwrap[CONFINE__REASON_MAX];     /* why bwrap.path is NULL */
};

/* What was found on the host at one time. Never changed once published; other threads may be reading it,
 * so it lives as long as the provider. */
struct confine__snapshot {
  struct confine__host host;
  int has_programs; /* they have been looked for, and what follows says what was found */
  struct confine__guarded landlock_run, namespace_run, bwrap; /* path NULL: not to be had */
  struct confine__guarded *custom; /* the absolute words of runner_command */
  size_t custom_count;
  struct confine__missing *missing; /* with has_programs */
  struct confine__snapshot *older;
};

struct confine__verdict {
  int known, usable;
  char reason[CONFINE__REASON_MAX], repair[CONFINE__REASON_MAX]; /* empty: none */
};

struct confine_provider {
  confine_runner chain[CONFINE__RUNNERS];
  size_t chain_length;
  struct confine__argv runner_command, signatures; /* count 0: no custom runner */
  char *launcher_directory;
  int64_t probe_timeout_ms;
  _Atomic(struct confine__snapshot *) snapshot; /* the newest */
  _Atomic int selected;                         /* enum confine_runner; NONE: not yet */
  pthread_mutex_t look; /* held while a snapshot is made; taken after lock */
  pthread_mutex_t lock; /* held while probing; guards the verdicts */
  struct confine__verdict *verdicts; /* CONFINE__RUNNERS of them; NULL until one is asked for */
};

/* provider.c: the verdicts, with the lock held; NULL when there is no memory for them. */
struct confine__verdict *confine__verdicts(confine_provider *provider);

/* settings.c: copies and checks; CONFINE_ECONFIG with seam's texts. */
int confine__settings_copy(confine_provider *provider, const confine_settings *settings, confine_error *error);

/* host.c: looks at the host and publishes what was found, unless it is what is known already. Looking for the
 * programs costs dozens of system calls, which a call that starts none of them is spared. */
int confine__snapshot_take(confine_provider *provider, int with_programs, confine_error *error);
/* The newest snapshot with programs, owned by the provider; takes one if there is none. */
int confine__snapshot_full(confine_provider *provider, const struct confine__snapshot **ret_snapshot,
                           confine_error *error);
void confine__snapshot_free_all(confine_provider *provider);
/* The runner's own program, or NULL. */
const char *confine__runner_path(const struct confine__snapshot *snapshot, confine_runner runner);
/* 1, with reason and repair filled, if a program that the runner needs is not there. */
int confine__runner_missing(const struct confine__snapshot *snapshot, confine_runner runner,
                            struct confine__verdict *verdict);
/* The path of one of the runner's programs that the policy makes writable although the runner cannot
 * prevent it, or NULL. */
const char *confine__runner_exposed(const struct confine__snapshot *snapshot, confine_runner runner,
                                    const confine_policy *policy);
/* Whether workspace-write leaves the host's own /tmp writable under this runner. */
int confine__leaves_host_tmp(confine_runner runner);

/* probe.c: one probe, in two halves so that several may run side by side. begin decides at once what
 * needs no child. An error means that the question could not be asked. */
struct confine__probe {
  confine_runner runner;
  struct confine__argv argv;
  struct confine__capture *capture; /* NULL: decided */
  struct confine__verdict verdict;
};
int confine__probe_begin(confine_provider *provider, confine_runner runner, struct confine__probe *probe,
                         confine_error *error);
void confine__probe_end(confine_provider *provider, struct confine__probe *probe);

/* repair.c: what would let an unprivileged process make a user namespace, from the host's settings below
 * sysctl ("/proc/sys"). Writes at most size bytes. */
void confine__repair_namespaces(const char *sysctl, int privileged, char *out, size_t size);
/* The same for Landlock; lsm_list is "/sys/kernel/security/lsm". */
void confine__repair_landlock(const char *lsm_list, char *out, size_t size);

#endif
