/*
 * The supervisor: answers the calls that the guard hands over instead of letting the kernel make them
 * (seccomp_unotify(2)). It lives in a thread of the monitor, outside the confinement and an ancestor of every
 * caller, acts on descriptors and copies of its own with the caller's identity, and never lets the
 * kernel continue a call that it has judged by memory the caller can change.
 *
 * Raw system calls only. One per command, used by one thread at a time.
 */
#ifndef CONFINE_MONITOR_SUPERVISOR_H
#define CONFINE_MONITOR_SUPERVISOR_H

#include "enter/plan.h"

#include <linux/ioctl.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* An extended attribute's value is at most XATTR_SIZE_MAX bytes (xattr(7)); a name or path at most this. */
#define CONFINE__VALUE_MAX 65536
#define CONFINE__TEXT_MAX 4096
/* Bytes of all writable roots' paths together. */
#define CONFINE__ROOT_NAMES_MAX (512 * 1024)
/* An identity with more groups is not taken on: EPERM. */
#define CONFINE__GROUPS_MAX 256

struct confine__denials;

struct confine__supervisor {
  uint32_t flags; /* of the plan */
  size_t root_count;
  int listener;
  int root;          /* the command's root directory, O_PATH; -1 until the first call */
  int refusal;       /* errno that the runner answers with outside the writable roots */
  pid_t monitor;     /* ancestor of every process of the command */
  int taken;         /* what of another identity is in force: bits of identity.c */
  pid_t asked_tid;   /* the thread that was asked for its ids last, or 0, and a descriptor of it */
  int asked_descriptor;
  int regrouped;     /* a process of the tree has changed its groups: they must be read */
  uint64_t private_devices[2]; /* of /dev and its relatives, and of /dev/pts, in the command's tree */
  int private_known;
  struct confine__denials *denials; /* NULL: nothing is observed */
  struct confine__caller {
    uint32_t fsuid;
    uint64_t effective;
  } caller;  /* whose identity is taken on */
  pid_t last_caller; /* for the choice of wake mode */
  int streak, synchronous;
  uint64_t capabilities; /* the supervisor's own effective set, to return to */
  uint64_t permitted;    /* 0: every caller has the supervisor's identity */
  uint32_t uid, gid;
  int group_count;
  /* What every run touches lies before this, on one page. */
  struct confine__root roots[CONFINE__ROOTS_MAX + 1]; /* where metadata may change; names below */
  uint32_t groups[CONFINE__GROUPS_MAX];
  char path[CONFINE__TEXT_MAX]; /* of the call at hand */
  char name[CONFINE__TEXT_MAX];
  char rest[2 * CONFINE__TEXT_MAX]; /* what is left of a path being walked */
  char link[CONFINE__TEXT_MAX];
  char attribute[256]; /* name of an extended attribute */
  char value[CONFINE__VALUE_MAX];
  char root_names[CONFINE__ROOT_NAMES_MAX];
};

/* Prepares a supervisor; it keeps copies of what it needs of the plan
 * but the roots' descriptors. Returns 0 or a negated errno. */
int confine__supervisor_init(struct confine__supervisor *supervisor, const struct confine__plan *plan,
                             int listener, struct confine__denials *denials);

/* Takes one notification from the listener, if there still is one, and answers it. Returns 0, or a negated errno when
 * the kernel lets none be taken or answered: then the callers would wait for ever. */
int confine__supervisor_serve(struct confine__supervisor *supervisor);

/* The parts, for each other and for tests. A target is an O_PATH descriptor of the supervisor's own. */

/* Opens leaf ("/status", "" for the directory) of thread tid's directory in proc(5). */
long confine__process_open(pid_t tid, const char *leaf, int flags);
/* Reads what one read gives of it into out and ends it with a zero byte; the bytes read, or a negated errno. */
long confine__process_read(pid_t tid, const char *leaf, char *out, size_t size);
/* Where the text of proc(5)'s stat has the state, a letter; NULL if it has none. */
const char *confine__stat_state(const char *text);
/* The state of a process; a zero byte if it cannot be read. */
char confine__process_state(pid_t pid);
/* Finds the number behind key ("Tgid:") at the start of a line of a status file; NULL, or what follows it. */
const char *confine__status_number(const char *text, const char *key, uint64_t base, uint64_t *value);

/* Opens where a path of thread tid starts: its dirfd, its current directory or its root, which is supervisor->root
 * itself and must not be closed but by confine__target_release. */
long confine__target_start(struct confine__supervisor *supervisor, pid_t tid, int dirfd, const char *path);
void confine__target_release(const struct confine__supervisor *supervisor, long fd);
/* Opens what path means to thread tid from there, with /proc/self and the links below it meaning the
 * caller's. Takes start over, also on failure. */
long confine__target_path(struct confine__supervisor *supervisor, pid_t tid, long start, const char *path,
                          int follow);
/* Opens what the caller's descriptor refers to. */
long confine__target_descriptor(pid_t tid, int fd);

/* A copy of the caller's descriptor, for what needs the open file itself: -EBADF if there is none, -EPERM if
 * the caller may not be looked into. */
long confine__copy_descriptor(pid_t tid, int fd);

/* 1 if the object lies beneath a writable root or in a private area, else 0; with 1, *target may have been
 * replaced by a descriptor resolved beneath that root. */
int confine__target_inside(struct confine__supervisor *supervisor, int *target);

/* The object's name, as the command sees it, in supervisor->link; its length, or a negated errno. */
long confine__target_name(struct confine__supervisor *supervisor, int target);
/* As confine__target_inside, but by the name alone: enough to report, not to act. */
int confine__target_named_inside(struct confine__supervisor *supervisor, int target);

/* Copies from the caller's memory; -EFAULT if it is not all there. */
int confine__copy_in(pid_t tid, uint64_t address, void *out, size_t length);
/* A string; -ENAMETOOLONG if it does not end within size. */
int confine__copy_string(pid_t tid, uint64_t address, char *out, size_t size);

/* Takes on the identity thread tid has now (file system ids, groups, effective capabilities), and returns
 * to the supervisor's own. Nothing is done where both are always the same. In between the caller's memory
 * and /proc directory may be out of reach. */
int confine__identity_take(struct confine__supervisor *supervisor, pid_t tid);
void confine__identity_return(struct confine__supervisor *supervisor);
/* At the end of a metadata call: returns, unless the identity is one that does for the next such call by a caller
 * like this one, too. Then it stays in force, and whatever else this process does comes after a return. */
void confine__identity_rest(struct confine__supervisor *supervisor);

/* Who the caller is, once taken on. */
struct confine__caller confine__identity_of(const struct confine__supervisor *supervisor);

/* Judges a call that is left to the kernel, and records it if it is a denial. */
void confine__observe_call(struct confine__supervisor *supervisor, const struct seccomp_notif *notification, int call);

/* Records a refused change of metadata, if it would have been allowed otherwise. now: times were to be set to
 * the present, for which writing is enough (utimensat(2)). With the caller's identity taken on. */
void confine__observe_metadata(struct confine__supervisor *supervisor, const struct seccomp_notif *notification,
                               int target, int operation, int now);

/* Carries out a metadata call, or refuses it; returns what the caller gets: 0 or a negated errno. */
long confine__metadata_call(struct confine__supervisor *supervisor, const struct seccomp_notif *notification,
                            int call);

/* Calls that shorten a file or stop a stream from appending: made on this process's own copy of the
 * descriptor, so that it cannot be exchanged after it was judged. */
long confine__stream_call(struct confine__supervisor *supervisor, const struct seccomp_notif *notification,
                          int call);

/* The answer of a part that leaves the call to the kernel: only where all it judged is in registers. */
#define CONFINE__LET_KERNEL 1

/* Calls about another process by its pid: CONFINE__LET_KERNEL if it is one of the command's, else -EPERM. */
long confine__limit_call(struct confine__supervisor *supervisor, const struct seccomp_notif *notification, int call);

#endif
