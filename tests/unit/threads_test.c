/*
 * Many threads on one provider, each with a policy of its own, while another makes it probe again. For one
 * second, or as many as CONFINE_TEST_SECONDS says. Meant for the thread sanitizer too.
 */
#include <confine/confine.h>

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define THREADS 64

static char place[64];
static confine_provider *provider;
static atomic_int stop;
static atomic_long calls;

static void write_script(const char *name, const char *text) {
  char path[128];
  snprintf(path, sizeof path, "%s/%s", place, name);
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
  assert_true(fd >= 0);
  assert_true(dprintf(fd, "#!/bin/sh\n%s\n", text) > 0);
  close(fd);
}

static int make_place(void **state) {
  (void)state;
  snprintf(place, sizeof place, "/var/tmp/confine-threads-XXXXXX");
  if (!mkdtemp(place))
    return -1;
  write_script("namespace-run", "exit 1");
  write_script("landlock-run", "echo landlock: fully enforced");
  for (int i = 0; i < THREADS; i++) {
    char path[128];
    snprintf(path, sizeof path, "%s/work-%d", place, i);
    mkdir(path, 0755);
  }
  return 0;
}

static int remove_place(void **state) {
  char path[128];
  (void)state;
  for (int i = 0; i < THREADS; i++) {
    snprintf(path, sizeof path, "%s/work-%d", place, i);
    rmdir(path);
  }
  snprintf(path, sizeof path, "%s/namespace-run", place);
  unlink(path);
  snprintf(path, sizeof path, "%s/landlock-run", place);
  unlink(path);
  return rmdir(place);
}

/* One call; 0 if what came of it is this thread's own policy and command. */
static int wrap_once(const confine_policy *policy, const char *root) {
  const char *const command[] = {"cmd", root, NULL};
  confine_wrapped *wrapped = NULL;
  if (confine_provider_confine(provider, command, policy, &wrapped, NULL) != 0)
    return 1;
  const char *const *argv = confine_wrapped_argv(wrapped);
  size_t count = 0, roots = 0;
  for (; argv[count]; count++) {
    const char *colon = strrchr(argv[count], ':');
    roots += colon && strcmp(colon + 1, root) == 0;
  }
  int wrong = confine_wrapped_runner(wrapped) != CONFINE_RUNNER_LANDLOCK || roots != 1 ||
              strcmp(argv[count - 1], root) != 0;
  confine_wrapped_free(wrapped);
  return wrong;
}

static void *work(void *number) {
  char root[128];
  confine_policy *policy = NULL;
  intptr_t wrong = 0;
  snprintf(root, sizeof root, "%s/work-%d", place, *(int *)number);
  wrong += confine_policy_new(CONFINE_MODE_WORKSPACE_WRITE, &policy, NULL);
  wrong += confine_policy_set_workspace(policy, root, NULL);
  while (!wrong && !atomic_load(&stop)) {
    wrong += wrap_once(policy, root);
    atomic_fetch_add(&calls, 1);
  }
  confine_policy_free(policy);
  return (void *)wrong;
}

static void sleep_ms(long ms) {
  struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
  nanosleep(&time, NULL);
}

static void many_threads_use_one_provider(void **state) {
  (void)state;
  static const confine_runner chain[] = {CONFINE_RUNNER_NAMESPACE, CONFINE_RUNNER_LANDLOCK};
  confine_settings settings = CONFINE_SETTINGS_INIT;
  pthread_t threads[THREADS];
  int numbers[THREADS];
  const char *seconds = getenv("CONFINE_TEST_SECONDS");
  long rounds = (seconds ? strtol(seconds, NULL, 10) : 1) * 20;
  settings.chain = chain;
  settings.chain_length = 2;
  settings.launcher_directory = place;
  assert_int_equal(confine_provider_new(&settings, &provider, NULL), 0);
  for (int i = 0; i < THREADS; i++) {
    numbers[i] = i;
    assert_int_equal(pthread_create(&threads[i], NULL, work, &numbers[i]), 0);
  }
  for (long i = 0; i < rounds; i++) {
    sleep_ms(50);
    if (i % 5 == 0)
      confine_provider_probe_again(provider);
  }
  atomic_store(&stop, 1);
  for (int i = 0; i < THREADS; i++) {
    void *wrong;
    assert_int_equal(pthread_join(threads[i], &wrong), 0);
    assert_null(wrong);
  }
  print_message("# %ld calls\n", atomic_load(&calls));
  assert_true(atomic_load(&calls) > THREADS);
  confine_provider_free(provider);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(many_threads_use_one_provider)};
  return cmocka_run_group_tests_name("threads", tests, make_place, remove_place);
}
