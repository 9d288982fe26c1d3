/*
 * The least a program must do to run a command in a private mount tree that is read-only but for one
 * directory: what confine adds is measured against it.
 *
 *     bench-bare DIRECTORY COMMAND [ARG]...
 *     bench-bare - COMMAND [ARG]...           none of it: what one more static program costs
 *     bench-bare + COMMAND [ARG]...           none of it, but as a child in a mount namespace, with a filter of one
 *                                             instruction and its listener, that is waited for
 *
 * unshare(2), open_tree(2) of the directory, mount_setattr(2) of everything, move_mount(2), exec. As an
 * ordinary user with a user namespace that maps the caller to itself. Exit status 125 with a message on
 * failure.
 */
#include "enter/sys.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define STACK (64 * 1024)

extern char **environ;

static void check(const char *what, long result) {
  if (result >= 0)
    return;
  fprintf(stderr, "bench-bare: %s: %s\n", what, strerror((int)-result));
  exit(125);
}

static void write_text(const char *path, const char *text) {
  long fd = sys_openat(AT_FDCWD, path, O_WRONLY | O_CLOEXEC, 0);
  check(path, fd);
  check(path, sys(__NR_write, fd, text, strlen(text)));
  sys_close((int)fd);
}

static void write_map(const char *path, long id) {
  char text[64];
  snprintf(text, sizeof text, "%ld %ld 1", id, id);
  write_text(path, text);
}

static void enter(const char *directory) {
  struct sys_mount_attr private = {.propagation = SYS_MS_PRIVATE};
  struct sys_mount_attr read_only = {.attr_set = SYS_MOUNT_ATTR_RDONLY, .propagation = SYS_MS_PRIVATE};
  long uid = sys(__NR_geteuid), gid = sys(__NR_getegid);
  check(directory, sys(__NR_chdir, directory));
  check("unshare", sys(__NR_unshare, SYS_CLONE_NEWNS | (uid ? SYS_CLONE_NEWUSER : 0)));
  if (uid) {
    write_text("/proc/self/setgroups", "deny");
    write_map("/proc/self/uid_map", uid);
    write_map("/proc/self/gid_map", gid);
  }
  long tree = sys(__NR_open_tree, AT_FDCWD, ".",
                  SYS_OPEN_TREE_CLONE | SYS_OPEN_TREE_CLOEXEC | SYS_AT_RECURSIVE);
  check("open_tree", tree);
  check("mount_setattr", sys(__NR_mount_setattr, tree, "", SYS_AT_EMPTY_PATH | SYS_AT_RECURSIVE, &private,
                             sizeof private));
  check("mount_setattr", sys(__NR_mount_setattr, AT_FDCWD, "/", SYS_AT_RECURSIVE, &read_only, sizeof read_only));
  check("move_mount", sys(__NR_move_mount, tree, "", AT_FDCWD, ".", SYS_MOVE_MOUNT_F_EMPTY_PATH));
  check("fchdir", sys(__NR_fchdir, tree));
}

static int become_command(void *arg) {
  char **argv = arg;
  struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const struct sock_fprog program = {.len = 1, .filter = &allow};
  check("no_new_privs", sys(__NR_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
  check("seccomp", sys(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program));
  check(argv[0], sys(__NR_execve, argv[0], argv, environ));
  return 125;
}

static int start_and_wait(char **argv) {
  static char stack[STACK] __attribute__((aligned(16)));
  unsigned long flags = SYS_CLONE_VM | SYS_CLONE_VFORK | SYS_CLONE_FILES | SYS_CLONE_NEWNS |
                        (sys(__NR_geteuid) ? SYS_CLONE_NEWUSER : 0);
  int status;
  long pid = clone(become_command, stack + STACK, (int)flags | SIGCHLD, argv);
  check("clone", pid < 0 ? -errno : pid);
  check("wait4", sys(__NR_wait4, pid, &status, 0, 0));
  return WIFEXITED(status) ? WEXITSTATUS(status) : 125;
}

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: bench-bare DIRECTORY|-|+ COMMAND [ARG]...\n");
    return 125;
  }
  if (strcmp(argv[1], "+") == 0)
    return start_and_wait(argv + 2);
  if (strcmp(argv[1], "-") != 0)
    enter(argv[1]);
  check(argv[2], sys(__NR_execve, argv[2], argv + 2, environ));
  return 125;
}
