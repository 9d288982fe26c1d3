#include "prove.h"
#include "cli.h"

#include "escape/outside.h"
#include "escape/run.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { JOBS_PER_PROCESSOR = 2, JOBS_MIN = 4, JOBS_MAX = 16, RACES = 12 };

/* This one, and those beside it: DIR/bin/confine and DIR/libexec/confine, or build folders. */
struct programs {
  char self[PATH_MAX], attempt[PATH_MAX], object[PATH_MAX];
  const char *argv[2]; /* of the attempt */
};

struct proof {
  struct escape_config config;
  struct programs programs;
  json_t *runners, *checks;  /* NULL: for people */
  confine_runner_report entry; /* the runner whose turn it is */
  int watched;                 /* standard error is a terminal */
  size_t total, done;
  size_t held, open, escaped, gap, na; /* of all runners */
  int failed;                          /* a check gave no answer, and that has been said */
};

static const char *const modes[] = {"read-only", "workspace-write"};

static volatile sig_atomic_t interrupted;

static void interrupt(int number) {
  interrupted = number;
}

/* What cannot mean anything here is no check. */
static bool applies(const struct escape_technique *technique, const char *mode) {
  unsigned flags = technique->flags;
  return !((flags & ESCAPE_ROOT_ONLY) && geteuid() != 0) && !((flags & ESCAPE_USER_ONLY) && geteuid() == 0) &&
         !((flags & ESCAPE_WORKSPACE_ONLY) && strcmp(mode, "read-only") == 0);
}

/* `confine run` makes out the workspace's name when it starts, so a name that changed its meaning before
 * that is none of its concern: for those the argv is made first, as by `confine wrap`. */
static bool wanted(const struct escape_technique *technique, void *arg) {
  const struct proof *proof = arg;
  bool swaps = (technique->flags & ESCAPE_SWAPS_WORKSPACE) != 0;
  return applies(technique, proof->config.mode) && swaps == (proof->config.wrap != NULL);
}

static size_t count_applying(const char *mode) {
  size_t count = 0;
  for (size_t i = 0; i < escape_count(); i++)
    count += applies(escape_at(i), mode);
  return count;
}

static void free_words(char **words) {
  for (size_t i = 0; words && words[i]; i++)
    free(words[i]);
  free(words);
}

static int copy_words(const char *const *words, char ***ret_copy) {
  size_t n = 0;
  while (words[n])
    n++;
  char **copy = calloc(n + 1, sizeof *copy);
  for (size_t i = 0; copy && i < n; i++)
    if (!(copy[i] = strdup(words[i]))) {
      free_words(copy);
      copy = NULL;
    }
  if (!copy)
    return -ENOMEM;
  *ret_copy = copy;
  return 0;
}

static int wrap(void *arg, const char *mode, const char *workspace, char *const attempt[], char ***ret_argv) {
  struct proof *proof = arg;
  confine_settings settings = CONFINE_SETTINGS_INIT;
  confine_error error = CONFINE_ERROR_INIT;
  confine_provider *provider = NULL;
  confine_policy *policy = NULL;
  confine_wrapped *wrapped = NULL;
  confine_mode parsed;
  settings.chain = &proof->entry.runner;
  settings.chain_length = 1;
  int r = confine_mode_parse(mode, &parsed);
  if (r == 0)
    r = confine_policy_new(parsed, &policy, &error);
  if (r == 0)
    r = confine_policy_set_workspace(policy, workspace, &error);
  if (r == 0)
    r = confine_provider_new(&settings, &provider, &error);
  if (r == 0)
    r = confine_provider_confine(provider, (const char *const *)attempt, policy, &wrapped, &error);
  r = r == 0 ? copy_words(confine_wrapped_argv(wrapped), ret_argv) : -EPERM;
  confine_wrapped_free(wrapped);
  confine_provider_free(provider);
  confine_policy_free(policy);
  return r;
}

/* A family has its gap's name, except that FIFOs are special files as devices are. */
static bool is_gap(const struct proof *proof, const char *family) {
  if (strcmp(family, "fifo") == 0)
    family = confine_gap_name(CONFINE_GAP_DEVICES);
  for (uint32_t bit = 1; bit; bit <<= 1)
    if ((proof->entry.gaps & bit) && confine_gap_name(bit) && strcmp(confine_gap_name(bit), family) == 0)
      return true;
  return false;
}

static void show_progress(const struct proof *proof) {
  if (proof->watched)
    fprintf(stderr, "\r\033[K%zu of %zu checks: %s, %s", proof->done, proof->total,
            confine_runner_name(proof->entry.runner), proof->config.mode);
}

static void hide_progress(const struct proof *proof) {
  if (proof->watched)
    fputs("\r\033[K", stderr);
}

/* True, and said once, if the result says nothing about confinement: the sandbox must have run the
 * attempt, or refused to start because it is what was attacked. */
static bool is_void(struct proof *proof, const struct escape_result *result) {
  bool refused = result->verdict == ESCAPE_HELD && !result->ran &&
                 !(result->technique->flags & ESCAPE_ATTACKS_LAUNCHER);
  bool missing = result->verdict == ESCAPE_NA && result->control >= 0;
  if ((refused || missing) && !proof->failed) {
    hide_progress(proof);
    cli_refuse("doctor: the check %s could not be made under %s in %s: %s", result->technique->id,
               confine_runner_name(proof->entry.runner), proof->config.mode, result->why);
    proof->failed = 1;
  }
  return refused || missing;
}

/* Words of a command are in it, so anything may be. */
static void make_plain(char *to, const char *from) {
  for (; *from; from++)
    *to++ = *from >= ' ' && *from <= '~' ? *from : '?';
  *to = '\0';
}

static void take(const struct escape_result *result, void *arg) {
  struct proof *proof = arg;
  const struct escape_technique *technique = result->technique;
  bool escaped = result->verdict == ESCAPE_ESCAPED;
  bool open = escaped && technique->by_design, gap = escaped && !open && is_gap(proof, technique->family);
  const char *verdict = open ? "open" : escaped ? "escaped" : result->verdict == ESCAPE_HELD ? "held" : "n/a";
  char why[ESCAPE_WHY];
  make_plain(why, result->why);
  proof->done++;
  is_void(proof, result);
  proof->held += result->verdict == ESCAPE_HELD;
  proof->na += result->verdict == ESCAPE_NA;
  proof->open += open;
  proof->gap += gap;
  proof->escaped += escaped && !open && !gap;
  hide_progress(proof);
  if (proof->checks) {
    json_array_append_new(proof->checks, json_pack("{s:s,s:s,s:s,s:s,s:s}", "id", technique->id, "family",
                                                   technique->family, "mode", proof->config.mode, "verdict",
                                                   verdict, "why", why));
  } else {
    printf("%-7s  %-9s  %-15s  %-18s  %-31s  %s%s%s%s\n", verdict, confine_runner_name(proof->entry.runner),
           proof->config.mode, technique->family, technique->id, why, open || gap ? " [" : "",
           open ? technique->by_design : gap ? "a gap of this runner" : "", open || gap ? "]" : "");
    fflush(stdout);
  }
  show_progress(proof);
}

static int prove_runner(struct proof *proof) {
  const char *name = confine_runner_name(proof->entry.runner);
  const char *prefix[] = {proof->programs.self, "run", "--runner", name, "--mode", "%MODE%", "--workspace",
                          "%WS%", "--", NULL};
  int r = 0;
  if (proof->runners) {
    proof->checks = json_array();
    json_array_append_new(proof->runners, json_pack("{s:s,s:o}", "name", name, "checks", proof->checks));
  }
  for (size_t i = 0; r == 0 && i < sizeof modes / sizeof modes[0]; i++) {
    proof->config.mode = modes[i];
    show_progress(proof);
    proof->config.prefix = prefix;
    proof->config.wrap = NULL;
    r = escape_run_all(&proof->config, wanted, take, proof);
    proof->config.wrap = wrap;
    proof->config.wrap_arg = proof;
    if (r == 0)
      r = escape_run_all(&proof->config, wanted, take, proof);
  }
  hide_progress(proof);
  return r;
}

static void print_summary(const struct proof *proof) {
  printf("\n%zu held, %zu open by design, %zu escaped", proof->held, proof->open, proof->escaped + proof->gap);
  if (proof->gap)
    printf(" (%zu through gaps that the runner names)", proof->gap);
  if (proof->na)
    printf(", %zu that cannot be done here unconfined either", proof->na);
  putchar('\n');
}

/* The folder, removed by a process that outlasts this one whatever happens: it waits until this process and
 * all that work for it have closed the pipe, by ending if need be. */

struct folder {
  char path[PATH_MAX];
  int pipe;
  pid_t keeper;
};

static _Noreturn void keep(const char *path, int pipe) {
  char byte;
  int null = open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3; fd++)
    dup2(null, fd);
  setsid();
  while (read(pipe, &byte, 1) < 0 && errno == EINTR)
    ;
  escape_remove_tree(path);
  _exit(0);
}

/* Below /tmp it would be hidden inside. */
static int make_folder(struct folder *folder) {
  const char *temporary = getenv("TMPDIR");
  char resolved[PATH_MAX];
  snprintf(folder->path, sizeof folder->path, "/var/tmp/confine-prove-XXXXXX");
  if (mkdtemp(folder->path))
    return 0;
  int error = errno;
  if (!temporary || !realpath(temporary, resolved) || strcmp(resolved, "/tmp") == 0 ||
      strncmp(resolved, "/tmp/", 5) == 0 ||
      snprintf(folder->path, sizeof folder->path, "%s/confine-prove-XXXXXX", resolved) >= (int)sizeof folder->path)
    return cli_refuse("doctor: cannot make a folder in /var/tmp: %s; set TMPDIR to a directory that is not below /tmp",
                      strerror(error));
  if (mkdtemp(folder->path))
    return 0;
  return cli_refuse("doctor: cannot make a folder in /var/tmp: %s; nor in %s: %s", strerror(error), resolved,
                    strerror(errno));
}

static int open_folder(struct folder *folder) {
  int ends[2] = {-1, -1};
  int r = make_folder(folder);
  if (r != 0)
    return r;
  folder->keeper = pipe2(ends, O_CLOEXEC) == 0 ? fork() : -1;
  if (folder->keeper == 0) {
    close(ends[1]);
    keep(folder->path, ends[0]);
  }
  if (folder->keeper < 0) {
    r = cli_refuse("doctor: %s", strerror(errno));
    rmdir(folder->path);
    if (ends[1] >= 0)
      close(ends[1]);
  }
  if (ends[0] >= 0)
    close(ends[0]);
  folder->pipe = ends[1];
  return r;
}

static void close_folder(struct folder *folder) {
  close(folder->pipe);
  while (waitpid(folder->keeper, NULL, 0) < 0 && errno == EINTR)
    ;
}

static int copy_file(const char *from, const char *to) {
  char block[65536];
  ssize_t n = -1;
  int in = open(from, O_RDONLY | O_CLOEXEC), out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
  while (in >= 0 && out >= 0 && (n = read(in, block, sizeof block)) > 0)
    if (write(out, block, (size_t)n) != n) {
      n = -1;
      break;
    }
  int error = errno;
  if (in >= 0)
    close(in);
  if (out >= 0)
    close(out);
  errno = error;
  return n == 0 ? 0 : -1;
}

/* One that is hidden inside, or that others may not reach, is copied to where the checks are made. */
static int find_program(const struct programs *programs, const char *name, const char *folder, char *ret_path) {
  static const char *const places[] = {"../libexec/confine", "../escape"};
  char own[PATH_MAX], found[PATH_MAX * 2];
  snprintf(own, sizeof own, "%s", programs->self);
  *strrchr(own, '/') = '\0';
  for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
    snprintf(found, sizeof found, "%s/%s/%s", own, places[i], name);
    if (!realpath(found, ret_path))
      continue;
    if (strncmp(ret_path, "/tmp/", 5) != 0)
      return 0;
    snprintf(found, sizeof found, "%s", ret_path);
    if (snprintf(ret_path, PATH_MAX, "%s/%s", folder, name) < PATH_MAX && copy_file(found, ret_path) == 0)
      return 0;
    return cli_refuse("doctor: cannot copy %.900s: %s", found, strerror(errno));
  }
  return cli_refuse("doctor: %s is not in %.900s/../libexec/confine; install confine completely", name, own);
}

static int find_programs(struct proof *proof) {
  struct programs *programs = &proof->programs;
  ssize_t n = readlink("/proc/self/exe", programs->self, sizeof programs->self - 1);
  if (n <= 0)
    return cli_refuse("doctor: /proc/self/exe: %s", strerror(errno));
  programs->self[n] = '\0';
  int r = find_program(programs, "escape-attempt", proof->config.scratch, programs->attempt);
  if (r == 0)
    r = find_program(programs, "escape-preload.so", proof->config.scratch, programs->object);
  programs->argv[0] = programs->attempt;
  proof->config.program = programs->argv;
  proof->config.object = programs->object;
  return r;
}

static int prove_all(struct proof *proof, const confine_host_report *report) {
  int r = find_programs(proof);
  for (size_t i = 0; r == 0 && i < confine_host_report_count(report); i++) {
    proof->entry.size = sizeof proof->entry;
    if (confine_host_report_entry(report, i, &proof->entry) < 0 || !proof->entry.usable)
      continue;
    int error = prove_runner(proof);
    if (error)
      r = error == -ECANCELED ? CLI_REFUSED : cli_refuse("doctor: %s", strerror(-error));
  }
  return r;
}

static int print_json(struct proof *proof) {
  json_t *root = json_pack("{s:s,s:O}", "schema", "confine.prove/1", "runners", proof->runners);
  char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
  json_decref(root);
  if (!text)
    return cli_refuse("out of memory");
  puts(text);
  free(text);
  return 0;
}

static size_t count_checks(const confine_host_report *report) {
  size_t usable = 0;
  confine_runner_report entry = {.size = sizeof entry};
  for (size_t i = 0; i < confine_host_report_count(report); i++)
    usable += confine_host_report_entry(report, i, &entry) == 0 && entry.usable;
  return usable * (count_applying(modes[0]) + count_applying(modes[1]));
}

static void watch_signals(void (*handler)(int)) {
  static const int numbers[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
    struct sigaction action;
    /* One that the caller ignores stays ignored, as nohup(1) wants. */
    if (sigaction(numbers[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN) {
      action = (struct sigaction){.sa_handler = handler};
      sigaction(numbers[i], &action, NULL);
    }
  }
}

static void choose_jobs(struct escape_config *config) {
  long processors = sysconf(_SC_NPROCESSORS_ONLN);
  long jobs = (processors > 0 ? processors : 1) * JOBS_PER_PROCESSOR;
  config->jobs = (int)(jobs < JOBS_MIN ? JOBS_MIN : jobs > JOBS_MAX ? JOBS_MAX : jobs);
}

int cli_prove(const confine_host_report *report, int json) {
  struct proof proof = {.watched = isatty(STDERR_FILENO), .total = count_checks(report)};
  struct folder folder = {.pipe = -1, .keeper = -1};
  if (!proof.total)
    return cli_refuse("doctor: no runner is usable here, so there is nothing to try; see `confine doctor`");
  watch_signals(interrupt);
  int status = open_folder(&folder);
  if (status != 0)
    return status;
  proof.runners = json ? json_array() : NULL;
  proof.config.scratch = folder.path;
  proof.config.cancel = &interrupted;
  proof.config.starts = RACES;
  proof.config.controls = calloc(escape_count(), 1);
  choose_jobs(&proof.config);
  status = proof.config.controls ? prove_all(&proof, report) : cli_refuse("out of memory");
  close_folder(&folder);
  if (interrupted) {
    watch_signals(SIG_DFL);
    raise(interrupted);
  }
  if (status == 0 && json)
    status = print_json(&proof);
  else if (status == 0)
    print_summary(&proof);
  free(proof.config.controls);
  json_decref(proof.runners);
  if (status == 0)
    status = cli_flush(stdout);
  if (status == 0)
    status = proof.failed ? CLI_REFUSED : proof.escaped ? 1 : 0;
  return status;
}
