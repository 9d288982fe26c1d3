/*
 * What one call of confine_provider_confine costs once a runner is selected, and whether memory grows over many.
 *
 *     bench-confine [--json] [CALLS]
 *
 * Prints microseconds per call (median and worst of the batches of a thousand) and how the resident set and
 * the number of descriptors grew. Exit status 1 if the median is over the limit or anything grew.
 */
#include <confine/confine.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BATCH 1000
#define LIMIT_US 20.0
/* Pages that an allocator may take once and keep. */
#define GROWTH_LIMIT_KIB 256

static double now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* proc(5): the second number is the resident set, in pages. */
static long resident_kib(void) {
  char line[128] = "";
  FILE *file = fopen("/proc/self/statm", "re");
  const char *second = file && fgets(line, sizeof line, file) ? strchr(line, ' ') : NULL;
  long pages = second ? strtol(second, NULL, 10) : 0;
  if (file)
    fclose(file);
  return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static int descriptors(void) {
  int count = 0;
  DIR *entries = opendir("/proc/self/fd");
  while (entries && readdir(entries))
    count++;
  if (entries)
    closedir(entries);
  return count;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Fills one time per call for each batch. Returns the number of calls that failed. */
static long measure(confine_provider *provider, const confine_policy *policy, double *batches, long count) {
  static const char *const command[] = {"cc", "-O2", "-c", "file.c", "-o", "file.o", NULL};
  long failed = 0;
  for (long i = 0; i < count; i++) {
    double start = now_us();
    for (int j = 0; j < BATCH; j++) {
      confine_wrapped *wrapped = NULL;
      failed += confine_provider_confine(provider, command, policy, &wrapped, NULL) != 0;
      confine_wrapped_free(wrapped);
    }
    batches[i] = (now_us() - start) / BATCH;
  }
  return failed;
}

static int report(const char *runner, int json, double *batches, long count, long growth, int leaked) {
  qsort(batches, (size_t)count, sizeof *batches, by_value);
  double median = batches[count / 2], worst = batches[count - 1];
  int bad = median > LIMIT_US || growth > GROWTH_LIMIT_KIB || leaked != 0;
  if (json)
    printf("{\"schema\":\"confine.bench/1\",\"name\":\"confine\",\"runner\":\"%s\",\"calls\":%ld,\"medianUs\":%.3f,"
           "\"worstBatchUs\":%.3f,\"limitUs\":%.0f,\"growthKiB\":%ld,\"descriptors\":%d}\n",
           runner, count * BATCH, median, worst, LIMIT_US, growth, leaked);
  else
    printf("%-10s %8ld calls  median %6.3f us  worst batch %6.3f us  (limit %.0f)  grew by %ld KiB, %d descriptors%s\n",
           runner, count * BATCH, median, worst, LIMIT_US, growth, leaked, bad ? "  FAILED" : "");
  return bad;
}

static int bench(confine_runner runner, int json, long count) {
  confine_settings settings = CONFINE_SETTINGS_INIT;
  confine_provider *provider = NULL;
  confine_policy *policy = NULL;
  confine_error error = CONFINE_ERROR_INIT;
  double *batches = calloc((size_t)count, sizeof *batches);
  settings.chain = &runner;
  settings.chain_length = 1;
  int bad = 1;
  if (!batches || confine_provider_new(&settings, &provider, &error) < 0 ||
      confine_policy_new(CONFINE_MODE_WORKSPACE_WRITE, &policy, &error) < 0 ||
      confine_policy_set_workspace(policy, NULL, &error) < 0) {
    fprintf(stderr, "%s\n", batches ? error.text : "out of memory");
  } else if (measure(provider, policy, batches, 1) != 0) {
    fprintf(stderr, "%s: a call fails\n", confine_runner_name(runner));
  } else {
    long before = resident_kib();
    int open_before = descriptors();
    measure(provider, policy, batches, count);
    bad = report(confine_runner_name(runner), json, batches, count, resident_kib() - before,
                 descriptors() - open_before);
  }
  confine_policy_free(policy);
  confine_provider_free(provider);
  free(batches);
  return bad;
}

int main(int argc, char **argv) {
  static const confine_runner runners[] = {CONFINE_RUNNER_NAMESPACE, CONFINE_RUNNER_BWRAP, CONFINE_RUNNER_LANDLOCK};
  int json = argc > 1 && strcmp(argv[1], "--json") == 0, bad = 0;
  long calls = argc > 1 + json ? strtol(argv[1 + json], NULL, 10) : 1000000;
  if (calls < BATCH || argc > 2 + json) {
    fprintf(stderr, "usage: bench-confine [--json] [CALLS], at least %d calls\n", BATCH);
    return 2;
  }
  for (size_t i = 0; i < sizeof runners / sizeof runners[0]; i++)
    bad |= bench(runners[i], json, calls / BATCH);
  return bad;
}
