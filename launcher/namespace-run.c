/*
 * namespace-run --mode MODE [--root DEV:INO:PATH]... [OPTIONS] -- ARGV...
 * namespace-run --probe
 *
 * Gives itself a private, read-only view of the host's tree in which only the roots and a private temp
 * area can be written, and executes a command. See options.h and namespace-run(1).
 */
#include "options.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME "namespace-run"

extern char **environ;

static void set_mode(struct launcher *launcher, const char *mode) {
  if (mode && strcmp(mode, "workspace-write") == 0)
    launcher->plan.flags |= CONFINE__PLAN_WRITABLE;
  else if (!mode || strcmp(mode, "read-only") != 0)
    launcher_die(launcher, "usage error: --mode requires read-only or workspace-write");
}

/* A probe is a run of the whole set-up with a command that exists everywhere: this program. */
static void set_probe(struct launcher *launcher) {
  static char *self[] = {(char *)"/proc/self/exe", (char *)"--probed", NULL};
  launcher->plan.argv = self;
}

static void parse(struct launcher *launcher, char **argv) {
  int i = 1, mode = 0;
  if (argv[1] && !argv[2] && strcmp(argv[1], "--probed") == 0) {
    static const char verdict[] = "namespace: enforced\n";
    _exit(write(STDOUT_FILENO, verdict, sizeof verdict - 1) < 0 ? LAUNCHER_FAILURE : 0);
  }
  if (argv[1] && strcmp(argv[1], "--probe") == 0) {
    if (argv[2])
      launcher_die(launcher, "usage error: --probe takes no other arguments");
    set_probe(launcher);
    return;
  }
  for (; argv[i] && strcmp(argv[i], "--") != 0; i++) {
    if (strcmp(argv[i], "--mode") == 0) {
      set_mode(launcher, argv[i + 1]);
      mode = 1;
      i++;
    } else if (!launcher_option(launcher, argv, &i)) {
      launcher_die(launcher, "usage error: unknown argument: %s", argv[i]);
    }
  }
  if (!argv[i] || !argv[i + 1])
    launcher_die(launcher, "usage error: missing `-- <argv>...` command");
  if (!mode)
    launcher_die(launcher, "usage error: --mode requires read-only or workspace-write");
  launcher->plan.argv = argv + i + 1;
}

int main(int argc, char **argv) {
  static struct launcher launcher;
  (void)argc;
  launcher_init(&launcher, NAME, environ);
  launcher.plan.flags = CONFINE__PLAN_MOUNTS | CONFINE__PLAN_CAPABILITIES | CONFINE__PLAN_DEVICES;
  parse(&launcher, argv);
  launcher.plan.landlock_abi = confine__landlock_abi();
  if (launcher.plan.landlock_abi > 0)
    launcher.plan.flags |= CONFINE__PLAN_LANDLOCK;
  if ((launcher.plan.flags & CONFINE__PLAN_WRITABLE) && !launcher.plan.root_count)
    launcher_die(&launcher, "usage error: --mode workspace-write requires a --root");
  launcher.plan.flags |= CONFINE__PLAN_HOST_TMP * ((launcher.plan.flags & CONFINE__PLAN_WRITABLE) != 0);
  launcher_run(&launcher);
}
