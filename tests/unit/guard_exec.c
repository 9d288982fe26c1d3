/*
 * guard_exec MASK COMMAND...: run a command under the guard filter with these variant bits. 125 when the
 * filter cannot be installed, 127 when the command cannot be started.
 */
#include <stdio.h>
#include <stdlib.h>

#include "guard_install.h"

int main(int argc, char **argv) {
  char *end;

  if (argc < 3) {
    fprintf(stderr, "usage: guard_exec MASK COMMAND...\n");
    return 125;
  }
  unsigned long mask = strtoul(argv[1], &end, 0);
  if (*end != '\0' || mask > 31) {
    fprintf(stderr, "guard_exec: not a mask: %s\n", argv[1]);
    return 125;
  }
  int error = guard_install((unsigned)mask, 0);
  if (error != 0) {
    errno = -error;
    fprintf(stderr, "guard_exec: no filter for mask %lu: %m\n", mask);
    return 125;
  }
  execvp(argv[2], argv + 2);
  fprintf(stderr, "guard_exec: %s: %m\n", argv[2]);
  return 127;
}
