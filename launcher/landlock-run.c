/*
 * landlock-run [--ro PATH]... [--rw PATH]... -- ARGV...
 * landlock-run --probe
 *
 * Restricts itself with Landlock and executes a command. The options above, their texts and exit status
 * 125 are a published contract; the others are in options.h and landlock-run(1).
 */
#include "enter/landlock.h"
#include "environment.h"
#include "options.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME "landlock-run"

extern char **environ;

static int fully_enforced(int abi) {
  return abi >= LANDLOCK_ABI_FULL;
}

static void require_landlock(const struct launcher *launcher) {
  if (launcher->plan.landlock_abi < 1)
    launcher_die(launcher, "landlock is not enforced by this kernel (ABI unsupported or disabled)");
}

/* Really enforces, in this short-lived process: a kernel may know Landlock and refuse it. */
static _Noreturn void probe(struct launcher *launcher) {
  struct confine__outcome outcome = {.index = -1};
  struct confine__plan *plan = &launcher->plan;
  char *nothing[] = {(char *)"", NULL};
  plan->flags = CONFINE__PLAN_LANDLOCK | CONFINE__PLAN_EVERY_RIGHT;
  plan->argv = nothing;
  confine__plan_host(plan);
  require_landlock(launcher);
  confine__enter(plan, &outcome);
  if (outcome.step != CONFINE__STEP_EXEC)
    launcher_die(launcher, "landlock ruleset error: %s", strerror(outcome.error));
  const char *verdict =
      fully_enforced(plan->landlock_abi) ? "landlock: fully enforced\n" : "landlock: partially enforced (older ABI)\n";
  ssize_t length = (ssize_t)strlen(verdict);
  _exit(write(STDOUT_FILENO, verdict, (size_t)length) == length ? 0 : LAUNCHER_FAILURE);
}

static void contract_path(struct launcher *launcher, char **argv, int *index, int writable) {
  if (!argv[*index + 1] || strcmp(argv[*index + 1], "--") == 0)
    launcher_die(launcher, "usage error: %s requires a path", argv[*index]);
  launcher_add_path(launcher, argv[++*index], writable);
}

/* Confines nothing: starts the next program without any of the caller's variables, for the landlock-run
 * inside it to restore. */
static _Noreturn void carry(const struct launcher *launcher, char **argv) {
  if (!argv[0] || strcmp(argv[0], "--") != 0 || !argv[1])
    launcher_die(launcher, "usage error: missing `-- <argv>...` command");
  char **environment = environment_carry(environ);
  if (environment)
    environment = environment_carry_words(environment, argv + 1);
  if (!environment)
    launcher_die(launcher, "out of memory");
  execve(argv[1], argv + 1, environment);
  launcher_die(launcher, "exec failed: %s: %s", argv[1], strerror(errno));
}

/* The program between may have found the caller's directory hidden and gone elsewhere. Descriptors are put back by
 * number, so before this process has opened any. */
static void restore(struct launcher *launcher) {
  launcher->cwd_lost = !environment_same_directory(environ);
  launcher->parent = environment_carrier(environ);
  launcher->plan.argv = environment_words(environ);
  launcher->plan.envp = environment_restore(environ);
  if (!launcher->plan.envp)
    launcher_die(launcher, "out of memory");
}

static void parse(struct launcher *launcher, char **argv) {
  int i = 1;
  if (argv[i] && strcmp(argv[i], "--probe") == 0) {
    if (argv[i + 1])
      launcher_die(launcher, "usage error: --probe takes no other arguments");
    probe(launcher);
  }
  if (argv[i] && strcmp(argv[i], "--carry-environment") == 0)
    carry(launcher, argv + i + 1);
  if (argv[i] && strcmp(argv[i], "--restore-environment") == 0) {
    restore(launcher);
    i++;
  }
  for (; argv[i] && strcmp(argv[i], "--") != 0; i++) {
    if (strcmp(argv[i], "--probe") == 0)
      launcher_die(launcher, "usage error: --probe takes no other arguments");
    if (strcmp(argv[i], "--ro") == 0)
      contract_path(launcher, argv, &i, 0);
    else if (strcmp(argv[i], "--rw") == 0)
      contract_path(launcher, argv, &i, 1);
    else if (strcmp(argv[i], "--devices") == 0)
      launcher->plan.flags |= CONFINE__PLAN_DEVICES;
    else if (strcmp(argv[i], "--read-only-tree") == 0)
      launcher->plan.flags |= CONFINE__PLAN_READ_ONLY_TREE;
    else if (!launcher_option(launcher, argv, &i))
      launcher_die(launcher, "usage error: unknown argument: %s", argv[i]);
  }
  if (argv[i] && argv[i + 1])
    launcher->plan.argv = argv + i + 1;
  if (!argv[i] || !launcher->plan.argv)
    launcher_die(launcher, "usage error: missing `-- <argv>...` command");
}

/* Where everything may be read, the reading rights need not be governed: same effect, less work for the
 * kernel on every open. */
static void drop_reading(struct confine__plan *plan) {
  struct stat root;
  if (stat("/", &root) != 0)
    return;
  for (size_t i = 0; i < plan->readable_count; i++)
    if (plan->readable[i].device == root.st_dev && plan->readable[i].inode == root.st_ino) {
      plan->flags &= ~(uint32_t)CONFINE__PLAN_EVERY_RIGHT;
      plan->readable_count = 0;
    }
}

int main(int argc, char **argv) {
  static struct launcher launcher;
  (void)argc;
  launcher_init(&launcher, NAME, environ);
  launcher.plan.flags = CONFINE__PLAN_LANDLOCK | CONFINE__PLAN_EVERY_RIGHT;
  parse(&launcher, argv);
  launcher.plan.landlock_abi = confine__landlock_abi();
  require_landlock(&launcher);
  drop_reading(&launcher.plan);
  if (!fully_enforced(launcher.plan.landlock_abi)) {
    static const char notice[] = NAME ": partial enforcement (older Landlock ABI)\n";
    ssize_t ignored = write(STDERR_FILENO, notice, sizeof notice - 1);
    (void)ignored;
  }
  launcher_run(&launcher);
}
