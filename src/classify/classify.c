#include <confine/classify.h>

#include "classify/text.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* More rules than any runner has; what a caller hands in beyond them is refused. */
#define RULES_MAX 64

/* Lines with a denial's words that speak of something else: a login that a remote host refused. */
static const char *const not_denials[] = {
    "permission denied (publickey", "permission denied (password",    "permission denied (keyboard-interactive",
    "permission denied (gssapi",    "permission denied (hostbased",   "permission denied, please try again",
    "permission denied (none",      "permission denied (http-basic)", NULL,
};

/* What a shell, and exec's users like env and nice, exit with when a file cannot be executed (POSIX, Exit Status
 * for Commands): no file effect was asked for. */
#define EXIT_NOT_EXECUTABLE 126

const char *confine_verdict_name(confine_verdict_kind kind) {
  switch (kind) {
  case CONFINE_VERDICT_OK: return "ok";
  case CONFINE_VERDICT_COMMAND_FAILED: return "command-failed";
  case CONFINE_VERDICT_SIGNALED: return "signaled";
  case CONFINE_VERDICT_DENIED: return "denied";
  case CONFINE_VERDICT_RUNNER_FAILED: return "runner-failed";
  case CONFINE_VERDICT_NOT_STARTED: return "not-started";
  default: return NULL;
  }
}

const char *confine_evidence_name(confine_evidence evidence) {
  switch (evidence) {
  case CONFINE_EVIDENCE_NONE: return "none";
  case CONFINE_EVIDENCE_STATUS_CHANNEL: return "status-channel";
  case CONFINE_EVIDENCE_OBSERVER: return "observer";
  case CONFINE_EVIDENCE_SPAWN_ERROR: return "spawn-error";
  case CONFINE_EVIDENCE_STDERR_RULE: return "stderr-rule";
  case CONFINE_EVIDENCE_STDERR_SIGNATURE: return "stderr-signature";
  default: return NULL;
  }
}

struct search {
  const confine_outcome *outcome;
  const char *text; /* what is looked at of standard error */
  size_t length;
  confine_verdict *verdict;
};

static void found(struct search *search, const struct confine__line *line, const char *signature,
                  confine_verdict_kind kind, confine_evidence evidence) {
  search->verdict->kind = kind;
  search->verdict->evidence = evidence;
  search->verdict->signature = signature;
  search->verdict->line_offset = (size_t)(line->text - search->outcome->stderr_bytes);
  search->verdict->line_length = line->length;
}

static int exit_code_allowed(const confine_failure_rule *rule, int32_t code) {
  if (!rule->allowed_exit_codes)
    return 1;
  for (size_t i = 0; i < rule->allowed_exit_code_count; i++)
    if (rule->allowed_exit_codes[i] == code)
      return 1;
  return 0;
}

static int is_informational(const confine_failure_rule *rule, const struct confine__line *line) {
  if (!rule->informational_lines)
    return 0;
  for (const char *const *words = rule->informational_lines; *words; words++)
    if (confine__line_equals(line, *words))
      return 1;
  return 0;
}

static int rule_matches(struct search *search, const confine_failure_rule *rule) {
  const char *at = search->text;
  size_t left = search->length;
  struct confine__line line;
  if (!exit_code_allowed(rule, search->outcome->exit_code))
    return 0;
  while (confine__line_next(&at, &left, &line)) {
    if (is_informational(rule, &line))
      continue;
    const char *signature = confine__line_first_of(&line, rule->fatal_signatures);
    if (signature) {
      found(search, &line, signature, CONFINE_VERDICT_RUNNER_FAILED, CONFINE_EVIDENCE_STDERR_RULE);
      return 1;
    }
  }
  return 0;
}

static int denial_matches(struct search *search, const char *const *signatures) {
  const char *at = search->text;
  size_t left = search->length;
  struct confine__line line;
  if (search->outcome->exit_code == EXIT_NOT_EXECUTABLE)
    return 0;
  while (confine__line_next(&at, &left, &line)) {
    const char *signature = confine__line_first_of(&line, signatures);
    if (signature && !confine__line_first_of(&line, not_denials)) {
      found(search, &line, signature, CONFINE_VERDICT_DENIED, CONFINE_EVIDENCE_STDERR_SIGNATURE);
      return 1;
    }
  }
  return 0;
}

/* Returns 1 when the records leave nothing to be decided. */
static int judge_by_records(const confine_records *records, confine_verdict *verdict) {
  if (records->has_status && !records->started) {
    verdict->kind = records->not_found ? CONFINE_VERDICT_NOT_STARTED : CONFINE_VERDICT_RUNNER_FAILED;
    verdict->evidence = CONFINE_EVIDENCE_STATUS_CHANNEL;
    return 1;
  }
  if (records->has_observer && records->denials) {
    verdict->kind = CONFINE_VERDICT_DENIED;
    verdict->evidence = CONFINE_EVIDENCE_OBSERVER;
    return 1;
  }
  return 0;
}

static void judge(const confine_failure_rule *rules, size_t rule_count, const char *const *signatures,
                  const confine_outcome *outcome, confine_verdict *verdict) {
  static const confine_records none = CONFINE_RECORDS_INIT;
  const confine_records *records = outcome->records ? outcome->records : &none;
  struct search search = {.outcome = outcome, .text = outcome->stderr_bytes, .verdict = verdict};
  if (judge_by_records(records, verdict))
    return;
  if (outcome->signal || outcome->exit_code < 0) {
    verdict->kind = CONFINE_VERDICT_SIGNALED;
    return;
  }
  if (outcome->exit_code == 0)
    return;
  verdict->kind = CONFINE_VERDICT_COMMAND_FAILED;
  search.length = search.text ? outcome->stderr_length : 0;
  if (search.length > CONFINE_CLASSIFY_MAX) {
    search.text += search.length - CONFINE_CLASSIFY_MAX;
    search.length = CONFINE_CLASSIFY_MAX;
  }
  for (size_t i = 0; !records->has_status && i < rule_count; i++)
    if (rule_matches(&search, &rules[i]))
      return;
  if (!records->has_observer)
    denial_matches(&search, signatures);
}

int confine_classify_by_rules(const confine_failure_rule *rules, size_t rule_count,
                              const char *const *denial_signatures, const confine_outcome *outcome,
                              confine_verdict *ret_verdict) {
  static const char *const nothing[] = {NULL};
  confine_verdict verdict = CONFINE_VERDICT_INIT;
  if (ret_verdict->size != sizeof *ret_verdict || outcome->size != sizeof *outcome || rule_count > RULES_MAX ||
      (outcome->records && outcome->records->size != sizeof *outcome->records))
    return CONFINE_EINVAL;
  for (size_t i = 0; i < rule_count; i++)
    if (rules[i].size != sizeof rules[i] || !rules[i].fatal_signatures)
      return CONFINE_EINVAL;
  judge(rules, rule_count, denial_signatures ? denial_signatures : nothing, outcome, &verdict);
  *ret_verdict = verdict;
  return 0;
}

int confine_classify(const confine_wrapped *wrapped, const confine_outcome *outcome, confine_verdict *ret_verdict) {
  confine_failure_rule rules[RULES_MAX];
  size_t count = confine_wrapped_failure_rule_count(wrapped);
  for (size_t i = 0; i < count; i++) {
    rules[i].size = sizeof rules[i];
    if (confine_wrapped_failure_rule(wrapped, i, &rules[i]) != 0)
      return CONFINE_EINVAL;
  }
  return confine_classify_by_rules(rules, count, confine_wrapped_denial_signatures(wrapped), outcome, ret_verdict);
}

static int is_usable(const char *directory) {
  int fd = open(directory ? directory : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    return 0;
  int usable = faccessat(fd, ".", X_OK, AT_EACCESS) == 0;
  close(fd);
  return usable;
}

int confine_classify_spawn_error(const confine_wrapped *wrapped, int spawn_errno, const char *workdir,
                                 confine_verdict *ret_verdict) {
  confine_verdict verdict = CONFINE_VERDICT_INIT;
  if (ret_verdict->size != sizeof *ret_verdict)
    return CONFINE_EINVAL;
  int runner = confine_wrapped_runner(wrapped) != CONFINE_RUNNER_NONE &&
               (spawn_errno == ENOENT || spawn_errno == EACCES) && is_usable(workdir);
  verdict.kind = runner ? CONFINE_VERDICT_RUNNER_FAILED : CONFINE_VERDICT_NOT_STARTED;
  verdict.evidence = CONFINE_EVIDENCE_SPAWN_ERROR;
  *ret_verdict = verdict;
  return 0;
}
