/* One call, from policy to record: choose, start, read what happened. */
#include "base/error.h"
#include "enter/plan.h"
#include "monitor/front.h"
#include "policy/policy.h"
#include "provider/provider.h"
#include "run/result.h"

#include <confine/classify.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

struct call {
  confine_provider *provider;
  const char *const *argv;
  const confine_policy *policy;
  const confine_run_options *options;
  confine_result *result;
  struct confine__front_result front;
  int observe;
  char *custom_failure; /* what a custom runner said when it failed; owned */
};

/* Standard error on its way through this process. */
struct stream {
  int from, to;
  struct confine__tail *tail;
};

static void blank_plan(struct confine__plan *plan) {
  memset(plan, 0, sizeof *plan);
  plan->envp = environ;
  plan->cwd.fd = -1;
  plan->keep_fd = -1;
  for (int i = 0; i < 3; i++)
    plan->stdio[i] = -1;
}

static int start(struct call *call, struct confine__plan *plan, int inside, const struct stream *stream,
                 confine_error *error) {
  struct confine__front_options options = {.timeout_ms = (int64_t)(call->options->timeout_seconds * 1000),
                                           .keep_background = call->options->keep_background,
                                           .release_stdio = call->options->release_stdio,
                                           .parent = -1,
                                           .last_act = call->options->release_stdio,
                                           .denials = call->result->denials,
                                           .stderr_pipe = stream ? stream->from : -1,
                                           .stderr_tail = stream ? stream->tail : NULL,
                                           .stderr_writer = stream ? stream->to : -1,
                                           .outside = -1,
                                           .inside = inside};
  if (call->options->timeout_seconds > 0 && options.timeout_ms == 0)
    options.timeout_ms = 1;
  int r = confine__front_run(plan, &options, &call->front);
  return r < 0 ? confine__error_errno(error, CONFINE_ESYSTEM, -r, "cannot start a monitor process") : 0;
}

/* Where the caller is, to be found again in the private tree. A directory without a name is told apart by
 * its identity alone. */
static void note_cwd(struct confine__plan *plan, char *name, size_t size) {
  struct stat st;
  if (stat(".", &st) != 0)
    return;
  plan->cwd.device = st.st_dev;
  plan->cwd.inode = st.st_ino;
  plan->cwd.path = getcwd(name, size);
}

static int run_direct(struct call *call, const struct confine__runner *runner, confine_error *error) {
  struct confine__plan plan;
  char cwd[PATH_MAX];
  size_t count = confine_policy_root_count(call->policy);
  struct confine__root *roots = calloc(count + 1, sizeof *roots);
  if (!roots)
    return confine__error_memory(error);
  for (size_t i = 0; i < count; i++) {
    const struct confine__held_path *held = confine__policy_root(call->policy, i);
    roots[i] = (struct confine__root){held->path, held->fd, held->device, held->inode};
  }
  blank_plan(&plan);
  plan.flags = runner ? runner->plan_flags(confine__provider_host(call->provider), call->policy) : 0;
  if (call->observe && plan.flags & CONFINE__PLAN_METADATA)
    plan.flags |= CONFINE__PLAN_OBSERVE;
  plan.roots = roots;
  plan.root_count = count;
  plan.argv = (char *const *)call->argv;
  confine__plan_host(&plan);
  if (plan.flags & CONFINE__PLAN_MOUNTS)
    note_cwd(&plan, cwd, sizeof cwd);
  int r = start(call, &plan, -1, NULL, error);
  free(roots);
  return r;
}

static int run_wrapped(struct call *call, const struct confine__runner *runner, confine_error *error) {
  int channel[2];
  confine_wrapped *wrapped = NULL;
  struct confine__plan plan;
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel) != 0)
    return confine__error_errno(error, CONFINE_ESYSTEM, errno, "cannot make a status channel");
  struct confine__call inner = {.argv = call->argv,
                                .observe = call->observe,
                                .status_fd = channel[1],
                                .keep_background = call->options->keep_background};
  int r = confine__provider_wrap(call->provider, runner, &inner, call->policy, &wrapped, error);
  if (r == 0) {
    blank_plan(&plan);
    plan.argv = (char *const *)confine_wrapped_argv(wrapped);
    plan.keep_fd = inner.status_fd;
    fcntl(channel[1], F_SETFD, 0);
    r = start(call, &plan, channel[0], NULL, error);
  }
  close(channel[0]);
  close(channel[1]);
  confine_wrapped_free(wrapped);
  return r;
}

/* Nothing inside a custom runner restores what is kept from its loader, and from Bash if it is a script. */
static char **harmless_environment(void) {
  static const char *const dropped[] = {"LD_", "BASH_ENV=", "ENV=", "BASH_FUNC_", "SHELLOPTS=", "BASHOPTS=",
                                        "GLIBC_TUNABLES=", "GCONV_PATH=", "LOCPATH="};
  size_t count = 0, kept = 0;
  while (environ[count])
    count++;
  char **environment = calloc(count + 1, sizeof *environment);
  for (size_t i = 0; environment && i < count; i++) {
    size_t k = 0;
    while (k < sizeof dropped / sizeof dropped[0] && strncmp(environ[i], dropped[k], strlen(dropped[k])) != 0)
      k++;
    if (k == sizeof dropped / sizeof dropped[0])
      environment[kept++] = environ[i];
  }
  return environment;
}

/* A custom runner has no status channel: what it says on standard error is all there is to know. */
static void judge_custom(struct call *call, const confine_wrapped *wrapped, const struct confine__tail *tail) {
  confine_outcome outcome = CONFINE_OUTCOME_INIT;
  confine_verdict verdict = CONFINE_VERDICT_INIT;
  if (!call->front.ended || WIFSIGNALED(call->front.wait_status))
    return;
  outcome.exit_code = WEXITSTATUS(call->front.wait_status);
  outcome.stderr_bytes = tail->bytes;
  outcome.stderr_length = tail->length;
  if (confine_classify(wrapped, &outcome, &verdict) < 0 || verdict.kind != CONFINE_VERDICT_RUNNER_FAILED)
    return;
  call->front.started = call->front.ended = 0;
  free(call->custom_failure);
  call->custom_failure = strndup(tail->bytes + verdict.line_offset, verdict.line_length);
}

static int run_custom(struct call *call, const struct confine__runner *runner, confine_error *error) {
  int ends[2] = {-1, -1};
  confine_wrapped *wrapped = NULL;
  struct confine__plan plan;
  struct confine__call inner = {.argv = call->argv, .status_fd = -1};
  struct confine__tail *tail = malloc(sizeof *tail);
  blank_plan(&plan);
  char **environment = harmless_environment();
  plan.envp = environment;
  int r = 0;
  if (!tail || !environment) {
    free(environment);
    free(tail);
    return confine__error_memory(error);
  }
  if (pipe2(ends, O_CLOEXEC) != 0)
    r = confine__error_errno(error, CONFINE_ESYSTEM, errno, "cannot make a pipe for standard error");
  if (r == 0)
    r = confine__provider_wrap(call->provider, runner, &inner, call->policy, &wrapped, error);
  if (r == 0) {
    tail->length = 0;
    plan.argv = (char *const *)confine_wrapped_argv(wrapped);
    plan.stdio[2] = ends[1];
    r = start(call, &plan, -1, &(struct stream){ends[0], ends[1], tail}, error);
  }
  if (r == 0)
    judge_custom(call, wrapped, tail);
  if (ends[0] >= 0)
    close(ends[0]);
  confine_wrapped_free(wrapped);
  free(environment);
  free(tail);
  return r;
}

/* A step that fails for want of a facility says that this runner is not usable here; the others say
 * something about the call. */
static int is_unusable(const struct confine__front_result *front) {
  if (front->started || front->error == EAGAIN || front->error == ENOMEM || front->error == EMFILE ||
      front->error == ENFILE)
    return 0;
  switch (front->step) {
  case CONFINE__STEP_CLONE:
  case CONFINE__STEP_ID_MAP:
  case CONFINE__STEP_CLONE_ROOT:
  case CONFINE__STEP_READ_ONLY:
  case CONFINE__STEP_PRIVATE_DEV:
  case CONFINE__STEP_LANDLOCK:
  case CONFINE__STEP_RESTRICT:
  case CONFINE__STEP_GUARD:
    return 1;
  default:
    return 0;
  }
}

/* The runner around the launcher has ended before that one said anything. */
static int is_silent_failure(const struct confine__front_result *front) {
  return !front->started && front->step == CONFINE__STEP_NONE && !front->timed_out;
}

static int has_terminal(void) {
  return isatty(0) || isatty(1) || isatty(2);
}

static int check_full(const struct confine__runner *runner, uint32_t gaps, confine_error *error) {
  char words[256] = "";
  size_t used = 0;
  if (!gaps)
    return 0;
  for (uint32_t bit = 1; bit && used < sizeof words; bit <<= 1)
    if ((gaps & bit) && confine_gap_name(bit))
      used += (size_t)snprintf(words + used, sizeof words - used, "%s%s", used ? ", " : "", confine_gap_name(bit));
  return confine__error(error, CONFINE_EPARTIAL,
                        "full enforcement is required, but the %s runner's is partial here (gaps: %s); see `confine "
                        "doctor`, or leave out --require full",
                        runner->name, words);
}

/* Tries one candidate. Returns 1 when the command ran or is this call's own failure, 0 when the runner
 * turned out not to be usable, or an error. */
static int try_runner(struct call *call, confine_runner id, int sole, confine_error *error) {
  const struct confine__runner *runner = confine__runner_find(id);
  if (!runner)
    return confine__unavailable(error, call->policy->mode, NULL);
  uint32_t gaps = runner->gaps(confine__provider_host(call->provider));
  int r = confine__provider_check(call->provider, runner, call->policy, runner->plan_flags != NULL, error);
  if (r == 0 && call->options->require_full)
    r = check_full(runner, gaps, error);
  if (r < 0)
    return r;
  call->result->runner = id;
  call->result->gaps = gaps;
  call->result->enforcement = confine__enforcement_of(gaps);
  if (runner->plan_flags) {
    if (id == CONFINE_RUNNER_LANDLOCK && confine__provider_host(call->provider)->landlock_abi < 1)
      return 0;
    r = run_direct(call, runner, error);
  } else if (id == CONFINE_RUNNER_CUSTOM) {
    r = run_custom(call, runner, error);
  } else {
    /* A probe is one more start of the runner: it decides between several, and explains what has failed. */
    if (!sole && confine__provider_probe(call->provider, id, error) < 0)
      return 0;
    r = run_wrapped(call, runner, error);
    if (r == 0 && is_silent_failure(&call->front) && confine__provider_probe(call->provider, id, error) < 0)
      return 0;
  }
  if (r < 0)
    return r;
  return !is_unusable(&call->front) || sole ? 1 : 0;
}

/* Another runner may be able to do what this one cannot; a wrong call stays wrong. */
static int is_final(int tried) {
  return tried > 0 ||
         (tried < 0 && tried != CONFINE_EPARTIAL && tried != CONFINE_EUNSUPPORTED && tried != CONFINE_EUNAVAILABLE);
}

/* After the first candidate, which ended with r and told. */
static int try_others(struct call *call, const confine_runner *chain, size_t count, int r, const confine_error *told,
                      confine_error *error) {
  confine_error first = CONFINE_ERROR_INIT, ignored = CONFINE_ERROR_INIT;
  if (r < 0 && told)
    first = *told;
  if (r < 0)
    first.code = r;
  for (size_t i = 1; i < count; i++) {
    confine_error *slot = first.code ? &ignored : &first;
    int tried = try_runner(call, chain[i], i + 1 == count, slot);
    if (tried > 0)
      return 0;
    if (is_final(tried)) {
      if (error)
        *error = *slot;
      return tried;
    }
    r = r ? r : tried;
    if (!tried)
      first.code = 0; /* a refusal that was tried outranks none */
  }
  if (r < 0 && first.code) {
    if (error)
      *error = first;
    return r;
  }
  return confine__unavailable(error, call->policy->mode, NULL);
}

/* Room for errors takes pages of the stack, which the usual call has no need to touch. */
static int try_chain(struct call *call, confine_error *error) {
  size_t count = 1;
  const confine_runner *chain = &call->options->runner;
  if (call->options->runner == CONFINE_RUNNER_NONE)
    chain = confine__provider_chain(call->provider, &count);
  int tried = try_runner(call, chain[0], count == 1, error);
  if (is_final(tried))
    return tried < 0 ? tried : 0;
  int r = try_others(call, chain, count, tried, error, error);
  if (r == 0 && error) {
    error->code = 0;
    error->text[0] = '\0';
  }
  return r;
}

static int notice_home(struct call *call) {
  const char *home = getenv("HOME");
  const struct confine__held_path *workspace = &call->policy->workspace;
  struct stat st;
  if (!workspace->path || !home || stat(home, &st) != 0 || st.st_dev != workspace->device ||
      st.st_ino != workspace->inode)
    return 0;
  return confine__result_notice(call->result, "home-workspace",
                                "the workspace is the home directory: every file in it is writable, start-up files "
                                "and credentials included");
}

/* Finds the file a command names, as execvp(3) would, and tells whether it is set-id. */
static int is_set_id(const char *command) {
  char path[PATH_MAX];
  struct stat st;
  const char *at = getenv("PATH");
  if (strchr(command, '/'))
    return stat(command, &st) == 0 && (st.st_mode & (S_ISUID | S_ISGID)) != 0;
  while (at && *at) {
    size_t length = strcspn(at, ":");
    int n = snprintf(path, sizeof path, "%.*s/%s", (int)length, at, command);
    if (n > 0 && (size_t)n < sizeof path && stat(path, &st) == 0 && S_ISREG(st.st_mode))
      return (st.st_mode & (S_ISUID | S_ISGID)) != 0;
    at += length + (at[length] == ':');
  }
  return 0;
}

static int add_notices(struct call *call, confine_error *error) {
  confine_result *result = call->result;
  int r = notice_home(call);
  if (r == 0 && result->gaps & (CONFINE_GAP_REFER | CONFINE_GAP_TRUNCATE | CONFINE_GAP_DEVICES))
    r = confine__result_notice(result, "partial-abi", "this kernel's Landlock is too old for full enforcement");
  if (r == 0 && result->gaps & CONFINE_GAP_METADATA)
    r = confine__result_notice(result, "nested-sandbox",
                               "this process is already supervised (by a sandbox around it), or its kernel is too old: "
                               "metadata calls are not governed a second time, and refused writes are not observed");
  if (r == 0 && result->enforcement != CONFINE_ENFORCEMENT_NONE && is_set_id(call->argv[0]))
    r = confine__result_notice(result, "setid-inert",
                               "the command is a set-id program, whose bits do nothing inside: it runs as the caller");
  return r < 0 ? confine__error_memory(error) : 0;
}

/* The list is large and mostly never touched. */
static int prepare_observer(struct call *call, confine_error *error) {
  if (call->options->no_observe || call->policy->mode == CONFINE_MODE_DANGER_FULL_ACCESS ||
      !confine__provider_host(call->provider)->supervisor)
    return 0;
  call->observe = 1;
  call->result->denials = calloc(1, sizeof *call->result->denials);
  return call->result->denials ? 0 : confine__error_memory(error);
}

static int execute(struct call *call, confine_error *error) {
  int r = prepare_observer(call, error);
  if (r < 0)
    return r;
  if (call->policy->mode == CONFINE_MODE_DANGER_FULL_ACCESS)
    r = run_direct(call, NULL, error);
  else
    r = try_chain(call, error);
  if (r < 0)
    return r;
  if (call->result->enforcement != CONFINE_ENFORCEMENT_NONE)
    call->result->open_channels = confine__open_channels(call->policy, has_terminal());
  call->result->observed = call->observe && call->result->runner != CONFINE_RUNNER_CUSTOM;
  call->result->custom_failure = call->custom_failure;
  r = confine__result_fill(call->result, &call->front, call->policy, error);
  if (r == 0)
    r = add_notices(call, error);
  return r;
}

int confine_run(confine_provider *provider, const char *const *argv, const confine_policy *policy,
                const confine_run_options *options, confine_result **ret_result, confine_error *error) {
  static const confine_run_options defaults = CONFINE_RUN_OPTIONS_INIT;
  struct call call = {.provider = provider, .argv = argv, .policy = policy, .options = options ? options : &defaults};
  if (!argv || !argv[0])
    return confine__error(error, CONFINE_EINVAL, "no command given");
  if (policy->mode == CONFINE_MODE_WORKSPACE_WRITE && !policy->workspace.path)
    return confine__error(error, CONFINE_EINVAL, "workspace-write needs a workspace");
  int r = confine__result_new(policy, &call.result, error);
  if (r < 0)
    return r;
  r = execute(&call, error);
  if (r < 0) {
    confine_result_free(call.result);
    return r;
  }
  *ret_result = call.result;
  return 0;
}
