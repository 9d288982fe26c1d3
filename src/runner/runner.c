#include "runner/runner.h"
#include "enter/plan.h"

#include <stdio.h>
#include <string.h>

static const char *const names[] = {
    [CONFINE_RUNNER_NAMESPACE] = "namespace", [CONFINE_RUNNER_BWRAP] = "bwrap",
    [CONFINE_RUNNER_LANDLOCK] = "landlock",   [CONFINE_RUNNER_SEATBELT] = "seatbelt",
    [CONFINE_RUNNER_WINDOWS_ACL] = "windows-acl", [CONFINE_RUNNER_CUSTOM] = "custom",
};
#define NAMES ((int)(sizeof names / sizeof names[0]))

const char *confine_runner_name(confine_runner runner) {
  return (int)runner > 0 && (int)runner < NAMES ? names[runner] : NULL;
}

int confine_runner_parse(const char *word, confine_runner *ret_runner) {
  for (int i = 1; i < NAMES; i++)
    if (strcmp(names[i], word) == 0) {
      *ret_runner = (confine_runner)i;
      return 0;
    }
  return CONFINE_EINVAL;
}

const char *confine_enforcement_name(confine_enforcement enforcement) {
  switch (enforcement) {
  case CONFINE_ENFORCEMENT_FULL: return "full";
  case CONFINE_ENFORCEMENT_PARTIAL: return "partial";
  default: return NULL;
  }
}

/* The word at the position of the only bit of value. */
static const char *word_of_bit(uint32_t value, const char *const *words, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (value == 1u << i)
      return words[i];
  return NULL;
}

const char *confine_gap_name(uint32_t gap) {
  static const char *const words[] = {
      "metadata",   "truncate",   "refer",      "inherited-fd",        "everyone-writable",  "null-dacl",
      "hard-links", "fat-volume", "unverified-platform", "terminal-injection", "workspace-race", "devices",
      "proc"};
  return word_of_bit(gap, words, sizeof words / sizeof words[0]);
}

const char *confine_channel_name(uint32_t channel) {
  static const char *const words[] = {"ipc", "network", "process", "terminal"};
  return word_of_bit(channel, words, sizeof words / sizeof words[0]);
}

const struct confine__runner *confine__runner_find(confine_runner id) {
  static const struct confine__runner *const runners[] = {&confine__runner_namespace, &confine__runner_bwrap,
                                                          &confine__runner_landlock, &confine__runner_custom};
  for (size_t i = 0; i < sizeof runners / sizeof runners[0]; i++)
    if (runners[i]->id == id)
      return runners[i];
  return NULL;
}

void confine__launcher_words(const struct confine__host *host, const confine_policy *policy,
                             const struct confine__call *call, struct confine__argv *out) {
  const struct confine__held_path *root;
  for (size_t i = 0; (root = confine__policy_root(policy, i)) != NULL; i++) {
    confine__argv_add(out, "--root");
    confine__argv_addf(out, "%llu:%llu:%s", (unsigned long long)root->device, (unsigned long long)root->inode,
                       root->path);
  }
  if (host->guard)
    confine__argv_add(out, "--guard");
  if (host->supervisor)
    confine__argv_add(out, "--supervise");
  if (host->supervisor && call->observe)
    confine__argv_add(out, "--observe");
  if (policy->isolation) {
    confine__argv_add(out, "--isolate");
    const char *network = policy->isolation & CONFINE_ISOLATE_NETWORK ? ",network" : "";
    const char *process = policy->isolation & CONFINE_ISOLATE_PROCESS ? ",process" : "";
    const char *ipc = policy->isolation & CONFINE_ISOLATE_IPC ? ",ipc" : "";
    char list[32];
    snprintf(list, sizeof list, "%s%s%s", network, process, ipc);
    confine__argv_add(out, list + 1);
  }
  confine__argv_add(out, "--monitor");
  if (call->keep_background)
    confine__argv_add(out, "--keep-background");
  if (call->status_fd >= 0) {
    confine__argv_add(out, "--status-fd");
    confine__argv_addf(out, "%d", call->status_fd);
  }
}

uint32_t confine__common_plan_flags(const struct confine__host *host, const confine_policy *policy) {
  uint32_t flags = CONFINE__PLAN_LANDLOCK | CONFINE__PLAN_CAPABILITIES | CONFINE__PLAN_DEVICES;
  if (host->guard)
    flags |= CONFINE__PLAN_GUARD;
  if (host->supervisor)
    flags |= CONFINE__PLAN_METADATA;
  if (policy->mode == CONFINE_MODE_WORKSPACE_WRITE)
    flags |= CONFINE__PLAN_WRITABLE | CONFINE__PLAN_HOST_TMP;
  if (policy->isolation & CONFINE_ISOLATE_NETWORK)
    flags |= CONFINE__PLAN_ISOLATE_NETWORK;
  if (policy->isolation & CONFINE_ISOLATE_PROCESS)
    flags |= CONFINE__PLAN_ISOLATE_PROCESS;
  if (policy->isolation & CONFINE_ISOLATE_IPC)
    flags |= CONFINE__PLAN_ISOLATE_IPC;
  return flags;
}
