/*
 * The provider with launchers that are scripts: what is chosen and when, that probes are bounded and end with
 * their children, exact texts, and what a policy must not make writable. What really confines is tested on
 * the built programs.
 */
#include "provider/internal.h"
#include "spawn/captured.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static char place[64], launchers[96], workspace[96];

static void remove_tree(const char *directory) {
  DIR *entries = opendir(directory);
  struct dirent *entry;
  while (entries && (entry = readdir(entries))) {
    char path[512];
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
      continue;
    snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
    if (unlink(path) != 0)
      remove_tree(path);
  }
  if (entries)
    closedir(entries);
  rmdir(directory);
}

static int make_place(void **state) {
  (void)state;
  snprintf(place, sizeof place, "/var/tmp/confine-provider-XXXXXX");
  if (!mkdtemp(place))
    return -1;
  snprintf(launchers, sizeof launchers, "%s/launchers", place);
  snprintf(workspace, sizeof workspace, "%s/workspace", place);
  return mkdir(launchers, 0755) || mkdir(workspace, 0755);
}

static int remove_place(void **state) {
  (void)state;
  remove_tree(place);
  return 0;
}

static void script(const char *name, const char *body) {
  char path[128];
  snprintf(path, sizeof path, "%s/%s", launchers, name);
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
  assert_true(fd >= 0);
  assert_true(dprintf(fd, "#!/bin/sh\n%s\n", body) > 0);
  close(fd);
}

#define COUNT_PROBE "echo >>\"${0%/*}/../count-${0##*/}\"; "
#define LANDLOCK_WORKS COUNT_PROBE "echo 'landlock: fully enforced'"
#define NAMESPACE_WORKS COUNT_PROBE "echo 'namespace: enforced'"

static int probes_of(const char *launcher) {
  char path[128];
  struct stat st;
  snprintf(path, sizeof path, "%s/count-%s", place, launcher);
  return stat(path, &st) == 0 ? (int)st.st_size : 0;
}

static confine_settings settings_for(const confine_runner *chain, size_t length) {
  confine_settings settings = CONFINE_SETTINGS_INIT;
  settings.launcher_directory = launchers;
  settings.chain = chain;
  settings.chain_length = length;
  return settings;
}

static confine_provider *provider_of(const confine_settings *settings) {
  confine_provider *provider = NULL;
  confine_error error = CONFINE_ERROR_INIT;
  if (confine_provider_new(settings, &provider, &error) < 0)
    fail_msg("%s", error.text);
  return provider;
}

static confine_policy *policy_of(confine_mode mode, const char *directory) {
  confine_policy *policy = NULL;
  assert_int_equal(confine_policy_new(mode, &policy, NULL), 0);
  assert_int_equal(confine_policy_set_workspace(policy, directory, NULL), 0);
  return policy;
}

static const confine_runner both[] = {CONFINE_RUNNER_NAMESPACE, CONFINE_RUNNER_LANDLOCK};
static const char *const command[] = {"cmd", "--flag", "", NULL};

static void the_first_that_works_is_chosen_and_remembered(void **state) {
  (void)state;
  confine_settings settings = settings_for(both, 2);
  confine_runner chosen = CONFINE_RUNNER_NONE;
  script("namespace-run", COUNT_PROBE "echo 'namespace-run: clone failed: Operation not permitted' >&2; exit 125");
  script("landlock-run", LANDLOCK_WORKS);
  confine_provider *provider = provider_of(&settings);
  assert_int_equal(probes_of("namespace-run"), 0);
  for (int i = 0; i < 3; i++)
    assert_int_equal(confine_provider_select(provider, CONFINE_MODE_READ_ONLY, &chosen, NULL), 0);
  assert_int_equal(chosen, CONFINE_RUNNER_LANDLOCK);
  assert_int_equal(probes_of("namespace-run"), 1);
  assert_int_equal(probes_of("landlock-run"), 1);
  script("namespace-run", NAMESPACE_WORKS);
  assert_int_equal(confine_provider_select(provider, CONFINE_MODE_READ_ONLY, &chosen, NULL), 0);
  assert_int_equal(chosen, CONFINE_RUNNER_LANDLOCK);
  confine_provider_probe_again(provider);
  assert_int_equal(confine_provider_select(provider, CONFINE_MODE_READ_ONLY, &chosen, NULL), 0);
  assert_int_equal(chosen, CONFINE_RUNNER_NAMESPACE);
  assert_int_equal(probes_of("namespace-run"), 2);
  assert_int_equal(probes_of("landlock-run"), 1);
  confine_provider_free(provider);
}

static void verdicts_are_remembered_one_by_one(void **state) {
  (void)state;
  confine_settings settings = settings_for(both, 2);
  confine_runner chosen = CONFINE_RUNNER_NONE;
  script("namespace-run", COUNT_PROBE "exit 1");
  script("landlock-run", COUNT_PROBE "exit 1");
  confine_provider *provider = provider_of(&settings);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(confine_provider_select(provider, CONFINE_MODE_READ_ONLY, &chosen, NULL), CONFINE_EUNAVAILABLE);
    assert_int_equal(confine__provider_probe(provider, CONFINE_RUNNER_LANDLOCK, NULL), CONFINE_EUNAVAILABLE);
  }
  assert_int_equal(chosen, CONFINE_RUNNER_NONE);
  assert_int_equal(probes_of("namespace-run"), 1);
  assert_int_equal(probes_of("landlock-run"), 1);
  confine_provider_free(provider);
}

static void gaps_are_the_runners(void **state) {
  (void)state;
  confine_settings settings = settings_for(both, 2);
  confine_policy *policy = policy_of(CONFINE_MODE_READ_ONLY, workspace);
  confine_wrapped *wrapped = NULL;
  script("namespace-run", "exit 1");
  script("landlock-run", LANDLOCK_WORKS);
  confine_provider *provider = provider_of(&settings);
  assert_int_equal(confine_provider_confine(provider, command, policy, &wrapped, NULL), 0);
  struct confine__host host = *confine__provider_host(provider);
  uint32_t gaps = confine__runner_landlock.gaps(&host);
  assert_int_equal(confine_wrapped_gaps(wrapped), gaps);
  assert_int_equal(confine_wrapped_enforcement(wrapped),
                   gaps ? CONFINE_ENFORCEMENT_PARTIAL : CONFINE_ENFORCEMENT_FULL);
  confine_wrapped_free(wrapped);
  /* As on an old kernel, whatever this one is. */
  struct confine__snapshot *snapshot = atomic_load(&provider->snapshot);
  snapshot->host.landlock_abi = 1;
  snapshot->host.supervisor = 0;
  assert_int_equal(confine_provider_confine(provider, command, policy, &wrapped, NULL), 0);
  assert_int_equal(confine_wrapped_gaps(wrapped) & (CONFINE_GAP_METADATA | CONFINE_GAP_TRUNCATE | CONFINE_GAP_REFER),
                   CONFINE_GAP_METADATA | CONFINE_GAP_TRUNCATE | CONFINE_GAP_REFER);
  assert_int_equal(confine_wrapped_enforcement(wrapped), CONFINE_ENFORCEMENT_PARTIAL);
  confine_wrapped_free(wrapped);
  confine_policy_free(policy);
  confine_provider_free(provider);
}

static void a_sole_candidate_is_not_probed(void **state) {
  (void)state;
  confine_settings settings = settings_for(both, 1);
  confine_runner chosen = CONFINE_RUNNER_NONE;
  script("namespace-run", COUNT_PROBE "exit 125");
  confine_provider *provider = provider_of(&settings);
  assert_int_equal(confine_provider_select(provider, CONFINE_MODE_WORKSPACE_WRITE, &chosen, NULL), 0);
  assert_int_equal(chosen, CONFINE_RUNNER_NAMESPACE);
  assert_int_equal(probes_of("namespace-run"), 0);
  confine_provider_free(provider);
}

#define UNAVAILABLE(mode) \
  "sandbox mode \"" mode "\" is requested but no sandbox backend is usable on this host; refusing to run the command " \
  "unconfined. Install bubblewrap or run a Landlock-enforcing kernel (Linux), ensure sandbox-exec is usable (macOS), " \
  "or ensure the ACL restricted-token runner can start (Windows) \xe2\x80\x94 otherwise switch the consumer to " \
  "danger-full-access."

static void nothing_usable_is_said_exactly(void **state) {
  (void)state;
  confine_settings settings = settings_for(both, 2);
  confine_error error = CONFINE_ERROR_INIT;
  confine_wrapped *wrapped = NULL;
  script("namespace-run", "exit 125");
  script("landlock-run", "exit 125");
  confine_provider *provider = provider_of(&settings);
  static const confine_mode modes[] = {CONFINE_MODE_READ_ONLY, CONFINE_MODE_WORKSPACE_WRITE};
  static const char *const texts[] = {UNAVAILABLE("read-only"), UNAVAILABLE("workspace-write")};
  for (size_t i = 0; i < 2; i++) {
    confine_policy *policy = policy_of(modes[i], workspace);
    assert_int_equal(confine_provider_confine(provider, command, policy, &wrapped, &error), CONFINE_EUNAVAILABLE);
    assert_string_equal(error.text, texts[i]);
    assert_null(wrapped);
    confine_policy_free(policy);
  }
  assert_string_equal(confine_status_name(error.code), "SANDBOX_UNAVAILABLE");
  confine_unavailable_text(CONFINE_MODE_READ_ONLY, "clone: no", &error);
  assert_string_equal(error.text, UNAVAILABLE("read-only") " Runner failure: clone: no");
  confine_provider_free(provider);
}

static void refused_settings(confine_settings *settings, const char *text) {
  confine_error error = CONFINE_ERROR_INIT;
  confine_provider *provider = NULL;
  assert_int_equal(confine_provider_new(settings, &provider, &error), CONFINE_ECONFIG);
  assert_null(provider);
  assert_string_equal(error.text, text);
}

static void contradictory_settings_are_refused_exactly(void **state) {
  (void)state;
  static const char *const runner[] = {"/bin/sh", NULL}, *const relative[] = {"bwrap", NULL},
                           *const none[] = {NULL}, *const good[] = {"shim: ", NULL},
                           *const empty[] = {"shim: ", "", NULL}, *const lines[] = {"a\nb", NULL},
                           *const carriage[] = {"a\r", NULL}, *const blank[] = {" ", NULL};
  static const char *const *const bad[] = {empty, lines, carriage, blank};
  static const double timeouts[] = {-1, (double)NAN, (double)INFINITY, -(double)INFINITY};
  static const confine_runner twice[] = {CONFINE_RUNNER_BWRAP, CONFINE_RUNNER_BWRAP},
                              custom[] = {CONFINE_RUNNER_CUSTOM}, unknown[] = {(confine_runner)99};
  confine_settings settings = CONFINE_SETTINGS_INIT;
  settings.runner_failure_signatures = good;
  refused_settings(&settings, "sandbox-local: runnerFailureSignatures requires runnerCommand");
  settings.runner_failure_signatures = none;
  refused_settings(&settings, "sandbox-local: runnerFailureSignatures requires runnerCommand");
  settings.runner_command = runner;
  refused_settings(&settings, "sandbox-local: runnerCommand requires at least one runnerFailureSignatures entry");
  settings.runner_failure_signatures = NULL;
  refused_settings(&settings, "sandbox-local: runnerCommand requires at least one runnerFailureSignatures entry");
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    settings.runner_failure_signatures = bad[i];
    refused_settings(&settings, "sandbox-local: runnerFailureSignatures entries must be non-empty single-line strings");
  }
  settings.runner_failure_signatures = good;
  settings.runner_command = relative;
  refused_settings(&settings, "sandbox-local: runnerCommand must begin with the absolute path of a program");
  settings = settings_for(NULL, 0);
  for (size_t i = 0; i < sizeof timeouts / sizeof timeouts[0]; i++) {
    settings.probe_timeout_ms = timeouts[i];
    refused_settings(&settings, "sandbox-local: probeTimeoutMs must be a positive finite number");
  }
  settings = settings_for(twice, 2);
  refused_settings(&settings, "chain names bwrap twice");
  settings = settings_for(twice, 0);
  refused_settings(&settings, "chain names no runner");
  settings = settings_for(custom, 1);
  refused_settings(&settings, "chain: the runner custom needs a runnerCommand");
  settings = settings_for(unknown, 1);
  refused_settings(&settings, "chain: 99 is no runner");
  settings = settings_for(NULL, 0);
  settings.launcher_directory = "launchers";
  refused_settings(&settings, "the launcher directory must be an absolute path");
}

static void settings_are_bounded(void **state) {
  (void)state;
  const char *words[CONFINE_RUNNER_COMMAND_MAX + 2], *signatures[CONFINE_SIGNATURES_MAX + 2];
  char long_word[CONFINE_SETTING_MAX + 2];
  confine_settings settings = CONFINE_SETTINGS_INIT;
  confine_provider *provider = NULL;
  for (size_t i = 0; i <= CONFINE_RUNNER_COMMAND_MAX; i++)
    words[i] = "/bin/sh";
  for (size_t i = 0; i <= CONFINE_SIGNATURES_MAX; i++)
    signatures[i] = "x";
  words[CONFINE_RUNNER_COMMAND_MAX + 1] = signatures[CONFINE_SIGNATURES_MAX + 1] = NULL;
  memset(long_word, 'x', sizeof long_word - 1);
  long_word[sizeof long_word - 1] = '\0';
  settings.runner_command = words;
  settings.runner_failure_signatures = signatures;
  assert_int_equal(confine_provider_new(&settings, &provider, NULL), CONFINE_ELIMIT);
  words[CONFINE_RUNNER_COMMAND_MAX] = NULL;
  assert_int_equal(confine_provider_new(&settings, &provider, NULL), CONFINE_ELIMIT);
  signatures[CONFINE_SIGNATURES_MAX] = NULL;
  assert_int_equal(confine_provider_new(&settings, &provider, NULL), 0);
  confine_provider_free(provider);
  signatures[0] = long_word;
  assert_int_equal(confine_provider_new(&settings, &provider, NULL), CONFINE_ELIMIT);
  settings.size--;
  assert_int_equal(confine_provider_new(&settings, &provider, NULL), CONFINE_EINVAL);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static int count_descriptors(void) {
  int count = 0;
  DIR *entries = opendir("/proc/self/fd");
  while (readdir(entries))
    count++;
  closedir(entries);
  return count;
}

/* The pids that a hanging probe noted, all of them gone. */
static int none_is_left(void) {
  char path[128], line[32];
  int pids = 0;
  snprintf(path, sizeof path, "%s/pids", place);
  FILE *file = fopen(path, "re");
  assert_non_null(file);
  while (fgets(line, sizeof line, file)) {
    pid_t pid = (pid_t)strtol(line, NULL, 10);
    pids++;
    if (kill(pid, 0) == 0 || errno != ESRCH)
      print_error("%d is still there\n", (int)pid);
    else
      continue;
    fclose(file);
    return 0;
  }
  fclose(file);
  return pids >= 4;
}

/* Hangs, ignores what can be ignored, and leaves children in sessions of their own. */
#define HANG \
  "trap '' TERM HUP INT QUIT\n" \
  "note() { echo $1 >>\"${0%/*}/../pids\"; }\n" \
  "note $$\n" \
  "for i in 1 2 3; do (setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 60; done' & note $!) & done\n" \
  "setsid setsid sleep 600 & note $!\n" \
  "wait; while :; do sleep 60; done"

static void a_hanging_probe_is_ended_with_its_children(void **state) {
  (void)state;
  confine_settings settings = settings_for(both, 2);
  confine_host_report *report = NULL;
  confine_runner_report entry = {.size = sizeof entry};
  script("namespace-run", HANG);
  script("landlock-run", HANG);
  settings.probe_timeout_ms = 400;
  confine_provider *provider = provider_of(&settings);
  int descriptors = count_descriptors();
  double start = now();
  assert_int_equal(confine_provider_examine(provider, &report, NULL), 0);
  double took = now() - start;
  assert_true(took >= 0.4 && took < 1.4);
  assert_int_equal(confine_host_report_selected(report), CONFINE_RUNNER_NONE);
  assert_int_equal(confine_host_report_count(report), 2);
  for (size_t i = 0; i < 2; i++) {
    assert_int_equal(confine_host_report_entry(report, i, &entry), 0);
    assert_false(entry.usable);
    assert_string_equal(entry.reason, "its probe did not answer within 400 ms and was ended");
    assert_non_null(strstr(entry.repair, "probeTimeoutMs"));
  }
  assert_int_equal(confine_host_report_entry(report, 2, &entry), CONFINE_EINVAL);
  confine_host_report_free(report);
  assert_true(none_is_left());
  assert_int_equal(count_descriptors(), descriptors);
  assert_int_equal(waitpid(-1, NULL, __WALL), -1);
  assert_int_equal(errno, ECHILD);
  confine_provider_free(provider);
}

static volatile sig_atomic_t handled;

static void on_signal(int number) {
  (void)number;
  handled++;
}

/* The host's own children, handlers and mask are as before; its handlers do not run in ours. */
static void the_host_notices_nothing(void **state) {
  (void)state;
  confine_settings settings = settings_for(both, 2);
  confine_runner chosen = CONFINE_RUNNER_NONE;
  struct sigaction action = {.sa_handler = on_signal}, before, after;
  sigset_t mask_before, mask_after;
  script("namespace-run", "kill -USR1 $$; kill -TERM $$; echo 'namespace: enforced'");
  script("landlock-run", LANDLOCK_WORKS);
  sigaction(SIGCHLD, &action, &before);
  sigaction(SIGUSR1, &action, NULL);
  sigprocmask(SIG_SETMASK, NULL, &mask_before);
  handled = 0;
  pid_t own = fork();
  if (own == 0)
    pause();
  confine_provider *provider = provider_of(&settings);
  assert_int_equal(confine_provider_select(provider, CONFINE_MODE_READ_ONLY, &chosen, NULL), 0);
  /* Every signal is blocked in a probe, so it outlives the ones it sends itself. */
  assert_int_equal(chosen, CONFINE_RUNNER_NAMESPACE);
  assert_int_equal(handled, 0);
  assert_int_equal(waitpid(own, NULL, WNOHANG), 0);
  sigaction(SIGCHLD, NULL, &after);
  sigprocmask(SIG_SETMASK, NULL, &mask_after);
  assert_ptr_equal(after.sa_handler, on_signal);
  assert_memory_equal(&mask_before, &mask_after, 8);
  kill(own, SIGKILL);
  assert_int_equal(waitpid(own, NULL, 0), own);
  sigaction(SIGCHLD, &before, NULL);
  signal(SIGUSR1, SIG_DFL);
  confine_provider_free(provider);
}

static void probes_work_without_standard_streams(void **state) {
  (void)state;
  confine_settings settings = settings_for(both, 2);
  script("namespace-run", "read x; " NAMESPACE_WORKS);
  script("landlock-run", LANDLOCK_WORKS);
  pid_t pid = fork();
  if (pid == 0) {
    confine_provider *provider = NULL;
    confine_runner chosen = CONFINE_RUNNER_NONE;
    close(0);
    close(1);
    close(2);
    int r = confine_provider_new(&settings, &provider, NULL);
    if (r == 0)
      r = confine_provider_select(provider, CONFINE_MODE_READ_ONLY, &chosen, NULL);
    _exit(r == 0 && chosen == CONFINE_RUNNER_NAMESPACE && fcntl(0, F_GETFD) < 0 ? 0 : 1);
  }
  int status = 0;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(status, 0);
}

static void probes_have_a_clean_environment(void **state) {
  (void)state;
  confine_settings settings = settings_for(both, 2);
  confine_host_report *report = NULL;
  confine_runner_report entry = {.size = sizeof entry};
  script("namespace-run", "echo \"got:$PATH:$LC_ALL:$LD_PRELOAD:$CONFINE_TEST:\"; exit 3");
  script("landlock-run", LANDLOCK_WORKS);
  setenv("CONFINE_TEST", "leaked", 1);
  confine_provider *provider = provider_of(&settings);
  assert_int_equal(confine_provider_examine(provider, &report, NULL), 0);
  assert_int_equal(confine_host_report_entry(report, 0, &entry), 0);
  assert_string_equal(entry.reason, "its probe failed with exit code 3: got:/usr/bin:/bin:C:::");
  assert_int_equal(confine_host_report_selected(report), CONFINE_RUNNER_LANDLOCK);
  confine_host_report_free(report);
  confine_provider_free(provider);
  unsetenv("CONFINE_TEST");
}

static void reason_of(const char *body, const char *expected) {
  confine_settings settings = settings_for(both, 1);
  confine_error error = CONFINE_ERROR_INIT;
  script("namespace-run", body);
  confine_provider *provider = provider_of(&settings);
  assert_int_equal(confine__provider_probe(provider, CONFINE_RUNNER_NAMESPACE, &error), CONFINE_EUNAVAILABLE);
  if (!strstr(error.text, expected))
    fail_msg("`%s` has no `%s`", error.text, expected);
  confine_provider_free(provider);
}

static void each_failure_has_its_reason(void **state) {
  (void)state;
  reason_of("exit 0", "exit code 0: (no output)");
  reason_of("echo almost; exit 7", "exit code 7: almost");
  reason_of("printf 'first\\nlast \\033[31m\\n\\n'", "exit code 0: last ?[31m");
  reason_of("kill -KILL $$", "killed by signal 9");
  reason_of("echo 'namespace: enforced'; exit 1", "exit code 1");
  reason_of("head -c 1000000 /dev/zero | tr '\\0' x; exit 9", "exit code 9: xxx");
  char path[128];
  confine_settings settings = settings_for(both, 1);
  confine_error error = CONFINE_ERROR_INIT;
  snprintf(path, sizeof path, "%s/namespace-run", launchers);
  confine_runner chosen;
  confine_provider *provider = provider_of(&settings);
  assert_int_equal(confine_provider_select(provider, CONFINE_MODE_READ_ONLY, &chosen, NULL), 0);
  assert_int_equal(unlink(path), 0);
  assert_int_equal(confine__provider_probe(provider, CONFINE_RUNNER_NAMESPACE, &error), CONFINE_EUNAVAILABLE);
  assert_non_null(strstr(error.text, "could not be executed: No such file or directory"));
  confine_provider_probe_again(provider);
  assert_int_equal(confine__provider_probe(provider, CONFINE_RUNNER_NAMESPACE, &error), CONFINE_EUNAVAILABLE);
  assert_non_null(strstr(error.text, "there is no namespace-run in "));
  assert_non_null(strstr(error.text, "install confine's launchers there"));
  assert_int_equal(confine__provider_probe(provider, CONFINE_RUNNER_SEATBELT, &error), CONFINE_EUNAVAILABLE);
  assert_non_null(strstr(error.text, "seatbelt is not a runner of this system"));
  confine_provider_free(provider);
}

static void write_setting(const char *name, const char *value) {
  char path[160];
  snprintf(path, sizeof path, "%s/%s", launchers, name);
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  assert_true(fd >= 0);
  assert_true(dprintf(fd, "%s\n", value) > 0);
  close(fd);
}

static void repairs_name_the_setting(void **state) {
  (void)state;
  char text[CONFINE__REASON_MAX], path[160];
  static const char *const folders[] = {"kernel", "user"};
  for (size_t i = 0; i < 2; i++) {
    snprintf(path, sizeof path, "%s/%s", launchers, folders[i]);
    assert_int_equal(mkdir(path, 0755), 0);
  }
  confine__repair_namespaces(launchers, 0, text, sizeof text);
  assert_non_null(strstr(text, "use the landlock runner there"));
  write_setting("user/max_user_namespaces", "0");
  confine__repair_namespaces(launchers, 0, text, sizeof text);
  assert_non_null(strstr(text, "user.max_user_namespaces"));
  write_setting("kernel/apparmor_restrict_unprivileged_userns", "1");
  confine__repair_namespaces(launchers, 0, text, sizeof text);
  assert_non_null(strstr(text, "AppArmor"));
  write_setting("kernel/unprivileged_userns_clone", "0");
  confine__repair_namespaces(launchers, 0, text, sizeof text);
  assert_non_null(strstr(text, "kernel.unprivileged_userns_clone=1"));
  confine__repair_namespaces(launchers, 1, text, sizeof text);
  assert_null(strstr(text, "sysctl"));
  write_setting("lsm", "capability,yama,apparmor");
  snprintf(path, sizeof path, "%s/lsm", launchers);
  confine__repair_landlock(path, text, sizeof text);
  assert_non_null(strstr(text, "lsm=landlock,capability,yama,apparmor"));
  write_setting("lsm", "capability,landlock");
  confine__repair_landlock(path, text, sizeof text);
  assert_non_null(strstr(text, "CONFIG_SECURITY_LANDLOCK"));
}

static confine_provider *custom_provider(const char *const *runner) {
  static const char *const signatures[] = {"shim-run: ", "Fatal shim", NULL};
  confine_settings settings = settings_for(NULL, 0);
  settings.runner_command = runner;
  settings.runner_failure_signatures = signatures;
  return provider_of(&settings);
}

static void a_custom_runner_gets_the_base_profile(void **state) {
  (void)state;
  static const char *const runner[] = {"/bin/sh", "--strict", NULL};
  confine_provider *provider = custom_provider(runner);
  confine_policy *policy = policy_of(CONFINE_MODE_WORKSPACE_WRITE, workspace);
  confine_wrapped *wrapped = NULL;
  confine_failure_rule rule = {.size = sizeof rule};
  assert_int_equal(confine_provider_confine(provider, command, policy, &wrapped, NULL), 0);
  const char *const expected[] = {"/bin/sh", "--strict", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc",
                                  "--die-with-parent", "--tmpfs", "/tmp", "--bind", workspace, workspace, "--", "cmd",
                                  "--flag", "", NULL};
  const char *const *argv = confine_wrapped_argv(wrapped);
  size_t i = 0;
  for (; expected[i]; i++)
    assert_string_equal(argv[i], expected[i]);
  assert_null(argv[i]);
  /* Belongs to the wrapped command, whatever becomes of its makers. */
  confine_policy_free(policy);
  confine_provider_free(provider);
  assert_int_equal(confine_wrapped_runner(wrapped), CONFINE_RUNNER_CUSTOM);
  assert_int_equal(confine_wrapped_enforcement(wrapped), CONFINE_ENFORCEMENT_FULL);
  assert_int_equal(confine_wrapped_failure_rule_count(wrapped), 1);
  assert_int_equal(confine_wrapped_failure_rule(wrapped, 0, &rule), 0);
  assert_null(rule.allowed_exit_codes);
  assert_string_equal(rule.fatal_signatures[0], "shim-run: ");
  assert_string_equal(rule.fatal_signatures[1], "Fatal shim");
  assert_null(rule.fatal_signatures[2]);
  assert_null(rule.informational_lines[0]);
  assert_string_equal(confine_wrapped_denial_signatures(wrapped)[0], "read-only file system");
  assert_string_equal(confine_wrapped_denial_signatures(wrapped)[1], "permission denied");
  assert_int_equal(confine_wrapped_failure_rule(wrapped, 1, &rule), CONFINE_EINVAL);
  rule.size = 3;
  assert_int_equal(confine_wrapped_failure_rule(wrapped, 0, &rule), CONFINE_EINVAL);
  confine_wrapped_free(wrapped);
}

static void full_access_asks_nobody(void **state) {
  (void)state;
  confine_policy *policy = policy_of(CONFINE_MODE_DANGER_FULL_ACCESS, workspace);
  confine_wrapped *wrapped = NULL;
  static const char *const nothing[] = {NULL};
  assert_int_equal(confine_provider_confine(NULL, command, policy, &wrapped, NULL), 0);
  for (size_t i = 0; command[i]; i++)
    assert_string_equal(confine_wrapped_argv(wrapped)[i], command[i]);
  assert_null(confine_wrapped_argv(wrapped)[3]);
  assert_int_equal(confine_wrapped_runner(wrapped), CONFINE_RUNNER_NONE);
  assert_int_equal(confine_wrapped_enforcement(wrapped), CONFINE_ENFORCEMENT_NONE);
  assert_int_equal(confine_wrapped_failure_rule_count(wrapped), 0);
  assert_null(confine_wrapped_denial_signatures(wrapped)[0]);
  confine_wrapped_free(wrapped);
  wrapped = NULL;
  assert_int_equal(confine_provider_confine(NULL, nothing, policy, &wrapped, NULL), CONFINE_EINVAL);
  assert_int_equal(confine_provider_confine(NULL, command, NULL, &wrapped, NULL), CONFINE_EINVAL);
  confine_policy_free(policy);
  assert_null(wrapped);
}

/* The refusal names what the runner lacks and a runner that has it. */
static void isolation_is_refused(confine_provider *provider, const confine_policy *policy, const char *lacking) {
  confine_error error = CONFINE_ERROR_INIT;
  confine_wrapped *wrapped = NULL;
  confine_runner named = CONFINE_RUNNER_NONE;
  char name[32];
  assert_int_equal(confine_provider_confine(provider, command, policy, &wrapped, &error), CONFINE_EUNSUPPORTED);
  assert_null(wrapped);
  assert_int_equal(strncmp(error.text, lacking, strlen(lacking)), 0);
  assert_int_equal(sscanf(error.text + strlen(lacking), "; %31s can", name), 1);
  assert_int_equal(confine_runner_parse(name, &named), 0);
  assert_int_equal(policy->isolation & ~confine__runner_find(named)->isolates, 0);
}

static void what_cannot_be_isolated_is_refused(void **state) {
  (void)state;
  static const confine_runner landlock[] = {CONFINE_RUNNER_LANDLOCK};
  static const char *const runner[] = {"/bin/sh", NULL};
  confine_settings settings = settings_for(landlock, 1);
  confine_policy *policy = policy_of(CONFINE_MODE_READ_ONLY, workspace);
  script("landlock-run", LANDLOCK_WORKS);
  uint32_t all = CONFINE_ISOLATE_NETWORK | CONFINE_ISOLATE_PROCESS | CONFINE_ISOLATE_IPC;
  assert_int_equal(confine_policy_set_isolation(policy, all, NULL), 0);
  confine_provider *provider = custom_provider(runner);
  isolation_is_refused(provider, policy, "runner custom cannot isolate network process ipc");
  confine_provider_free(provider);
  assert_int_equal(confine_policy_set_isolation(policy, CONFINE_ISOLATE_PROCESS, NULL), 0);
  provider = provider_of(&settings);
  isolation_is_refused(provider, policy, "runner landlock cannot isolate process");
  confine_provider_free(provider);
  confine_policy_free(policy);
}

static int confine_under(confine_provider *provider, const confine_policy *policy, confine_error *error) {
  confine_wrapped *wrapped = NULL;
  int r = confine_provider_confine(provider, command, policy, &wrapped, error);
  confine_wrapped_free(wrapped);
  return r;
}

/* A launcher that the command could replace would decide about the next call. */
static void a_writable_launcher_is_refused(void **state) {
  (void)state;
  static const confine_runner chains[][1] = {{CONFINE_RUNNER_NAMESPACE}, {CONFINE_RUNNER_LANDLOCK}};
  confine_error error = CONFINE_ERROR_INIT;
  script("landlock-run", LANDLOCK_WORKS);
  script("namespace-run", NAMESPACE_WORKS);
  for (size_t i = 0; i < 2; i++) {
    confine_settings settings = settings_for(chains[i], 1);
    confine_provider *provider = provider_of(&settings);
    confine_policy *above = policy_of(CONFINE_MODE_WORKSPACE_WRITE, place),
                   *beside = policy_of(CONFINE_MODE_WORKSPACE_WRITE, workspace),
                   *reading = policy_of(CONFINE_MODE_READ_ONLY, place);
    assert_int_equal(confine_under(provider, above, &error), CONFINE_EPATH);
    assert_non_null(strstr(error.text, launchers));
    assert_int_equal(confine_under(provider, beside, &error), 0);
    assert_int_equal(confine_under(provider, reading, &error), 0);
    assert_int_equal(confine_policy_add_writable(beside, launchers, NULL), 0);
    assert_int_equal(confine_under(provider, beside, &error), CONFINE_EPATH);
    assert_int_equal(confine__provider_check(provider, confine__runner_find(chains[i][0]), beside, 1, &error), 0);
    confine_policy_free(above);
    confine_policy_free(beside);
    confine_policy_free(reading);
    confine_provider_free(provider);
  }
}

/* Any word of the command that is a path may be the script that confines. */
static void a_writable_custom_runner_is_refused(void **state) {
  (void)state;
  char path[128];
  const char *const as_script[] = {"/bin/sh", path, NULL};
  snprintf(path, sizeof path, "%s/shim", workspace);
  confine_provider *provider = custom_provider(as_script);
  confine_policy *policy = policy_of(CONFINE_MODE_WORKSPACE_WRITE, workspace),
                 *other = policy_of(CONFINE_MODE_WORKSPACE_WRITE, launchers);
  confine_error error = CONFINE_ERROR_INIT;
  assert_int_equal(confine_under(provider, policy, &error), CONFINE_EPATH);
  assert_non_null(strstr(error.text, path));
  assert_int_equal(confine_under(provider, other, &error), 0);
  confine_policy_free(policy);
  confine_policy_free(other);
  confine_provider_free(provider);
}

static void protected_files_are_not_writable(void **state) {
  (void)state;
  static const confine_runner namespace[] = {CONFINE_RUNNER_NAMESPACE}, landlock[] = {CONFINE_RUNNER_LANDLOCK};
  char path[128], temporary[] = "/tmp/confine-provider-XXXXXX";
  confine_error error = CONFINE_ERROR_INIT;
  confine_settings settings = settings_for(namespace, 1), with_tmp = settings_for(landlock, 1);
  script("namespace-run", NAMESPACE_WORKS);
  script("landlock-run", LANDLOCK_WORKS);
  snprintf(path, sizeof path, "%s/c.yml", workspace);
  close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  confine_provider *provider = provider_of(&settings), *on_tmp = provider_of(&with_tmp);
  confine_policy *policy = policy_of(CONFINE_MODE_WORKSPACE_WRITE, workspace);
  assert_int_equal(confine_under(provider, policy, &error), 0);
  assert_int_equal(confine_policy_protect(policy, path, &error), 0);
  assert_int_equal(confine_under(provider, policy, &error), CONFINE_EPATH);
  assert_non_null(strstr(error.text, path));
  assert_int_equal(confine_policy_protect(policy, "/nonexistent/file", &error), CONFINE_EPATH);
  confine_policy_free(policy);
  /* The host's /tmp is writable under Landlock and private under the others. */
  int fd = mkstemp(temporary);
  policy = policy_of(CONFINE_MODE_WORKSPACE_WRITE, workspace);
  assert_int_equal(confine_policy_protect(policy, temporary, &error), 0);
  assert_int_equal(confine_under(provider, policy, &error), 0);
  assert_int_equal(confine_under(on_tmp, policy, &error), CONFINE_EPATH);
  for (int i = 1; i < CONFINE_PROTECTED_MAX; i++)
    assert_int_equal(confine_policy_protect(policy, temporary, NULL), 0);
  assert_int_equal(confine_policy_protect(policy, temporary, &error), CONFINE_ELIMIT);
  confine_policy_free(policy);
  confine_provider_free(provider);
  confine_provider_free(on_tmp);
  close(fd);
  unlink(temporary);
}

static void a_workspace_is_needed_to_write(void **state) {
  (void)state;
  confine_settings settings = settings_for(both, 1);
  confine_policy *policy = NULL;
  confine_error error = CONFINE_ERROR_INIT;
  script("namespace-run", NAMESPACE_WORKS);
  confine_provider *provider = provider_of(&settings);
  assert_int_equal(confine_policy_new(CONFINE_MODE_WORKSPACE_WRITE, &policy, NULL), 0);
  assert_int_equal(confine_under(provider, policy, &error), CONFINE_EINVAL);
  confine_policy_free(policy);
  confine_provider_free(provider);
}

/* Many calls cost no descriptor; a failing probe neither. */
static void nothing_leaks(void **state) {
  (void)state;
  confine_settings settings = settings_for(both, 2);
  script("namespace-run", "exit 1");
  script("landlock-run", LANDLOCK_WORKS);
  int before = count_descriptors();
  for (int i = 0; i < 10; i++) {
    confine_provider *provider = provider_of(&settings);
    confine_policy *policy = policy_of(CONFINE_MODE_WORKSPACE_WRITE, workspace);
    for (int j = 0; j < 20; j++)
      assert_int_equal(confine_under(provider, policy, NULL), 0);
    confine_provider_probe_again(provider);
    assert_int_equal(confine_under(provider, policy, NULL), 0);
    confine_policy_free(policy);
    confine_provider_free(provider);
  }
  assert_int_equal(count_descriptors(), before);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_place, remove_place)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(the_first_that_works_is_chosen_and_remembered),
      TEST(verdicts_are_remembered_one_by_one),
      TEST(gaps_are_the_runners),
      TEST(a_sole_candidate_is_not_probed),
      TEST(nothing_usable_is_said_exactly),
      TEST(contradictory_settings_are_refused_exactly),
      TEST(settings_are_bounded),
      TEST(a_hanging_probe_is_ended_with_its_children),
      TEST(the_host_notices_nothing),
      TEST(probes_work_without_standard_streams),
      TEST(probes_have_a_clean_environment),
      TEST(each_failure_has_its_reason),
      TEST(repairs_name_the_setting),
      TEST(a_custom_runner_gets_the_base_profile),
      TEST(full_access_asks_nobody),
      TEST(what_cannot_be_isolated_is_refused),
      TEST(a_writable_launcher_is_refused),
      TEST(a_writable_custom_runner_is_refused),
      TEST(protected_files_are_not_writable),
      TEST(a_workspace_is_needed_to_write),
      TEST(nothing_leaks),
  };
  return cmocka_run_group_tests_name("provider", tests, NULL, NULL);
}
