#include "environment.h"

#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PREFIX "confine:"
#define PREFIX_LENGTH (sizeof PREFIX - 1)
/* Not of the carried form, so never mistaken for one. */
#define DIRECTORY "confine-directory="
#define STREAMS "confine-streams="
#define SIGNALS "confine-signals="
#define CARRIER "confine-carrier="
#define CARRIED 4 /* of these variables */
#define WORD '='
#define TEXT_SIZE 64

static size_t count(char **environment) {
  size_t n = 0;
  while (environment[n])
    n++;
  return n;
}

/* Only of a pipe or a socket can somebody at the other end tell who holds it; of a terminal bwrap must know
 * the name. */
static int has_peer(int fd) {
  struct stat st;
  return fstat(fd, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode));
}

/* Closed on exec: not the caller's, but put there by launcher_init in place of a closed one. */
static int is_closed(int fd) {
  int flags = fcntl(fd, F_GETFD);
  return flags < 0 || (flags & FD_CLOEXEC);
}

static char *carry_streams(void) {
  int at[3], nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  char *text = malloc(TEXT_SIZE);
  for (int fd = 0; fd < 3; fd++) {
    at[fd] = is_closed(fd) ? -1 : fd;
    if (at[fd] == fd && fd != STDERR_FILENO && has_peer(fd))
      at[fd] = fcntl(fd, F_DUPFD, 3);
    if (at[fd] != fd)
      dup2(nothing, fd);
  }
  if (text)
    snprintf(text, TEXT_SIZE, STREAMS "%d:%d:%d", at[0], at[1], at[2]);
  return text;
}

static void restore_streams(const char *variable) {
  int at[3];
  if (sscanf(variable, STREAMS "%d:%d:%d", &at[0], &at[1], &at[2]) != 3)
    return;
  for (int fd = 0; fd < 3; fd++) {
    if (at[fd] < 0) {
      fcntl(fd, F_SETFD, FD_CLOEXEC);
    } else if (at[fd] > STDERR_FILENO) {
      dup2(at[fd], fd);
      close(at[fd]);
    }
  }
}

/* What a terminal's keys send is for the command alone: bwrap would end or stop on it. An ignored SIGCHLD
 * would keep it from seeing its child's end. */
static char *carry_signals(void) {
  uint64_t keys = 1ull << (SIGINT - 1) | 1ull << (SIGQUIT - 1) | 1ull << (SIGTSTP - 1), mask = 0;
  char *text = malloc(TEXT_SIZE);
  int ignored = signal(SIGCHLD, SIG_DFL) == SIG_IGN;
  syscall(SYS_rt_sigprocmask, SIG_BLOCK, &keys, &mask, sizeof mask);
  if (text)
    snprintf(text, TEXT_SIZE, SIGNALS "%llx:%d", (unsigned long long)mask, ignored);
  return text;
}

static void restore_signals(const char *variable) {
  unsigned long long mask;
  int ignored;
  if (sscanf(variable, SIGNALS "%llx:%d", &mask, &ignored) != 2)
    return;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &(uint64_t){mask}, NULL, sizeof(uint64_t));
  if (ignored)
    signal(SIGCHLD, SIG_IGN);
}

static char *carry_carrier(void) {
  char *text = malloc(TEXT_SIZE);
  int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
  if (fd >= 0)
    fcntl(fd, F_SETFD, 0);
  if (text)
    snprintf(text, TEXT_SIZE, CARRIER "%d", fd);
  return text;
}

static char *carry_directory(void) {
  struct stat st;
  char *text = malloc(TEXT_SIZE);
  if (text && stat(".", &st) == 0)
    snprintf(text, TEXT_SIZE, DIRECTORY "%llu:%llu", (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
  else if (text)
    *text = '\0';
  return text;
}

char **environment_carry(char **environment) {
  size_t n = count(environment), at = 0;
  char **carried = calloc(n + CARRIED + 1, sizeof *carried);
  if (!carried)
    return NULL;
  for (size_t i = 0; i < n; i++) {
    size_t length = strlen(environment[i]) + 1;
    char *copy = malloc(PREFIX_LENGTH + length);
    if (!copy) {
      free(carried);
      return NULL;
    }
    memcpy(copy, PREFIX, PREFIX_LENGTH);
    memcpy(copy + PREFIX_LENGTH, environment[i], length);
    carried[at++] = copy;
  }
  carried[at] = carry_streams();
  carried[at + 1] = carry_signals();
  carried[at + 2] = carry_carrier();
  carried[at + 3] = carry_directory();
  if (carried[at] && carried[at + 1] && carried[at + 2] && carried[at + 3])
    return carried;
  free(carried);
  return NULL;
}

char **environment_restore(char **environment) {
  char **restored = calloc(count(environment) + 1, sizeof *restored);
  size_t at = 0;
  if (!restored)
    return NULL;
  for (; *environment; environment++) {
    restore_streams(*environment);
    restore_signals(*environment);
    if (strncmp(*environment, PREFIX, PREFIX_LENGTH) == 0)
      restored[at++] = *environment + PREFIX_LENGTH;
  }
  return restored;
}

/* Returns the end of what is carried in argv: NULL, or the first word after the second `--`. */
static char **command_words(char **argv) {
  int separators = 0;
  for (; *argv; argv++)
    if (strcmp(*argv, "--") == 0 && ++separators == 2)
      return argv + 1;
  return NULL;
}

char **environment_carry_words(char **environment, char **argv) {
  char **words = count(argv) > ENVIRONMENT_WORDS_MAX ? command_words(argv) : NULL;
  if (!words)
    return environment;
  size_t at = count(environment);
  char **carried = realloc(environment, (at + count(words) + 1) * sizeof *carried);
  if (!carried)
    return NULL;
  for (char **word = words; *word; word++) {
    size_t length = strlen(*word) + 1;
    char *copy = malloc(1 + length);
    if (!copy) {
      free(carried);
      return NULL;
    }
    *copy = WORD;
    memcpy(copy + 1, *word, length);
    carried[at++] = copy;
  }
  carried[at] = NULL;
  *words = NULL;
  return carried;
}

char **environment_words(char **environment) {
  size_t at = 0;
  char **words = calloc(count(environment) + 1, sizeof *words);
  for (; words && *environment; environment++)
    if (**environment == WORD)
      words[at++] = *environment + 1;
  if (at)
    return words;
  free(words);
  return NULL;
}

int environment_carrier(char **environment) {
  int fd;
  for (; *environment; environment++)
    if (sscanf(*environment, CARRIER "%d", &fd) == 1)
      return fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 ? fd : -1;
  return -1;
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
