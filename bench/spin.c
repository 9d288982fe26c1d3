/*
 * Starts commands round robin and measures each from before posix_spawn(3) to after wait4(2), so that what
 * else the machine does falls on all of them alike.
 *
 *     bench-spin ROUNDS NAME COMMAND [ARG]... [;; NAME COMMAND [ARG]...]...
 *
 * Prints for each a line of name, then median, 10th and 90th percentile of the wall time, and the median
 * processor time of all it started and reaped, in microseconds, then the peak resident set of the largest of
 * its processes in KiB. Standard output of the commands goes to /dev/null. Exit status 1 if one fails.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CASES_MAX 64
#define WARMING 5

extern char **environ;

struct timing {
  const char *name;
  char **argv;
  double *wall, *cpu;
  long peak_kib;
};

static double now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static double used_us(const struct rusage *usage) {
  return (double)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * 1e6 +
         (double)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec);
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Splits the arguments at the words `;;`. Returns how many commands there are, or 0. */
static size_t parse(char **words, struct timing *cases) {
  size_t count = 0;
  while (*words && count < CASES_MAX) {
    struct timing *timing = &cases[count++];
    if (!words[1] || strcmp(words[1], ";;") == 0)
      return 0;
    timing->name = words[0];
    timing->argv = words + 1;
    while (*words && strcmp(*words, ";;") != 0)
      words++;
    if (*words)
      *words++ = NULL;
  }
  return *words ? 0 : count;
}

static int run_once(struct timing *timing, const posix_spawn_file_actions_t *actions, long round) {
  const char *program = timing->argv[0];
  struct rusage usage;
  int status;
  pid_t pid;
  double start = now_us();
  int r = program ? posix_spawnp(&pid, program, actions, NULL, timing->argv, environ) : EINVAL;
  if (r != 0) {
    fprintf(stderr, "bench-spin: %s: %s\n", timing->name, strerror(r));
    return -1;
  }
  while (wait4(pid, &status, 0, &usage) < 0)
    if (errno != EINTR)
      return -1;
  double end = now_us();
  if (status != 0) {
    fprintf(stderr, "bench-spin: %s ended with wait status %#x\n", timing->name, (unsigned)status);
    return -1;
  }
  if (round >= 0) {
    timing->wall[round] = end - start;
    timing->cpu[round] = used_us(&usage);
    if (usage.ru_maxrss > timing->peak_kib)
      timing->peak_kib = usage.ru_maxrss;
  }
  return 0;
}

static void print(struct timing *timing, long rounds) {
  size_t n = (size_t)rounds;
  qsort(timing->wall, n, sizeof(double), by_value);
  qsort(timing->cpu, n, sizeof(double), by_value);
  printf("%s %.2f %.2f %.2f %.2f %ld\n", timing->name, timing->wall[n / 2], timing->wall[n / 10],
         timing->wall[n - 1 - n / 10], timing->cpu[n / 2], timing->peak_kib);
}

/* Round robin; the first rounds only get everything warm. */
static int measure(struct timing *cases, size_t count, long rounds) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  int r = 0;
  for (long round = -WARMING; r == 0 && round < rounds; round++)
    for (size_t i = 0; r == 0 && i < count; i++)
      r = run_once(&cases[i], &actions, round);
  posix_spawn_file_actions_destroy(&actions);
  return r;
}

int main(int argc, char **argv) {
  struct timing cases[CASES_MAX] = {0};
  long rounds = argc > 3 ? strtol(argv[1], NULL, 10) : 0;
  size_t count = rounds > 0 ? parse(argv + 2, cases) : 0;
  if (!count) {
    fprintf(stderr, "usage: bench-spin ROUNDS NAME COMMAND [ARG]... [;; NAME COMMAND [ARG]...]...\n");
    return 1;
  }
  double *times = calloc(2 * count * (size_t)rounds, sizeof *times);
  if (!times)
    return 1;
  for (size_t i = 0; i < count; i++) {
    cases[i].wall = times + 2 * i * (size_t)rounds;
    cases[i].cpu = cases[i].wall + rounds;
  }
  int r = measure(cases, count, rounds);
  for (size_t i = 0; r == 0 && i < count; i++)
    print(&cases[i], rounds);
  free(times);
  return r != 0;
}
