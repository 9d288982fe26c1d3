/*
 * Each allocation of the public interface fails in turn: every call then says so or succeeds all the same, gives
 * nothing half made, and loses nothing. The allocator of the C library is replaced in this program, so that what it
 * allocates for itself (realpath, getline, jansson, libyaml) fails too.
 */
#include <confine/confine.h>

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

/* With the address sanitizer its allocator lies below, so that it sees what is lost. */
extern void *__interceptor_malloc(size_t size) __attribute__((weak));
extern void *__interceptor_calloc(size_t count, size_t size) __attribute__((weak));
extern void *__interceptor_realloc(void *old, size_t size) __attribute__((weak));
extern void __interceptor_free(void *memory) __attribute__((weak));
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void __libc_free(void *memory);

static long countdown; /* 0: none fails; n: the nth from now does */
static long live;      /* allocations not freed */

static int fails(void) {
  if (countdown && --countdown == 0) {
    errno = ENOMEM;
    return 1;
  }
  return 0;
}

void *malloc(size_t size) {
  void *memory = fails() ? NULL : __interceptor_malloc ? __interceptor_malloc(size) : __libc_malloc(size);
  live += memory != NULL;
  return memory;
}

void *calloc(size_t count, size_t size) {
  void *memory = fails() ? NULL : __interceptor_calloc ? __interceptor_calloc(count, size) : __libc_calloc(count, size);
  live += memory != NULL;
  return memory;
}

void *realloc(void *old, size_t size) {
  void *memory = fails() ? NULL : __interceptor_realloc ? __interceptor_realloc(old, size) : __libc_realloc(old, size);
  live += memory && !old;
  return memory;
}

void free(void *memory) {
  live -= memory != NULL;
  if (__interceptor_free)
    __interceptor_free(memory);
  else
    __libc_free(memory);
}

static char place[64], config_path[128], launchers[96];

static void write_file(const char *path, const char *text, int mode) {
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
  assert_true(fd >= 0);
  assert_true(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
  close(fd);
}

static int make_place(void **state) {
  char path[160];
  (void)state;
  snprintf(place, sizeof place, "/var/tmp/confine-memory-XXXXXX");
  if (!mkdtemp(place))
    return -1;
  snprintf(launchers, sizeof launchers, "%s/launchers", place);
  snprintf(config_path, sizeof config_path, "%s/c.yml", launchers);
  mkdir(launchers, 0755);
  snprintf(path, sizeof path, "%s/work", place);
  mkdir(path, 0755);
  snprintf(path, sizeof path, "%s/more", place);
  mkdir(path, 0755);
  snprintf(path, sizeof path, "%s/namespace-run", launchers);
  write_file(path, "#!/bin/sh\nexit 1\n", 0755);
  snprintf(path, sizeof path, "%s/landlock-run", launchers);
  write_file(path, "#!/bin/sh\necho landlock: fully enforced\n", 0755);
  write_file(config_path,
             "mode: workspace-write\nworkspaceRoot: ../work\nwritableRoots: [../more]\nprobeTimeoutMs: 1e4\n"
             "chain: [namespace, landlock]\nrunnerCommand: [/bin/sh, -x]\nrunnerFailureSignatures: ['a: ', 'b: ']\n",
             0644);
  return 0;
}

static int remove_place(void **state) {
  static const char *const files[] = {
      "launchers/namespace-run", "launchers/landlock-run", "launchers/c.yml", "launchers", "work", "more", ""};
  char path[160];
  (void)state;
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    snprintf(path, sizeof path, "%s/%s", place, files[i]);
    remove(path);
  }
  return 0;
}

static const char *const command[] = {"touch", "caf\xe9", "x", NULL};

/* What a scenario has in hand; every one of them may be missing. */
struct hand {
  confine_config *config;
  confine_policy *policy;
  confine_provider *provider;
  confine_wrapped *wrapped;
  confine_host_report *report;
  confine_result *result;
  char *json;
};

static void release(struct hand *hand) {
  confine_result_free(hand->result);
  confine_host_report_free(hand->report);
  confine_wrapped_free(hand->wrapped);
  confine_provider_free(hand->provider);
  confine_policy_free(hand->policy);
  confine_config_free(hand->config);
  free(hand->json);
  memset(hand, 0, sizeof *hand);
}

static int make_policy(struct hand *hand, confine_error *error) {
  int r = confine_policy_new(CONFINE_MODE_WORKSPACE_WRITE, &hand->policy, error);
  if (r == 0)
    r = confine_policy_set_workspace(hand->policy, confine_config_workspace(hand->config), error);
  for (size_t i = 0; r == 0 && i < confine_config_writable_count(hand->config); i++)
    r = confine_policy_add_writable(hand->policy, confine_config_writable(hand->config, i), error);
  if (r == 0)
    r = confine_policy_protect(hand->policy, confine_config_path(hand->config), error);
  return r;
}

/* Configuration, custom runner, wrapping, its JSON, judging what came of it. */
static int custom(struct hand *hand, confine_error *error) {
  confine_settings settings = CONFINE_SETTINGS_INIT;
  confine_outcome outcome = CONFINE_OUTCOME_INIT;
  confine_verdict verdict = CONFINE_VERDICT_INIT;
  outcome.exit_code = 1;
  outcome.stderr_bytes = "a: b";
  outcome.stderr_length = 4;
  int r = confine_config_load(config_path, &hand->config, error);
  if (r == 0)
    r = confine_config_settings(hand->config, &settings);
  if (r == 0)
    r = confine_provider_new(&settings, &hand->provider, error);
  if (r == 0)
    r = make_policy(hand, error);
  if (r == 0)
    r = confine_provider_confine(hand->provider, command, hand->policy, &hand->wrapped, error);
  if (r == 0)
    r = confine_wrapped_json(hand->wrapped, &hand->json, error);
  if (r == 0)
    r = confine_classify(hand->wrapped, &outcome, &verdict);
  if (r == 0)
    r = confine_classify_spawn_error(hand->wrapped, ENOENT, place, &verdict);
  return r;
}

/* Probing, choosing, probing again, wrapping. */
static int probing(struct hand *hand, confine_error *error) {
  static const confine_runner chain[] = {CONFINE_RUNNER_NAMESPACE, CONFINE_RUNNER_LANDLOCK};
  confine_settings settings = CONFINE_SETTINGS_INIT;
  settings.chain = chain;
  settings.chain_length = 2;
  settings.launcher_directory = launchers;
  int r = confine_config_load(config_path, &hand->config, error);
  if (r == 0)
    r = make_policy(hand, error);
  if (r == 0)
    r = confine_provider_new(&settings, &hand->provider, error);
  if (r == 0)
    r = confine_provider_confine(hand->provider, command, hand->policy, &hand->wrapped, error);
  if (r == 0)
    confine_provider_probe_again(hand->provider);
  return r;
}

static int examining(struct hand *hand, confine_error *error) {
  confine_settings settings = CONFINE_SETTINGS_INIT;
  settings.launcher_directory = launchers;
  int r = confine_provider_new(&settings, &hand->provider, error);
  if (r == 0)
    r = confine_provider_examine(hand->provider, &hand->report, error);
  if (r == 0)
    r = confine_host_report_json(hand->report, &hand->json, error);
  return r;
}

/* The library's own place is looked up, full access wraps without a provider. */
static int by_default(struct hand *hand, confine_error *error) {
  int r = confine_provider_new(NULL, &hand->provider, error);
  if (r == 0)
    confine_provider_probe_again(hand->provider);
  if (r == 0)
    r = confine_policy_new(CONFINE_MODE_DANGER_FULL_ACCESS, &hand->policy, error);
  if (r == 0)
    r = confine_provider_confine(NULL, command, hand->policy, &hand->wrapped, error);
  return r;
}

/* Runs a command to its end, and has its record. */
static int running(struct hand *hand, confine_error *error) {
  static const confine_runner landlock[] = {CONFINE_RUNNER_LANDLOCK};
  static const char *const words[] = {"true", NULL};
  confine_settings settings = CONFINE_SETTINGS_INIT;
  confine_run_options options = CONFINE_RUN_OPTIONS_INIT;
  settings.chain = landlock;
  settings.chain_length = 1;
  int r = confine_provider_new(&settings, &hand->provider, error);
  if (r == 0)
    r = confine_policy_new(CONFINE_MODE_WORKSPACE_WRITE, &hand->policy, error);
  if (r == 0)
    r = confine_policy_set_workspace(hand->policy, launchers, error);
  if (r == 0)
    r = confine_run(hand->provider, words, hand->policy, &options, &hand->result, error);
  if (r == 0) {
    assert_int_equal(confine_result_exit_status(hand->result), 0);
    r = confine_result_json(hand->result, &hand->json, error);
  }
  if (r == 0)
    assert_non_null(strstr(hand->json, "\"started\":true"));
  return r;
}

static void each_allocation_fails(int (*scenario)(struct hand *hand, confine_error *error), int least) {
  struct hand hand = {0};
  int failures = 0;
  for (long n = 1;; n++) {
    confine_error error = CONFINE_ERROR_INIT;
    long before = live;
    countdown = n;
    int r = scenario(&hand, &error);
    int was_reached = countdown == 0;
    countdown = 0;
    if (r != 0 && r != CONFINE_ENOMEM)
      fail_msg("allocation %ld failed, and the call said %d: %s", n, r, error.text);
    if (r != 0)
      assert_string_equal(error.text + strlen(error.text) - (error.system_errno ? 22 : 13),
                          error.system_errno ? "Cannot allocate memory" : "out of memory");
    failures += r != 0;
    release(&hand);
    if (!__interceptor_malloc) /* else it makes strings past us, and counts what is lost itself */
      assert_int_equal(live, before);
    if (!was_reached) {
      assert_int_equal(r, 0);
      break;
    }
  }
  print_message("# %d allocations failed\n", failures);
  assert_true(failures >= (__interceptor_malloc ? least / 4 : least));
}

static void custom_runner(void **state) {
  (void)state;
  each_allocation_fails(custom, 100);
}

static void chain_of_runners(void **state) {
  (void)state;
  each_allocation_fails(probing, 100);
}

static void host_report(void **state) {
  (void)state;
  each_allocation_fails(examining, 100);
}

static void defaults(void **state) {
  (void)state;
  each_allocation_fails(by_default, 4);
}

/* Last: it leaves this process's signals blocked. */
static void run_of_a_command(void **state) {
  (void)state;
  each_allocation_fails(running, 20);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(custom_runner),
      cmocka_unit_test(chain_of_runners),
      cmocka_unit_test(host_report),
      cmocka_unit_test(defaults),
      cmocka_unit_test(run_of_a_command),
  };
  return cmocka_run_group_tests_name("memory", tests, make_place, remove_place);
}
