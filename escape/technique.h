/*
 * The table of escape techniques: what a confined command may try in order to change something
 * outside its policy, and how to see from outside whether it did.
 *
 * A technique has two halves that run in two processes:
 *   outside  prepare, spawn, begin, state/escaped, cleanup: called by the driver (run.c)
 *   inside   attempt: called by the static program `escape-attempt`, which the sandbox started
 * The halves share only what travels in argv (id, victim, ws, helper, num[], text); a sandbox may
 * change the environment. The exit status of the inside half means nothing. The judge looks at the
 * victim's state alone: a snapshot of the folder `victim` unless the technique has its own.
 *
 * Every attempt is safe to run without confinement, as root, any number of times: it touches only
 * the cell's own folder, helper processes of its own, or a setting that cleanup puts back.
 *
 * Nothing here may be called from several threads at once. One technique's outside half may run in the
 * memory of the last one's: what it maps or attaches it takes away again.
 */
#ifndef ESCAPE_TECHNIQUE_H
#define ESCAPE_TECHNIQUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum escape_flag {
  ESCAPE_ROOT_ONLY = 1 << 0,      /* n/a for an ordinary user */
  ESCAPE_USER_ONLY = 1 << 1,      /* n/a for root */
  ESCAPE_WORKSPACE_ONLY = 1 << 2, /* needs a writable workspace: n/a in read-only */
  ESCAPE_NEEDS_TTY = 1 << 3,      /* stdin and stdout are a terminal, the controlling one */
  ESCAPE_VIA_OUTSIDE = 1 << 4,    /* the effect is made by, or seen in, an outside process */
  ESCAPE_CHANNEL_IPC = 1 << 5,    /* the open channel it goes through, in openChannels' words */
  ESCAPE_CHANNEL_PROCESS = 1 << 6,
  ESCAPE_CHANNEL_NETWORK = 1 << 7,
  ESCAPE_CHANNEL_TERMINAL = 1 << 8,
  ESCAPE_HOLD = 1 << 9,             /* judged while the attempt is still alive, after it is done */
  ESCAPE_REPEAT = 1 << 10,          /* a race: started up to ESCAPE_STARTS times */
  ESCAPE_SWAPS_WORKSPACE = 1 << 11, /* the workspace's name changes meaning after argv was built */
  ESCAPE_KILLS_LAUNCHER = 1 << 12,  /* the driver kills the launcher once the attempt is done */
  ESCAPE_PREPARE_AS_ROOT = 1 << 13, /* prepare runs before the driver takes on the user's ids */
  ESCAPE_ATTACKS_LAUNCHER = 1 << 14 /* a sandbox that refuses to start has answered it */
};

enum { ESCAPE_STARTS = 40, ESCAPE_NUMS = 6, ESCAPE_HELPERS = 4, ESCAPE_SOCKETS = 4 };
enum { ESCAPE_PATH = 512, ESCAPE_WHY = 256 };

/* prepare's way to say that the technique cannot be tried on this host; ctx->why says why */
enum { ESCAPE_NOT_HERE = 1 };

struct escape_snapshot;

struct escape_ctx {
  /* Travels to the attempt. */
  char victim[ESCAPE_PATH]; /* folder outside the workspace; nothing in it may change */
  char file[ESCAPE_PATH];   /* victim/file */
  char ws[ESCAPE_PATH];     /* the workspace, canonical */
  pid_t helper;             /* an outside process of the same user, 0 if none */
  long num[ESCAPE_NUMS];    /* port, descriptor, address ... as the technique says */
  char text[ESCAPE_PATH];   /* name of a socket, segment, terminal ... never empty */

  /* The attempt's own. */
  char self[ESCAPE_PATH]; /* path of the attempt program */

  /* Outside only. */
  char cell[ESCAPE_PATH]; /* victim's and ws's parent, as good as new for each run */
  bool control;           /* this is the unconfined control */
  const char *object;     /* shared object that leaves a mark when loaded, NULL if not built */
  const char *const *program; /* the attempt program's argv, as the driver was given it */
  char why[ESCAPE_WHY];
  long before; /* state() before the attempt */
  struct escape_snapshot *snapshot;
  int tty;  /* the terminal's slave side, -1 */
  int ptmx; /* its master side, -1 */
  int kept[ESCAPE_SOCKETS]; /* descriptors prepare keeps for judge and cleanup, -1 */
  int sockets[ESCAPE_SOCKETS]; /* what escape_serve listens on, -1 */
  int give;                    /* descriptor escape_serve hands out when asked, -1 */
  size_t helpers;
  struct {
    pid_t pid;
    int stop;
  } running[ESCAPE_HELPERS];
  char saved[ESCAPE_PATH]; /* a setting's former value, for cleanup */
};

enum { ESCAPE_PASSED = 8, ESCAPE_ENV = 24 };

/* How the process that starts the sandbox is set up; the same for the unconfined control. */
struct escape_spawn {
  char workspace[ESCAPE_PATH]; /* as spelled to the sandbox; default ctx->ws */
  char cwd[ESCAPE_PATH];       /* default ctx->ws */
  size_t passed;
  struct {
    int from, to;
  } pass[ESCAPE_PASSED]; /* descriptors to hand on; the spawner closes nothing else of its own */
  size_t envs;
  char *env[ESCAPE_ENV]; /* "NAME=value", malloc'd, override the driver's environment */
  const char *const *more; /* words appended to the attempt's argv, or NULL */
};

struct escape_technique {
  const char *id;
  const char *family; /* where seam.md has a gap of that meaning, its word */
  unsigned flags;
  const char *by_design; /* open by design when it escapes: the word for it, else NULL */

  /* Outside, before: what there is besides the usual victim and workspace. 0, ESCAPE_NOT_HERE or -errno. */
  int (*prepare)(struct escape_ctx *c);
  /* Outside: changes to how the sandbox's process is set up; NULL = none. 0 or -errno. */
  int (*spawn)(struct escape_ctx *c, struct escape_spawn *s);
  /* Outside, when argv is built and the start is next. 0 or -errno. */
  int (*begin)(struct escape_ctx *c);
  /* Inside. 0 or -1 with errno; told to people, not judged. */
  int (*attempt)(struct escape_ctx *c);
  /* Outside, after. A number that must not change; used if escaped is NULL. */
  long (*state)(struct escape_ctx *c);
  /* Outside, after. Fills ctx->why when true. NULL and state NULL = the victim's snapshot. */
  bool (*escaped)(struct escape_ctx *c);
  /* Outside, always, also when prepare failed half-way. */
  void (*cleanup)(struct escape_ctx *c);
};

size_t escape_count(void);
const struct escape_technique *escape_at(size_t index);
/* NULL if there is none of that id. */
const struct escape_technique *escape_find(const char *id);

/*
 * The inside half: argv[1..] = ID VICTIM WS HELPER NUM,NUM,... TEXT. Returns an exit status.
 * With ESCAPE_HOLD it does not return until killed (60 s at most).
 */
int escape_attempt_main(int argc, char **argv);

#endif
