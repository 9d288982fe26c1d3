#ifndef CONFINE_POLICY_CONFIG_H
#define CONFINE_POLICY_CONFIG_H

#include <confine/config.h>

#define CONFINE__PROBE_TIMEOUT_TEXT "sandbox-local: probeTimeoutMs must be a positive finite number"

/* Reads a whole document from memory. directory, absolute, is what relative paths are relative to; path is
 * what confine_config_path will say, and is what errors name. */
int confine__config_parse(const unsigned char *text, size_t length, const char *path, const char *directory,
                          confine_config **ret_config, confine_error *error);

#endif
