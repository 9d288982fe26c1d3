/* The provider: chooses a runner once and wraps commands with it. */
#ifndef CONFINE_PROVIDER_H
#define CONFINE_PROVIDER_H

#include <confine/error.h>
#include <confine/policy.h>

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum confine_runner {
  CONFINE_RUNNER_NONE = 0, /* danger-full-access */
  CONFINE_RUNNER_NAMESPACE = 1,
  CONFINE_RUNNER_BWRAP = 2,
  CONFINE_RUNNER_LANDLOCK = 3,
  CONFINE_RUNNER_SEATBELT = 4,
  CONFINE_RUNNER_WINDOWS_ACL = 5,
  CONFINE_RUNNER_CUSTOM = 6
} confine_runner;

/* "namespace" and so on; NULL for CONFINE_RUNNER_NONE and unknown values. */
CONFINE_API const char *confine_runner_name(confine_runner runner);
/* Takes a runner's name. Returns CONFINE_EINVAL and leaves *ret_runner for another word. */
CONFINE_API int confine_runner_parse(const char *word, confine_runner *ret_runner);

typedef enum confine_enforcement {
  CONFINE_ENFORCEMENT_NONE = 0, /* danger-full-access */
  CONFINE_ENFORCEMENT_PARTIAL = 1,
  CONFINE_ENFORCEMENT_FULL = 2
} confine_enforcement;

CONFINE_API const char *confine_enforcement_name(confine_enforcement enforcement);

/* File effects that a mode promises to stop and this call would not; bits. */
enum confine_gap {
  CONFINE_GAP_METADATA = 1 << 0,
  CONFINE_GAP_TRUNCATE = 1 << 1,
  CONFINE_GAP_REFER = 1 << 2,
  CONFINE_GAP_INHERITED_FD = 1 << 3,
  CONFINE_GAP_EVERYONE_WRITABLE = 1 << 4,
  CONFINE_GAP_NULL_DACL = 1 << 5,
  CONFINE_GAP_HARD_LINKS = 1 << 6,
  CONFINE_GAP_FAT_VOLUME = 1 << 7,
  CONFINE_GAP_UNVERIFIED_PLATFORM = 1 << 8,
  CONFINE_GAP_TERMINAL_INJECTION = 1 << 9,
  CONFINE_GAP_WORKSPACE_RACE = 1 << 10,
  CONFINE_GAP_DEVICES = 1 << 11,
  CONFINE_GAP_PROC = 1 << 12
};
/* The gap's word for a single bit, such as "inherited-fd"; NULL for anything else. */
CONFINE_API const char *confine_gap_name(uint32_t gap);

/* What the mode's words leave open in a call; bits. */
enum confine_channel {
  CONFINE_CHANNEL_IPC = 1 << 0,
  CONFINE_CHANNEL_NETWORK = 1 << 1,
  CONFINE_CHANNEL_PROCESS = 1 << 2,
  CONFINE_CHANNEL_TERMINAL = 1 << 3
};
CONFINE_API const char *confine_channel_name(uint32_t channel);

/* Limits of what settings may hold: words of runner_command, signatures, bytes of each of these. */
#define CONFINE_RUNNER_COMMAND_MAX 1024
#define CONFINE_SIGNATURES_MAX 256
#define CONFINE_SETTING_MAX 4096

/*
 * Settings of a provider; a zero or NULL field means the default. Copied by confine_provider_new.
 */
typedef struct confine_settings {
  uint32_t size;                     /* sizeof(struct confine_settings) */
  const confine_runner *chain;       /* candidates in order; NULL: the platform's */
  size_t chain_length;
  const char *const *runner_command; /* NULL-terminated argv in bwrap's dialect; overrides the chain */
  const char *const *runner_failure_signatures; /* NULL-terminated; required with runner_command */
  double probe_timeout_ms;           /* of each probe; 0: 5000 */
  const char *launcher_directory;    /* absolute; where landlock-run and namespace-run are. NULL: beside
                                        the library or static program */
} confine_settings;

#define CONFINE_SETTINGS_INIT {sizeof(confine_settings), 0, 0, 0, 0, 0, 0}

/* Opaque, immutable after selection; any number of threads may use one at once. */
typedef struct confine_provider confine_provider;

/* Returns CONFINE_ECONFIG with seam's exact texts for settings that contradict themselves. Probes
 * nothing yet. */
CONFINE_API int confine_provider_new(const confine_settings *settings, confine_provider **ret_provider,
                                     confine_error *error);
CONFINE_API void confine_provider_free(confine_provider *provider);

/* Forgets every verdict, so that the next call probes again. */
CONFINE_API void confine_provider_probe_again(confine_provider *provider);

/* Which runner is selected; probes if that has not happened yet. CONFINE_EUNAVAILABLE if none is usable;
 * its text is made for `mode`. */
CONFINE_API int confine_provider_select(confine_provider *provider, confine_mode mode,
                                        confine_runner *ret_runner, confine_error *error);

/* One runner's verdict. Strings are owned by the report. */
typedef struct confine_runner_report {
  uint32_t size;
  confine_runner runner;
  int32_t usable;
  confine_enforcement enforcement; /* when usable */
  uint32_t gaps;                   /* enum confine_gap, when usable */
  const char *path;                /* of its program, or NULL */
  const char *version;             /* or NULL */
  const char *reason;              /* why it is not usable, or NULL */
  const char *repair;              /* what would make it usable, or NULL */
} confine_runner_report;

/* What this host can enforce. Opaque; made by probing every candidate anew. */
typedef struct confine_host_report confine_host_report;
CONFINE_API int confine_provider_examine(confine_provider *provider, confine_host_report **ret_report,
                                         confine_error *error);
CONFINE_API void confine_host_report_free(confine_host_report *report);
CONFINE_API size_t confine_host_report_count(const confine_host_report *report);
/* Fills *ret_entry, whose size field the caller has set, for the candidate at index in chain order. */
CONFINE_API int confine_host_report_entry(const confine_host_report *report, size_t index,
                                          confine_runner_report *ret_entry);
CONFINE_API confine_runner confine_host_report_selected(const confine_host_report *report);
CONFINE_API int confine_host_report_landlock_abi(const confine_host_report *report);
/* The report as one line of JSON (confine-results(5)), to be freed by free(3). */
CONFINE_API int confine_host_report_json(const confine_host_report *report, char **ret_json, confine_error *error);

/* Fills *error with CONFINE_EUNAVAILABLE's exact text for mode, ended by ` Runner failure: <detail>` unless
 * detail is NULL. For callers that report a runner's failure at execution time. */
CONFINE_API void confine_unavailable_text(confine_mode mode, const char *detail, confine_error *error);

/* A wrapped command: what to spawn instead, and how to read what comes back. Opaque, immutable. */
typedef struct confine_wrapped confine_wrapped;

/*
 * Wraps argv (NULL-terminated, at least one element) under policy: the heart of the library. Never hands
 * the argv back unconfined, except in danger-full-access mode, where it is returned unchanged and the
 * provider is not consulted. Everything reachable from *ret_wrapped belongs to it.
 */
CONFINE_API int confine_provider_confine(confine_provider *provider, const char *const *argv,
                                         const confine_policy *policy, confine_wrapped **ret_wrapped,
                                         confine_error *error);
CONFINE_API void confine_wrapped_free(confine_wrapped *wrapped);
CONFINE_API const char *const *confine_wrapped_argv(const confine_wrapped *wrapped);
CONFINE_API confine_runner confine_wrapped_runner(const confine_wrapped *wrapped);
CONFINE_API confine_enforcement confine_wrapped_enforcement(const confine_wrapped *wrapped);
CONFINE_API uint32_t confine_wrapped_gaps(const confine_wrapped *wrapped);
CONFINE_API uint32_t confine_wrapped_open_channels(const confine_wrapped *wrapped);
/* Stderr substrings, NULL-terminated, compared without regard to case. */
CONFINE_API const char *const *confine_wrapped_denial_signatures(const confine_wrapped *wrapped);

/* A rule by which a runner's own failure is recognised in what a foreign spawner captured. */
typedef struct confine_failure_rule {
  uint32_t size;
  const int32_t *allowed_exit_codes; /* NULL: any but 0 */
  size_t allowed_exit_code_count;
  const char *const *fatal_signatures;    /* NULL-terminated */
  const char *const *informational_lines; /* NULL-terminated, may be empty */
} confine_failure_rule;
CONFINE_API size_t confine_wrapped_failure_rule_count(const confine_wrapped *wrapped);
CONFINE_API int confine_wrapped_failure_rule(const confine_wrapped *wrapped, size_t index,
                                             confine_failure_rule *ret_rule);
/* All of it as one line of JSON (confine-results(5)), to be freed by free(3). */
CONFINE_API int confine_wrapped_json(const confine_wrapped *wrapped, char **ret_json, confine_error *error);

#ifdef __cplusplus
}
#endif
#endif
