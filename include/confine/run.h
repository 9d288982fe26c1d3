/*
 * Running a command to its end in the foreground of a program that owns its process (a command-line
 * program): it blocks signals, becomes a child subreaper, forwards signals and handles job control and
 * the terminal. A program that shares its process with others spawns what confine_provider_confine
 * gives it instead.
 */
#ifndef CONFINE_RUN_H
#define CONFINE_RUN_H

#include <confine/classify.h>
#include <confine/provider.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct confine_run_options {
  uint32_t size;
  confine_runner runner;      /* CONFINE_RUNNER_NONE: the provider's chain */
  int32_t require_full;       /* CONFINE_EPARTIAL rather than partial enforcement */
  int32_t keep_background;    /* leave the command's background processes running */
  int32_t no_observe;         /* no denial observer */
  int32_t release_stdio;      /* once the command has started, this process lets go of its standard input
                                 and output (they become /dev/null), so that the command's are the last */
  double timeout_seconds;     /* 0: none */
} confine_run_options;

#define CONFINE_RUN_OPTIONS_INIT {sizeof(confine_run_options), CONFINE_RUNNER_NONE, 0, 0, 0, 0, 0}

/* What happened, as told by the monitor, never by the command. Opaque, immutable. */
typedef struct confine_result confine_result;

/*
 * Runs argv (NULL-terminated) under policy with the environment of this process, to the end of its
 * process tree. Returns 0 whenever the call has an outcome to report, a runner failure included; an
 * error when it was refused before anything was started.
 */
CONFINE_API int confine_run(confine_provider *provider, const char *const *argv, const confine_policy *policy,
                            const confine_run_options *options, confine_result **ret_result,
                            confine_error *error);
CONFINE_API void confine_result_free(confine_result *result);

CONFINE_API confine_runner confine_result_runner(const confine_result *result);
CONFINE_API confine_enforcement confine_result_enforcement(const confine_result *result);
CONFINE_API uint32_t confine_result_gaps(const confine_result *result);
CONFINE_API uint32_t confine_result_open_channels(const confine_result *result);
/* 1 if the command itself was executed. */
CONFINE_API int confine_result_started(const confine_result *result);
/* The command's exit code, 127 or 126 when it was not found or not executable, -1 when there is none. */
CONFINE_API int confine_result_exit_code(const confine_result *result);
/* The signal it died by, or 0; and its name ("SIGTERM"), or NULL. */
CONFINE_API int confine_result_signal(const confine_result *result);
CONFINE_API const char *confine_result_signal_name(const confine_result *result);
CONFINE_API int confine_result_timed_out(const confine_result *result);
/* What a refused call wanted to do; open is for writing. */
typedef enum confine_operation {
  CONFINE_OPERATION_OPEN = 1,
  CONFINE_OPERATION_CREATE = 2,
  CONFINE_OPERATION_TRUNCATE = 3,
  CONFINE_OPERATION_UNLINK = 4,
  CONFINE_OPERATION_RMDIR = 5,
  CONFINE_OPERATION_RENAME = 6,
  CONFINE_OPERATION_LINK = 7,
  CONFINE_OPERATION_SYMLINK = 8,
  CONFINE_OPERATION_MKDIR = 9,
  CONFINE_OPERATION_MKNOD = 10,
  CONFINE_OPERATION_BIND = 11,
  CONFINE_OPERATION_CHMOD = 12,
  CONFINE_OPERATION_CHOWN = 13,
  CONFINE_OPERATION_UTIMES = 14,
  CONFINE_OPERATION_XATTR = 15,
  CONFINE_OPERATION_FLAGS = 16
} confine_operation;
/* "open" and so on; NULL for another value. */
CONFINE_API const char *confine_operation_name(confine_operation operation);

/* A call that the policy refused and that would otherwise have succeeded. Strings belong to the result. */
typedef struct confine_denial {
  uint32_t size;               /* sizeof(struct confine_denial), set by the caller */
  confine_operation operation;
  int32_t system_errno;        /* what the runner answered */
  int32_t pid;                 /* of the first such call */
  uint64_t count;              /* how often it happened */
  const char *comm;            /* name of that thread's program */
  const char *path;            /* absolute, symbolic links resolved */
} confine_denial;

CONFINE_API int confine_result_denied(const confine_result *result);
CONFINE_API confine_evidence confine_result_denial_evidence(const confine_result *result);
/* At most 256 different denials are kept; the rest is counted by confine_result_denials_dropped. */
CONFINE_API size_t confine_result_denial_count(const confine_result *result);
CONFINE_API int confine_result_denial(const confine_result *result, size_t index, confine_denial *ret_denial);
CONFINE_API uint64_t confine_result_denials_dropped(const confine_result *result);

/* The set-up step that failed in the runner, or NULL when the runner did its work; and why. */
CONFINE_API const char *confine_result_failed_step(const confine_result *result);
CONFINE_API const char *confine_result_failure_detail(const confine_result *result);
/* The whole record, as one line of JSON (confine-results(5)), malloc'ed; the caller frees it. */
CONFINE_API int confine_result_json(const confine_result *result, char **ret_json, confine_error *error);
/* What `confine run` exits with. */
CONFINE_API int confine_result_exit_status(const confine_result *result);

#ifdef __cplusplus
}
#endif
#endif
