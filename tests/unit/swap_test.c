/*
 * A policy resolved once, and its workspace or a directory above it replaced by a symbolic link to somewhere
 * else over and over while commands start: each command writes in the original directory or is refused.
 * CONFINE_SWAP_RUNS: runs of each kind (default 60; the slow suite takes 2000).
 */
#include <confine/confine.h>

#include <dirent.h>
#include <errno.h>
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
#include <unistd.h>

#include <cmocka.h>

struct scene {
  char base[64], swapped[96], aside[96], workspace[128], victim[96];
  int original; /* O_PATH descriptor of the workspace, wherever it is */
  atomic_int stop;
  unsigned long swaps;
};

static int wanted_runs(void) {
  const char *runs = getenv("CONFINE_SWAP_RUNS");
  return runs ? (int)strtol(runs, NULL, 10) : 60;
}

static void set_up(struct scene *scene, int parent) {
  memset(scene, 0, sizeof *scene);
  snprintf(scene->base, sizeof scene->base, "%s", "/var/tmp/confine-swap.XXXXXX");
  assert_non_null(mkdtemp(scene->base));
  snprintf(scene->swapped, sizeof scene->swapped, "%s/%s", scene->base, parent ? "parent" : "ws");
  snprintf(scene->aside, sizeof scene->aside, "%s/aside", scene->base);
  snprintf(scene->workspace, sizeof scene->workspace, "%s%s", scene->swapped, parent ? "/ws" : "");
  snprintf(scene->victim, sizeof scene->victim, "%s/victim", scene->base);
  assert_int_equal(mkdir(scene->victim, 0755), 0);
  assert_int_equal(mkdir(scene->swapped, 0755), 0);
  if (parent) {
    char inner[128];
    assert_int_equal(mkdir(scene->workspace, 0755), 0);
    snprintf(inner, sizeof inner, "%s/ws", scene->victim);
    assert_int_equal(mkdir(inner, 0755), 0);
  }
  scene->original = open(scene->workspace, O_PATH | O_DIRECTORY | O_CLOEXEC);
  assert_true(scene->original >= 0);
}

static void *swap(void *argument) {
  struct scene *scene = argument;
  while (!atomic_load(&scene->stop)) {
    if (rename(scene->swapped, scene->aside) == 0 && symlink("victim", scene->swapped) == 0)
      scene->swaps++;
    usleep(200);
    unlink(scene->swapped);
    rename(scene->aside, scene->swapped);
    usleep(200);
  }
  return NULL;
}

static int count_files(int directory, const char *path) {
  int fd = openat(directory, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), count = 0;
  DIR *list = fd < 0 ? NULL : fdopendir(fd);
  assert_non_null(list);
  for (struct dirent *entry; (entry = readdir(list)) != NULL;)
    count += entry->d_type == DT_REG;
  closedir(list);
  return count;
}

/* Returns how many of the runs wrote. */
static int run_all(struct scene *scene, confine_runner runner, int runs, int swapping) {
  confine_provider *provider = NULL;
  confine_policy *policy = NULL;
  confine_error error = CONFINE_ERROR_INIT;
  confine_run_options options = CONFINE_RUN_OPTIONS_INIT;
  pthread_t swapper;
  options.runner = runner;
  assert_int_equal(confine_provider_new(NULL, &provider, &error), 0);
  assert_int_equal(confine_policy_new(CONFINE_MODE_WORKSPACE_WRITE, &policy, &error), 0);
  assert_int_equal(confine_policy_set_workspace(policy, scene->workspace, &error), 0);
  assert_int_equal(fchdir(scene->original), 0);
  if (swapping)
    assert_int_equal(pthread_create(&swapper, NULL, swap, scene), 0);
  for (int i = 0; i < runs; i++) {
    char name[32];
    confine_result *result = NULL;
    snprintf(name, sizeof name, "ran-%d", i);
    const char *const command[] = {"sh", "-c", "exec 2>/dev/null; echo x >\"$0\"", name, NULL};
    if (confine_run(provider, command, policy, &options, &result, &error) == 0)
      confine_result_free(result);
  }
  atomic_store(&scene->stop, 1);
  if (swapping)
    pthread_join(swapper, NULL);
  assert_int_equal(chdir("/"), 0);
  confine_policy_free(policy);
  confine_provider_free(provider);
  return count_files(scene->original, ".");
}

static void tear_down(struct scene *scene) {
  char command[256];
  close(scene->original);
  snprintf(command, sizeof command, "rm -rf %s", scene->base);
  const char *const remove[] = {"sh", "-c", command, NULL};
  confine_provider *provider = NULL;
  confine_policy *policy = NULL;
  confine_result *result = NULL;
  assert_int_equal(confine_provider_new(NULL, &provider, NULL), 0);
  assert_int_equal(confine_policy_new(CONFINE_MODE_DANGER_FULL_ACCESS, &policy, NULL), 0);
  assert_int_equal(confine_run(provider, remove, policy, NULL, &result, NULL), 0);
  confine_result_free(result);
  confine_policy_free(policy);
  confine_provider_free(provider);
}

static void try_runner(confine_runner runner) {
  int runs = wanted_runs();
  for (int parent = 0; parent < 2; parent++) {
    struct scene scene;
    set_up(&scene, parent);
    assert_int_equal(run_all(&scene, runner, runs, 0), runs);
    tear_down(&scene);

    set_up(&scene, parent);
    int wrote = run_all(&scene, runner, runs, 1);
    print_message("# %s, %s swapped %lu times: %d of %d wrote\n", confine_runner_name(runner),
                  parent ? "parent" : "workspace", scene.swaps, wrote, runs);
    assert_true(scene.swaps > 0);
    assert_int_equal(count_files(AT_FDCWD, scene.victim), 0);
    if (parent) {
      char inner[128];
      snprintf(inner, sizeof inner, "%s/ws", scene.victim);
      assert_int_equal(count_files(AT_FDCWD, inner), 0);
    }
    assert_true(wrote * 10 >= runs);
    tear_down(&scene);
  }
}

static void test_namespace(void **state) {
  (void)state;
  try_runner(CONFINE_RUNNER_NAMESPACE);
}

static void test_landlock(void **state) {
  (void)state;
  try_runner(CONFINE_RUNNER_LANDLOCK);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_namespace), cmocka_unit_test(test_landlock)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
