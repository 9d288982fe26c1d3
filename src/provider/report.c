#include "base/error.h"
#include "provider/internal.h"
#include "spawn/captured.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct entry {
  confine_runner runner;
  uint32_t gaps;
  struct confine__verdict verdict;
  char *path;
  char version[64]; /* empty: unknown */
};

struct confine_host_report {
  confine_runner selected;
  int landlock_abi;
  size_t count;
  struct entry entries[CONFINE__RUNNERS];
};

/* `bubblewrap 0.8.0` */
static void note_version(struct confine__capture *capture, struct entry *entry) {
  struct confine__captured captured;
  confine__capture_finish(capture, &captured);
  if (!captured.started || captured.wait_status != 0)
    return;
  const char *version = strrchr(captured.output, ' ');
  version = version ? version + 1 : captured.output;
  size_t length = strspn(version, "0123456789.abcdefghijklmnopqrstuvwxyz-+~");
  if (length < sizeof entry->version)
    snprintf(entry->version, sizeof entry->version, "%.*s", (int)length, version);
}

/* Asks every candidate at once, so that several that hang cost one time limit. */
static int probe_all(confine_provider *provider, confine_host_report *report, confine_error *error) {
  const struct confine__snapshot *snapshot = atomic_load(&provider->snapshot);
  struct confine__probe probes[CONFINE__RUNNERS];
  const char *const version_argv[] = {snapshot->host.bwrap, "--version", NULL};
  struct confine__capture *version = NULL;
  struct entry *bwrap = NULL;
  struct confine__verdict *verdicts = confine__verdicts(provider);
  int r = 0;
  size_t begun = 0;
  if (!verdicts) {
    confine__error_memory(error);
    return CONFINE_ENOMEM;
  }
  for (; r == 0 && begun < report->count; begun++) {
    struct entry *entry = &report->entries[begun];
    r = confine__probe_begin(provider, entry->runner, &probes[begun], error);
    if (r < 0)
      break;
    if (entry->runner == CONFINE_RUNNER_BWRAP && snapshot->host.bwrap &&
        confine__capture_start(version_argv, provider->probe_timeout_ms, &version, NULL) == 0)
      bwrap = entry;
  }
  for (size_t i = 0; i < begun; i++) {
    confine__probe_end(provider, &probes[i]);
    report->entries[i].verdict = probes[i].verdict;
    if (r == 0)
      verdicts[report->entries[i].runner] = probes[i].verdict;
  }
  if (bwrap)
    note_version(version, bwrap);
  return r;
}

static int describe(confine_provider *provider, confine_host_report *report, confine_error *error) {
  const struct confine__snapshot *snapshot = atomic_load(&provider->snapshot);
  report->landlock_abi = snapshot->host.landlock_abi;
  for (size_t i = 0; i < report->count; i++) {
    struct entry *entry = &report->entries[i];
    const struct confine__runner *runner = confine__runner_find(entry->runner);
    const char *path = confine__runner_path(snapshot, entry->runner);
    if (path && !(entry->path = strdup(path)))
      return confine__error_memory(error);
    if (!entry->verdict.usable)
      continue;
    entry->gaps = runner->gaps(&snapshot->host);
    if (report->selected == CONFINE_RUNNER_NONE)
      report->selected = entry->runner;
  }
  return 0;
}

int confine_provider_examine(confine_provider *provider, confine_host_report **ret_report, confine_error *error) {
  confine_host_report *report = calloc(1, sizeof *report);
  if (!report)
    return confine__error_memory(error);
  report->count = provider->chain_length;
  for (size_t i = 0; i < report->count; i++)
    report->entries[i].runner = provider->chain[i];
  pthread_mutex_lock(&provider->lock);
  int r = confine__snapshot_take(provider, 1, error);
  if (r == 0)
    r = probe_all(provider, report, error);
  if (r == 0)
    r = describe(provider, report, error);
  if (r == 0)
    atomic_store(&provider->selected, (int)report->selected);
  pthread_mutex_unlock(&provider->lock);
  if (r < 0) {
    confine_host_report_free(report);
    return r;
  }
  *ret_report = report;
  return 0;
}

void confine_host_report_free(confine_host_report *report) {
  if (!report)
    return;
  for (size_t i = 0; i < report->count; i++)
    free(report->entries[i].path);
  free(report);
}

size_t confine_host_report_count(const confine_host_report *report) {
  return report->count;
}

static const char *text_or_null(const char *text) {
  return *text ? text : NULL;
}

int confine_host_report_entry(const confine_host_report *report, size_t index, confine_runner_report *ret_entry) {
  if (index >= report->count || ret_entry->size != sizeof *ret_entry)
    return CONFINE_EINVAL;
  const struct entry *entry = &report->entries[index];
  int usable = entry->verdict.usable;
  ret_entry->runner = entry->runner;
  ret_entry->usable = usable;
  ret_entry->enforcement = usable ? confine__enforcement_of(entry->gaps) : CONFINE_ENFORCEMENT_NONE;
  ret_entry->gaps = entry->gaps;
  ret_entry->path = entry->path;
  ret_entry->version = text_or_null(entry->version);
  ret_entry->reason = text_or_null(entry->verdict.reason);
  ret_entry->repair = text_or_null(entry->verdict.repair);
  return 0;
}

confine_runner confine_host_report_selected(const confine_host_report *report) {
  return report->selected;
}

int confine_host_report_landlock_abi(const confine_host_report *report) {
  return report->landlock_abi;
}
