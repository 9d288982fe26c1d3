/*
 * What became of a command: its own outcome, a denial, or a failure of the runner itself. For callers that
 * spawned a wrapped argv and for confine's own executor; a verdict says what it rests on.
 */
#ifndef CONFINE_CLASSIFY_H
#define CONFINE_CLASSIFY_H

#include <confine/error.h>
#include <confine/provider.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum confine_verdict_kind {
  CONFINE_VERDICT_OK = 0,             /* exit code 0 */
  CONFINE_VERDICT_COMMAND_FAILED = 1, /* another exit code, the command's own */
  CONFINE_VERDICT_SIGNALED = 2,       /* died by a signal */
  CONFINE_VERDICT_DENIED = 3,         /* file access was denied by the policy; whatever the exit code */
  CONFINE_VERDICT_RUNNER_FAILED = 4,  /* the command did not run: a sandbox problem */
  CONFINE_VERDICT_NOT_STARTED = 5     /* the command could not be started: not found, not executable */
} confine_verdict_kind;

/* "ok", "command-failed", "signaled", "denied", "runner-failed", "not-started"; NULL for another value. */
CONFINE_API const char *confine_verdict_name(confine_verdict_kind kind);

typedef enum confine_evidence {
  CONFINE_EVIDENCE_NONE = 0,            /* the wait status alone */
  CONFINE_EVIDENCE_STATUS_CHANNEL = 1,  /* the monitor's record */
  CONFINE_EVIDENCE_OBSERVER = 2,        /* the observer's record of refused calls */
  CONFINE_EVIDENCE_SPAWN_ERROR = 3,     /* the error of the spawn itself */
  CONFINE_EVIDENCE_STDERR_RULE = 4,     /* text, which the command can forge */
  CONFINE_EVIDENCE_STDERR_SIGNATURE = 5 /* likewise */
} confine_evidence;

/* "none", "status-channel", "observer", "spawn-error", "stderr-rule", "stderr-signature"; NULL otherwise. */
CONFINE_API const char *confine_evidence_name(confine_evidence evidence);

/* What a monitor and an observer said; zero fields where there was none. */
typedef struct confine_records {
  uint32_t size;
  int32_t has_status;   /* a monitor reported */
  int32_t started;      /* with has_status: the command was executed */
  int32_t not_found;    /* with has_status: 127 or 126, when it was not found or not executable; else 0 */
  int32_t has_observer; /* refused calls were recorded */
  uint64_t denials;     /* with has_observer: how many */
} confine_records;

#define CONFINE_RECORDS_INIT {sizeof(confine_records), 0, 0, 0, 0, 0}

/* Most bytes of standard error that are looked at: its last ones. */
#define CONFINE_CLASSIFY_MAX (1024 * 1024)

typedef struct confine_outcome {
  uint32_t size;
  int32_t exit_code; /* -1 when it died by a signal */
  int32_t signal;    /* 0 when it exited */
  const char *stderr_bytes; /* what was captured; NULL: nothing. Any bytes */
  size_t stderr_length;
  const confine_records *records; /* NULL: there are none */
} confine_outcome;

#define CONFINE_OUTCOME_INIT {sizeof(confine_outcome), 0, 0, 0, 0, 0}

typedef struct confine_verdict {
  uint32_t size;
  confine_verdict_kind kind;
  confine_evidence evidence;
  const char *signature; /* the signature that matched, owned by the rules; NULL: none did */
  size_t line_offset;    /* with signature: the line of stderr_bytes in which it was found, */
  size_t line_length;    /* without its end */
} confine_verdict;

#define CONFINE_VERDICT_INIT {sizeof(confine_verdict), CONFINE_VERDICT_OK, CONFINE_EVIDENCE_NONE, 0, 0, 0}

/*
 * Records decide where there are any; text decides the rest. By text: a rule of the runner's matches when the
 * exit code is not 0 and, where it lists codes, one of them, and a line of standard error that is none of
 * its informational lines contains one of its fatal signatures; that outranks a denial. A denial needs an
 * exit code other than 0 and a denial signature; a line known to mean something else (a login that ssh was
 * refused) is passed over, and so is every line when the exit code is 126, a file that could not be
 * executed. Comparisons ignore the case of ASCII letters. Death by a signal is neither. Never widen a policy because of
 * a verdict. CONFINE_EINVAL for a size that is not this version's.
 */
CONFINE_API int confine_classify(const confine_wrapped *wrapped, const confine_outcome *outcome,
                                 confine_verdict *ret_verdict);

/* The same by rules that came another way, as in the JSON of `confine wrap`. */
CONFINE_API int confine_classify_by_rules(const confine_failure_rule *rules, size_t rule_count,
                                          const char *const *denial_signatures, const confine_outcome *outcome,
                                          confine_verdict *ret_verdict);

/*
 * Whose fault it is that spawning the wrapped argv started no process: spawn_errno is what execve(2) or the
 * like gave, in the directory workdir (NULL: the current one). RUNNER_FAILED only if that directory is usable
 * and the error is ENOENT or EACCES; all else, and everything where nothing is confined, is NOT_STARTED.
 */
CONFINE_API int confine_classify_spawn_error(const confine_wrapped *wrapped, int spawn_errno, const char *workdir,
                                             confine_verdict *ret_verdict);

#ifdef __cplusplus
}
#endif
#endif
