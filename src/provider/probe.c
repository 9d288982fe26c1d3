#include "base/error.h"
#include "provider/internal.h"
#include "spawn/captured.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#define NAMESPACE_PROOF "namespace: enforced"
#define LANDLOCK_PROOF "landlock: "

/* landlock-run's own probe is a command that is there under every profile. */
static void bwrap_argv(const struct confine__host *host, struct confine__argv *out) {
  const char *const command[] = {host->landlock_run, "--probe", NULL};
  const confine_policy read_only = {.mode = CONFINE_MODE_READ_ONLY};
  const struct confine__call call = {.argv = command, .status_fd = -1};
  confine__runner_bwrap.argv(host, &read_only, &call, out);
}

static int build(const struct confine__host *host, struct confine__probe *probe) {
  if (probe->runner == CONFINE_RUNNER_BWRAP) {
    bwrap_argv(host, &probe->argv);
  } else {
    const char *launcher = probe->runner == CONFINE_RUNNER_NAMESPACE ? host->namespace_run : host->landlock_run;
    confine__argv_add(&probe->argv, launcher);
    confine__argv_add(&probe->argv, "--probe");
  }
  return probe->argv.failed;
}

static int decide(struct confine__probe *probe, int usable) {
  probe->verdict.known = 1;
  probe->verdict.usable = usable;
  return 0;
}

int confine__probe_begin(confine_provider *provider, confine_runner runner, struct confine__probe *probe,
                         confine_error *error) {
  const struct confine__snapshot *snapshot;
  memset(probe, 0, sizeof *probe);
  probe->runner = runner;
  int r = confine__snapshot_full(provider, &snapshot, error);
  if (r < 0)
    return r;
  if (confine__runner_missing(snapshot, runner, &probe->verdict))
    return decide(probe, 0);
  if (runner == CONFINE_RUNNER_CUSTOM) /* the operator's word */
    return decide(probe, 1);
  if (runner != CONFINE_RUNNER_NAMESPACE && snapshot->host.landlock_abi < 1) {
    snprintf(probe->verdict.reason, sizeof probe->verdict.reason, "the kernel does not offer Landlock%s",
             runner == CONFINE_RUNNER_BWRAP ? ", which this runner uses inside" : "");
    confine__repair_landlock("/sys/kernel/security/lsm", probe->verdict.repair, sizeof probe->verdict.repair);
    return decide(probe, 0);
  }
  r = build(&snapshot->host, probe) == 0
          ? confine__capture_start((const char *const *)probe->argv.words, provider->probe_timeout_ms, &probe->capture,
                                   error)
          : confine__error_memory(error);
  if (r < 0)
    confine__argv_release(&probe->argv);
  return r;
}

static int has_proof(const struct confine__probe *probe, const struct confine__captured *captured) {
  const char *proof = probe->runner == CONFINE_RUNNER_NAMESPACE ? NAMESPACE_PROOF : LANDLOCK_PROOF;
  return captured->started && !captured->timed_out && captured->wait_status == 0 &&
         strstr(captured->output, proof) != NULL;
}

/* The last line that says something; what a program prints is not to be trusted with a terminal. */
static void last_line(char *text, const char **ret_line) {
  size_t length = strlen(text);
  while (length && (text[length - 1] == '\n' || text[length - 1] == ' '))
    text[--length] = '\0';
  char *line = strrchr(text, '\n');
  line = line ? line + 1 : text;
  for (char *c = line; *c; c++)
    if ((unsigned char)*c < ' ' || *c == 127)
      *c = '?';
  *ret_line = line;
}

static void explain(const confine_provider *provider, struct confine__probe *probe,
                    struct confine__captured *captured) {
  const struct confine__snapshot *snapshot = atomic_load(&provider->snapshot);
  char *reason = probe->verdict.reason, *repair = probe->verdict.repair;
  size_t size = sizeof probe->verdict.reason;
  const char *line;
  if (captured->timed_out) {
    snprintf(reason, size, "its probe did not answer within %lld ms and was ended",
             (long long)provider->probe_timeout_ms);
    snprintf(repair, size, "find out what %s waits for, or raise probeTimeoutMs", probe->argv.words[0]);
    return;
  }
  if (!captured->started) {
    snprintf(reason, size, "%s could not be executed: %s", probe->argv.words[0],
             captured->error ? strerror(captured->error) : "its monitor was killed");
    snprintf(repair, size, "install a working %s", probe->argv.words[0]);
    return;
  }
  last_line(captured->output, &line);
  if (WIFSIGNALED(captured->wait_status))
    snprintf(reason, size, "its probe was killed by signal %d%s%.400s", WTERMSIG(captured->wait_status),
             *line ? ": " : "", line);
  else
    snprintf(reason, size, "its probe failed with exit code %d: %.400s", WEXITSTATUS(captured->wait_status),
             *line ? line : "(no output)");
  if (probe->runner == CONFINE_RUNNER_LANDLOCK)
    confine__repair_landlock("/sys/kernel/security/lsm", repair, size);
  else
    confine__repair_namespaces("/proc/sys", snapshot->host.mounts_without_userns, repair, size);
}

void confine__probe_end(confine_provider *provider, struct confine__probe *probe) {
  struct confine__captured captured;
  if (!probe->capture)
    return;
  confine__capture_finish(probe->capture, &captured);
  probe->capture = NULL;
  if (!has_proof(probe, &captured))
    explain(provider, probe, &captured);
  decide(probe, probe->verdict.reason[0] == '\0');
  confine__argv_release(&probe->argv);
}
