/*
 * What a child does to itself before it becomes the confined command, as data. A plan is made by a
 * runner from a policy (or by a launcher from its arguments), is never changed while a child uses it,
 * and owns nothing: every pointer and descriptor belongs to the maker and must outlive the start.
 */
#ifndef CONFINE_ENTER_PLAN_H
#define CONFINE_ENTER_PLAN_H

#include <stddef.h>
#include <stdint.h>

/* Most writable roots in one policy; the bound of the stack arrays in the child. */
#define CONFINE__ROOTS_MAX 512

enum confine__plan_flags {
  CONFINE__PLAN_MOUNTS = 1u << 0,       /* a mount namespace: read-only tree, private /dev, /tmp */
  CONFINE__PLAN_USERNS = 1u << 1,       /* with a user namespace that maps the caller to itself */
  CONFINE__PLAN_LANDLOCK = 1u << 2,     /* a Landlock domain */
  CONFINE__PLAN_CAPABILITIES = 1u << 3, /* keep at most the working set of capabilities */
  CONFINE__PLAN_GUARD = 1u << 4,        /* the seccomp guard */
  CONFINE__PLAN_WRITABLE = 1u << 5,     /* workspace-write: roots and a temp area; else read-only */
  CONFINE__PLAN_SIGNAL_MASK = 1u << 6,  /* restore the mask before exec */
  CONFINE__PLAN_EVERY_RIGHT = 1u << 7,  /* Landlock governs reading and executing too */
  CONFINE__PLAN_DEVICES = 1u << 8,      /* Landlock grants the modes' device nodes */
  CONFINE__PLAN_HOST_TMP = 1u << 9,     /* Landlock grants /tmp of the host (workspace-write) */
  CONFINE__PLAN_ISOLATE_NETWORK = 1u << 10,
  CONFINE__PLAN_ISOLATE_PROCESS = 1u << 11,
  CONFINE__PLAN_ISOLATE_IPC = 1u << 12,
  CONFINE__PLAN_METADATA = 1u << 13, /* calls that change metadata go to the supervisor */
  CONFINE__PLAN_READ_ONLY_TREE = 1u << 15, /* a runner around this one has made such mounts already */
  CONFINE__PLAN_OBSERVE = 1u << 14,        /* calls with write intent go to the supervisor */
  CONFINE__PLAN_STREAMS = 1u << 16,        /* with METADATA: a standard stream is a file open for writing */
};

/* A directory or file the command may write, identified by device and inode: a path that has come to
 * mean something else is refused. */
struct confine__root {
  const char *path; /* absolute, canonical */
  int fd;           /* O_PATH descriptor held since the path was resolved, or -1 */
  uint64_t device, inode;
};

struct confine__plan {
  uint32_t flags; /* enum confine__plan_flags */
  const struct confine__root *roots;
  size_t root_count;
  const struct confine__root *readable; /* with EVERY_RIGHT: trees to read and execute */
  size_t readable_count;
  struct confine__root cwd; /* fd -1: wherever the caller is; path NULL: unknown */
  uint32_t uid, gid;        /* of the caller, for the id maps */
  int landlock_abi;         /* as the kernel reports it; 0: none */
  char *const *argv;        /* argv[0] is looked up along PATH of envp, as execvp(3) does */
  char *const *envp;
  /* With SIGNAL_MASK: the command's, a bit for each signal from the first. Without, all stay blocked: the
   * handlers of a caller that has some would run in memory that is shared until exec resets them. */
  uint64_t signal_mask;
  int stdio[3];                /* becomes 0, 1, 2; -1: as it is */
  int keep_fd;                 /* a descriptor above 2 that stays open, or -1 */
};

/* Set-up steps, in the order they are taken. The numbers go over the status channel. */
enum confine__step {
  CONFINE__STEP_NONE = 0,
  CONFINE__STEP_CLONE = 1,
  CONFINE__STEP_ID_MAP = 2,
  CONFINE__STEP_OPEN_ROOT = 3,
  CONFINE__STEP_CLONE_ROOT = 4,
  CONFINE__STEP_READ_ONLY = 5,
  CONFINE__STEP_PRIVATE_DEV = 7,
  CONFINE__STEP_ATTACH_ROOT = 8,
  CONFINE__STEP_CHDIR = 9,
  CONFINE__STEP_LANDLOCK = 10,
  CONFINE__STEP_CAPABILITIES = 11,
  CONFINE__STEP_NO_NEW_PRIVS = 12,
  CONFINE__STEP_RESTRICT = 13,
  CONFINE__STEP_STDIO = 14,
  CONFINE__STEP_GUARD = 15,
  CONFINE__STEP_CLOSE = 16,
  CONFINE__STEP_EXEC = 17,
  CONFINE__STEP_MONITOR = 18,
  CONFINE__STEP_PRIVATE_PROC = 19,
  CONFINE__STEP_INIT = 20,
  CONFINE__STEP_NETWORK = 21,
};

/* The name used in records, such as "read-only"; never NULL. */
const char *confine__step_name(enum confine__step step);

/* Where a set-up ended; the child fills it, in memory it shares with its parent. */
struct confine__outcome {
  volatile int32_t step;  /* enum confine__step that failed, or CONFINE__STEP_NONE */
  volatile int32_t error; /* its errno; 0 with OPEN_ROOT: the path means another object now */
  volatile int32_t index; /* the root it was about, or -1 */
  volatile int32_t cwd_hidden;
  volatile int32_t listener; /* the seccomp listener's number in the child's table, or -1 */
};

/*
 * Carries the plan out on the calling process and execs its command; returns only on failure, with
 * *outcome filled. The namespaces asked for must have been entered already (clone or unshare), and with
 * MOUNTS and roots the current directory must be the first root. Descriptors it opens are closed on exec;
 * a process that shares its table with the child closes what is left. Raw system calls only.
 */
void confine__enter(const struct confine__plan *plan, struct confine__outcome *outcome);

/*
 * confine__enter in two: the private tree, and what the command itself must do afterwards, which returns
 * only on failure. Between them an init process of a process namespace starts the command. The state's
 * plan and outcome must be set.
 */
struct confine__enter_state;
int confine__enter_tree(struct confine__enter_state *state);
void confine__enter_command(struct confine__enter_state *state);

/* Namespace flags for clone(2) or unshare(2) that a plan needs. */
unsigned long confine__plan_namespaces(const struct confine__plan *plan);

/* What the parts of confine__enter hand to each other: per root, the descriptor Landlock's rule is made
 * from, which the parts own. */
struct confine__enter_state {
  const struct confine__plan *plan;
  struct confine__outcome *outcome;
  int trees[CONFINE__ROOTS_MAX];
};

/* The parts of confine__enter, in its order; each returns 0, or a negated errno with the step and
 * index left in the outcome. Descriptors stay open until exec. */
int confine__enter_id_maps(struct confine__enter_state *state);
int confine__enter_network(struct confine__enter_state *state);
int confine__enter_roots(struct confine__enter_state *state);
int confine__enter_mounts(struct confine__enter_state *state);
int confine__enter_private_dev(struct confine__enter_state *state);
int confine__enter_landlock(struct confine__enter_state *state);
int confine__enter_capabilities(struct confine__enter_state *state);
int confine__enter_guard(struct confine__enter_state *state);
int confine__enter_exec(struct confine__enter_state *state);

/* Fills the outcome and hands error (a negated errno) back. */
int confine__fail(struct confine__enter_state *state, enum confine__step step, long index, long error);

/* Fills what depends on the calling process and its kernel: ids, the Landlock ABI, whether a mount
 * namespace needs a user namespace, and whether a supervisor must look after the standard streams. */
void confine__plan_host(struct confine__plan *plan);

/* clone(2) with a stack of the child's own, from stack_top (16-byte aligned) downwards; the child calls
 * run(arg) and exits with its value. Returns the child's pid or a negated errno. */
long confine__clone(unsigned long flags, char *stack_top, int (*run)(void *), void *arg);

/* Whether a seccomp listener can be had: the kernel has them, and no filter of this process already uses
 * the only one (seccomp_unotify(2)). Tried in a child where that is in doubt. */
int confine__listener_available(void);

/* The kernel's Landlock ABI version, or 0 when there is none. */
int confine__landlock_abi(void);

#endif
