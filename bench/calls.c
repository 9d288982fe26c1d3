/*
 * What single system calls cost, measured from inside.
 *
 *     bench-calls plain COUNT           read(2) and write(2) in turn, which no filter traps
 *     bench-calls chmod COUNT FILE      chmod(2), carried out or refused
 *     bench-calls utimes COUNT FILE     utimensat(2), likewise
 *     bench-calls xattr COUNT FILE      setxattr(2), likewise
 *     bench-calls open COUNT FILE       open(2) for writing, allowed or refused, and close(2)
 *     bench-calls files COUNT DIRECTORY so many new files with one byte each: open, write, close
 *
 * Prints median, 10th and 90th percentile in nanoseconds per call: of every call by itself, or with `plain`
 * of batches of a thousand.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#define BATCH 1000

struct loop {
  const char *path;
  int source, sink;
};

static double now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Each returns how many calls it made. Whether they are refused is the bench's business, not theirs. */

static long do_plain(const struct loop *loop, long i) {
  char byte = 'x';
  (void)i;
  for (int j = 0; j < BATCH / 2; j++)
    if (read(loop->source, &byte, 1) != 1 || write(loop->sink, &byte, 1) != 1)
      exit(1);
  return BATCH;
}

static long do_chmod(const struct loop *loop, long i) {
  return chmod(loop->path, i & 1 ? 0600 : 0644) < 2;
}

static long do_utimes(const struct loop *loop, long i) {
  (void)i;
  return utimensat(AT_FDCWD, loop->path, NULL, 0) < 2;
}

static long do_xattr(const struct loop *loop, long i) {
  return setxattr(loop->path, "user.bench", i & 1 ? "a" : "b", 1, 0) < 2;
}

static long do_open(const struct loop *loop, long i) {
  (void)i;
  int fd = open(loop->path, O_WRONLY | O_CLOEXEC);
  if (fd >= 0)
    close(fd);
  return 1;
}

static long do_file(const struct loop *loop, long i) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%ld", loop->path, i);
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0 || write(fd, "x", 1) != 1)
    exit(1);
  return close(fd) < 2;
}

static const struct {
  const char *name;
  long (*call)(const struct loop *loop, long i);
  int batched, needs_path;
} kinds[] = {
    {"plain", do_plain, 1, 0}, {"chmod", do_chmod, 0, 1}, {"utimes", do_utimes, 0, 1},
    {"xattr", do_xattr, 0, 1}, {"open", do_open, 0, 1},   {"files", do_file, 0, 1},
};
#define KINDS (sizeof kinds / sizeof kinds[0])

static int measure(size_t kind, long count, const struct loop *loop) {
  long samples = kinds[kind].batched ? count / BATCH : count;
  double *each = samples > 0 ? calloc((size_t)samples, sizeof *each) : NULL;
  if (!each)
    return 1;
  kinds[kind].call(loop, 0); /* the first finds everything cold */
  for (long i = 0; i < samples; i++) {
    double start = now_ns();
    long made = kinds[kind].call(loop, i);
    each[i] = (now_ns() - start) / (double)made;
  }
  qsort(each, (size_t)samples, sizeof *each, by_value);
  printf("%.1f %.1f %.1f\n", each[samples / 2], each[samples / 10], each[samples - 1 - samples / 10]);
  free(each);
  return 0;
}

int main(int argc, char **argv) {
  size_t kind = 0;
  while (argc > 2 && kind < KINDS && strcmp(argv[1], kinds[kind].name) != 0)
    kind++;
  if (argc < 3 || kind == KINDS || argc != 3 + kinds[kind].needs_path) {
    fprintf(stderr, "usage: bench-calls plain COUNT | chmod|utimes|xattr|open|files COUNT PATH\n");
    return 1;
  }
  struct loop loop = {.path = argv[3],
                      .source = open("/dev/zero", O_RDONLY | O_CLOEXEC),
                      .sink = open("/dev/null", O_WRONLY | O_CLOEXEC)};
  return measure(kind, strtol(argv[2], NULL, 10), &loop);
}
