/* What the rest of the library needs of the provider. */
#ifndef CONFINE_PROVIDER_PROVIDER_H
#define CONFINE_PROVIDER_PROVIDER_H

#include "runner/runner.h"

#include <confine/provider.h>

/* What profiles need to know about the host: found by looking, not by running anything, when the provider is
 * made and when it is to probe again. Programs are NULL until a wrapped call is checked. Valid as long as the
 * provider; any thread. */
const struct confine__host *confine__provider_host(confine_provider *provider);

/* The candidates in order, owned by the provider. With runner_command set it is custom alone. */
const confine_runner *confine__provider_chain(const confine_provider *provider, size_t *ret_count);

/*
 * Is this runner usable? Really confines a child, once per provider and runner (the verdict is cached;
 * any thread). 0, or CONFINE_EUNAVAILABLE with the reason as text and, where known, what repairs it. Another
 * error means that the probe itself could not be made (memory, descriptors) and is not remembered.
 */
int confine__provider_probe(confine_provider *provider, confine_runner runner, confine_error *error);

/*
 * Everything that can be said against a call before it is made. CONFINE_EUNSUPPORTED, naming a runner that
 * could, if this one cannot isolate what the policy asks; CONFINE_EINVAL for a policy without a workspace.
 * direct: no program of the runner is started; otherwise also CONFINE_EUNAVAILABLE if one is not there, and
 * CONFINE_EPATH if the policy makes it writable and the runner cannot prevent that. The first
 * such call looks for the programs; otherwise there are no system calls.
 */
int confine__provider_check(confine_provider *provider, const struct confine__runner *runner,
                            const confine_policy *policy, int direct, confine_error *error);

/* Checks the call and wraps it with this very runner, probing nothing. A status_fd is for the caller's own
 * spawn only. */
int confine__provider_wrap(confine_provider *provider, const struct confine__runner *runner,
                           const struct confine__call *call, const confine_policy *policy,
                           confine_wrapped **ret_wrapped, confine_error *error);

/* Fills the exact SANDBOX_UNAVAILABLE text for mode, with ` Runner failure: <detail>` when detail is not
 * NULL, and returns CONFINE_EUNAVAILABLE. */
int confine__unavailable(confine_error *error, confine_mode mode, const char *detail);

/* Enforcement that a set of gaps amounts to. */
confine_enforcement confine__enforcement_of(uint32_t gaps);

/* Channels left open under a policy: all but the isolated ones; terminal where has_terminal. */
uint32_t confine__open_channels(const confine_policy *policy, int has_terminal);

#endif
