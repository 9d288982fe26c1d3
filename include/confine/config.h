/* The configuration file, confine-policy(5): YAML that is read only where it is named. */
#ifndef CONFINE_CONFIG_H
#define CONFINE_CONFIG_H

#include <confine/error.h>
#include <confine/policy.h>
#include <confine/provider.h>

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Most bytes of a configuration file, and of one string in it. */
#define CONFINE_CONFIG_MAX (1024 * 1024)
#define CONFINE_CONFIG_STRING_MAX 4096

/* Opaque, immutable; any number of threads may use one at once. */
typedef struct confine_config confine_config;

/*
 * Reads the regular file at path: one YAML document, a mapping with any of the keys mode, workspaceRoot,
 * writableRoots, chain, runnerCommand, runnerFailureSignatures, probeTimeoutMs, or an empty one.
 * CONFINE_ECONFIG, with line and column, for unknown keys, wrong types, keys given twice, aliases, anchors and
 * tags; CONFINE_ELIMIT for what is too large. A relative path in it is relative to the directory in which
 * the file lies, symbolic links followed; nothing is expanded. Nothing is said of paths that do not exist: the
 * policy they are given to does that.
 */
CONFINE_API int confine_config_load(const char *path, confine_config **ret_config, confine_error *error);
CONFINE_API void confine_config_free(confine_config *config);

/* Canonical path of the file, for confine_policy_protect. This and the following are owned by the config. */
CONFINE_API const char *confine_config_path(const confine_config *config);
/* Sets *ret_mode and returns 1 if the file has a mode; else 0. */
CONFINE_API int confine_config_mode(const confine_config *config, confine_mode *ret_mode);
/* Absolute, or NULL if the file does not say. */
CONFINE_API const char *confine_config_workspace(const confine_config *config);
CONFINE_API size_t confine_config_writable_count(const confine_config *config);
/* Absolute; NULL past the end. */
CONFINE_API const char *confine_config_writable(const confine_config *config, size_t index);
/* Sets the fields of *settings that the file speaks of, to what the config owns; leaves the others. */
CONFINE_API int confine_config_settings(const confine_config *config, confine_settings *settings);

#ifdef __cplusplus
}
#endif
#endif
