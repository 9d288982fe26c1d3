#include "environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PREFIX "confine:"
#define PREFIX_LENGTH (sizeof PREFIX - 1)
/* Not of the carried form, so never mistaken for one. */
#define DIRECTORY "confine-directory="

static size_t count(char **environment) {
  size_t n = 0;
  while (environment[n])
    n++;
  return n;
}

char **environment_carry(char **environment) {
  size_t n = count(environment), at = 0;
  char **carried = calloc(n + 2, sizeof *carried);
  struct stat st;
  if (!carried)
    return NULL;
  for (size_t i = 0; i < n; i++) {
    size_t length = strlen(environment[i]) + 1;
    char *copy = malloc(PREFIX_LENGTH + length);
    if (!copy)
      return NULL;
    memcpy(copy, PREFIX, PREFIX_LENGTH);
    memcpy(copy + PREFIX_LENGTH, environment[i], length);
    carried[at++] = copy;
  }
  if (stat(".", &st) == 0) {
    size_t size = sizeof DIRECTORY + 48;
    char *identity = malloc(size);
    if (!identity)
      return NULL;
    snprintf(identity, size, DIRECTORY "%llu:%llu", (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
    carried[at] = identity;
  }
  return carried;
}

char **environment_restore(char **environment) {
  char **restored = calloc(count(environment) + 1, sizeof *restored);
  size_t at = 0;
  if (!restored)
    return NULL;
  for (; *environment; environment++)
    if (strncmp(*environment, PREFIX, PREFIX_LENGTH) == 0)
      restored[at++] = *environment + PREFIX_LENGTH;
  return restored;
}

int environment_same_directory(char **environment) {
  struct stat st;
  unsigned long long device, inode;
  for (; *environment; environment++) {
    if (sscanf(*environment, DIRECTORY "%llu:%llu", &device, &inode) != 2)
      continue;
    return stat(".", &st) == 0 && st.st_dev == device && st.st_ino == inode;
  }
  return 1;
}
