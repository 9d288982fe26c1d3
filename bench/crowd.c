/*
 * Runs a command on a host with more mounts than this one has.
 *
 *     bench-crowd COUNT DIRECTORY COMMAND [ARG]...
 *
 * In a mount namespace of its own, that nothing outside sees, DIRECTORY becomes a small file system with
 * COUNT directories, each a mount of its own; then the command is executed. Needs CAP_SYS_ADMIN.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

static int fail(const char *what) {
  fprintf(stderr, "bench-crowd: %s: %s\n", what, strerror(errno));
  return 125;
}

int main(int argc, char **argv) {
  char path[4096];
  long count = argc > 3 ? strtol(argv[1], NULL, 10) : -1;
  if (count < 0) {
    fprintf(stderr, "usage: bench-crowd COUNT DIRECTORY COMMAND [ARG]...\n");
    return 125;
  }
  if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
    return fail("a private mount namespace");
  if (mount("tmpfs", argv[2], "tmpfs", 0, "mode=755") != 0)
    return fail(argv[2]);
  for (long i = 0; i < count; i++) {
    snprintf(path, sizeof path, "%s/%ld", argv[2], i);
    if (mkdir(path, 0755) != 0 || mount(path, path, NULL, MS_BIND, NULL) != 0)
      return fail(path);
  }
  execvp(argv[3], argv + 3);
  return fail(argv[3]);
}
