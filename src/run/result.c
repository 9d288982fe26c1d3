#include "run/result.h"
#include "base/error.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

int confine__result_new(const confine_policy *policy, confine_result **ret_result, confine_error *error) {
  confine_result *result = calloc(1, sizeof *result);
  size_t count = confine_policy_root_count(policy);
  if (!result)
    return confine__error_memory(error);
  result->mode = confine_policy_mode(policy);
  result->exit_code = -1;
  result->roots = calloc(count + 1, sizeof *result->roots);
  const char *workspace = confine_policy_workspace(policy);
  result->workspace = workspace ? strdup(workspace) : NULL;
  int failed = !result->roots || (workspace && !result->workspace);
  for (size_t i = 0; !failed && i < count; i++)
    failed = (result->roots[i] = strdup(confine_policy_root(policy, i))) == NULL;
  if (failed) {
    confine_result_free(result);
    return confine__error_memory(error);
  }
  *ret_result = result;
  return 0;
}

void confine_result_free(confine_result *result) {
  if (!result)
    return;
  for (size_t i = 0; result->roots && result->roots[i]; i++)
    free(result->roots[i]);
  for (size_t i = 0; i < result->notice_count; i++)
    free(result->notices[i].text);
  free(result->roots);
  free(result->workspace);
  free(result->failure_detail);
  free(result->custom_failure);
  free(result->denials);
  free(result);
}

int confine__result_notice(confine_result *result, const char *code, const char *text) {
  if (result->notice_count == CONFINE__NOTICES_MAX)
    return CONFINE_ELIMIT;
  char *copy = strdup(text);
  if (!copy)
    return CONFINE_ENOMEM;
  result->notices[result->notice_count++] = (struct confine__notice){code, copy};
  return 0;
}

/* The command is there or not, may run or not; that is no fault of the runner. */
static int is_command_fault(int error) {
  return error == ENOENT || error == ENOTDIR || error == ELOOP || error == ENAMETOOLONG || error == EACCES ||
         error == EPERM || error == ENOEXEC || error == EISDIR || error == ETXTBSY || error == ELIBBAD ||
         error == EINVAL || error == E2BIG;
}

static int exec_exit_code(int error) {
  return error == ENOENT || error == ENOTDIR || error == ELOOP || error == ENAMETOOLONG ? 127 : 126;
}

static int set_failure(confine_result *result, const struct confine__front_result *front,
                       const confine_policy *policy) {
  const char *root = front->index >= 0 ? confine_policy_root(policy, (size_t)front->index) : NULL;
  result->failed_step = front->step == CONFINE__STEP_NONE ? "runner" : confine__step_name(front->step);
  result->failure_evidence = "status-channel";
  int n;
  if (result->custom_failure) {
    result->failed_step = "custom";
    result->failure_evidence = "stderr-rule";
    result->failure_detail = strdup(result->custom_failure);
    return result->failure_detail ? 0 : CONFINE_ENOMEM;
  }
  if (front->step == CONFINE__STEP_MONITOR && !front->error)
    n = asprintf(&result->failure_detail, "the monitor process was killed; the command's tree was ended");
  else if (front->step == CONFINE__STEP_MONITOR && front->started)
    n = asprintf(&result->failure_detail, "the monitor process could not go on: %s; the command's tree was ended",
                 strerror(front->error));
  else if (front->step == CONFINE__STEP_NONE)
    n = asprintf(&result->failure_detail, front->started ? "the runner was ended, and with it the command's tree"
                                                         : "the runner ended before it started the command");
  else if (front->step == CONFINE__STEP_OPEN_ROOT && root)
    n = asprintf(&result->failure_detail, "writable root %s was changed after the policy was made%s%s", root,
                 front->error ? ": " : "", front->error ? strerror(front->error) : "");
  else
    n = asprintf(&result->failure_detail, "%s: %s%s%s", result->failed_step, strerror(front->error),
                 root ? " at " : "", root ? root : "");
  return n < 0 ? CONFINE_ENOMEM : 0;
}

int confine__result_fill(confine_result *result, const struct confine__front_result *front,
                         const confine_policy *policy, confine_error *error) {
  int r = 0;
  result->duration_ms = front->duration_ms;
  result->timed_out = front->timed_out;
  result->started = front->started;
  if (front->ended && WIFSIGNALED(front->wait_status))
    result->signal = WTERMSIG(front->wait_status);
  else if (front->ended)
    result->exit_code = WEXITSTATUS(front->wait_status);
  else if (front->timed_out && front->started)
    result->signal = SIGKILL;
  else if (front->step == CONFINE__STEP_EXEC && is_command_fault(front->error))
    result->exit_code = exec_exit_code(front->error);
  else
    r = set_failure(result, front, policy);
  if (r == 0 && front->cwd_hidden)
    r = confine__result_notice(result, "cwd-hidden",
                               "the current directory is hidden inside; the command started in the workspace");
  return r < 0 ? confine__error_memory(error) : 0;
}

confine_runner confine_result_runner(const confine_result *result) {
  return result->runner;
}

confine_enforcement confine_result_enforcement(const confine_result *result) {
  return result->enforcement;
}

uint32_t confine_result_gaps(const confine_result *result) {
  return result->gaps;
}

uint32_t confine_result_open_channels(const confine_result *result) {
  return result->open_channels;
}

int confine_result_started(const confine_result *result) {
  return result->started;
}

int confine_result_exit_code(const confine_result *result) {
  return result->exit_code;
}

int confine_result_signal(const confine_result *result) {
  return result->signal;
}

const char *confine_result_signal_name(const confine_result *result) {
  static const char *const names[] = {
      [SIGHUP] = "SIGHUP",   [SIGINT] = "SIGINT",     [SIGQUIT] = "SIGQUIT",     [SIGILL] = "SIGILL",
      [SIGTRAP] = "SIGTRAP", [SIGABRT] = "SIGABRT",   [SIGBUS] = "SIGBUS",       [SIGFPE] = "SIGFPE",
      [SIGKILL] = "SIGKILL", [SIGUSR1] = "SIGUSR1",   [SIGSEGV] = "SIGSEGV",     [SIGUSR2] = "SIGUSR2",
      [SIGPIPE] = "SIGPIPE", [SIGALRM] = "SIGALRM",   [SIGTERM] = "SIGTERM",     [SIGSTKFLT] = "SIGSTKFLT",
      [SIGCHLD] = "SIGCHLD", [SIGCONT] = "SIGCONT",   [SIGSTOP] = "SIGSTOP",     [SIGTSTP] = "SIGTSTP",
      [SIGTTIN] = "SIGTTIN", [SIGTTOU] = "SIGTTOU",   [SIGURG] = "SIGURG",       [SIGXCPU] = "SIGXCPU",
      [SIGXFSZ] = "SIGXFSZ", [SIGVTALRM] = "SIGVTALRM", [SIGPROF] = "SIGPROF",   [SIGWINCH] = "SIGWINCH",
      [SIGIO] = "SIGIO",     [SIGPWR] = "SIGPWR",     [SIGSYS] = "SIGSYS",
  };
  /* Real-time signals have no names of their own, only a base and a number (signal(7)). */
  static const char *const real_time[] = {
      "SIGRTMIN", "SIGRTMIN+1", "SIGRTMIN+2", "SIGRTMIN+3", "SIGRTMIN+4", "SIGRTMIN+5", "SIGRTMIN+6", "SIGRTMIN+7",
      "SIGRTMIN+8", "SIGRTMIN+9", "SIGRTMIN+10", "SIGRTMIN+11", "SIGRTMIN+12", "SIGRTMIN+13", "SIGRTMIN+14",
      "SIGRTMIN+15", "SIGRTMIN+16", "SIGRTMIN+17", "SIGRTMIN+18", "SIGRTMIN+19", "SIGRTMIN+20", "SIGRTMIN+21",
      "SIGRTMIN+22", "SIGRTMIN+23", "SIGRTMIN+24", "SIGRTMIN+25", "SIGRTMIN+26", "SIGRTMIN+27", "SIGRTMIN+28",
      "SIGRTMIN+29", "SIGRTMIN+30"};
  int number = result->signal;
  if (number >= 34 && number <= 64)
    return real_time[number - 34];
  return number > 0 && (size_t)number < sizeof names / sizeof names[0] ? names[number] : NULL;
}

int confine_result_denied(const confine_result *result) {
  return result->observed && (result->denials->count || result->denials->dropped);
}

confine_evidence confine_result_denial_evidence(const confine_result *result) {
  return result->observed ? CONFINE_EVIDENCE_OBSERVER : CONFINE_EVIDENCE_NONE;
}

size_t confine_result_denial_count(const confine_result *result) {
  return result->observed ? result->denials->count : 0;
}

uint64_t confine_result_denials_dropped(const confine_result *result) {
  return result->observed ? result->denials->dropped : 0;
}

int confine_result_denial(const confine_result *result, size_t index, confine_denial *ret_denial) {
  confine_denial denial = {.size = sizeof denial};
  if (index >= confine_result_denial_count(result) || ret_denial->size < sizeof denial)
    return CONFINE_EINVAL;
  const struct confine__denial *entry = &result->denials->entries[index];
  denial.operation = (confine_operation)entry->operation;
  denial.system_errno = entry->error;
  denial.pid = entry->pid;
  denial.count = entry->count;
  denial.comm = entry->comm;
  denial.path = result->denials->names + entry->path;
  *ret_denial = denial;
  return 0;
}

const char *confine_operation_name(confine_operation operation) {
  static const char *const names[] = {NULL,      "open",  "create", "truncate", "unlink", "rmdir",
                                      "rename",  "link",  "symlink", "mkdir",   "mknod",  "bind",
                                      "chmod",   "chown", "utimes", "xattr",    "flags"};
  size_t i = (size_t)operation;
  return i < sizeof names / sizeof names[0] ? names[i] : NULL;
}

int confine_result_timed_out(const confine_result *result) {
  return result->timed_out;
}

const char *confine_result_failed_step(const confine_result *result) {
  return result->failed_step;
}

const char *confine_result_failure_detail(const confine_result *result) {
  return result->failure_detail;
}

int confine_result_exit_status(const confine_result *result) {
  if (result->timed_out)
    return 124;
  if (result->failed_step)
    return 125;
  return result->signal ? 128 + result->signal : result->exit_code;
}
