#define _GNU_SOURCE
#include "technique.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int copy(char *to, const char *from)
{
  size_t n = strlen(from);

  if (n >= ESCAPE_PATH)
    return -1;
  memcpy(to, from, n + 1);
  return 0;
}

static int read_words(struct escape_ctx *c, char **argv)
{
  char *at = argv[5];

  if (copy(c->victim, argv[2]) || copy(c->ws, argv[3]) || copy(c->text, argv[6]))
    return -1;
  if (snprintf(c->file, sizeof c->file, "%s/file", c->victim) >= (int)sizeof c->file)
    return -1;
  c->helper = (pid_t)strtol(argv[4], NULL, 10);
  for (int i = 0; i < ESCAPE_NUMS; i++) {
    c->num[i] = strtol(at, &at, 10);
    if (*at == ',')
      at++;
  }
  ssize_t n = readlink("/proc/self/exe", c->self, sizeof c->self - 1);
  c->self[n > 0 ? n : 0] = '\0';
  return 0;
}

/* A copy made set-id has its orders beside it, in `payload`: the file to make. */
static int is_setid_copy(void)
{
  char path[PATH_MAX], target[PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", path, sizeof path - 16);

  if (n <= 0)
    return 0;
  path[n] = '\0';
  char *slash = strrchr(path, '/');
  if (!slash)
    return 0;
  memcpy(slash + 1, "payload", 8);
  FILE *f = fopen(path, "re");
  if (!f)
    return 0;
  if (fgets(target, sizeof target, f)) {
    target[strcspn(target, "\n")] = '\0';
    FILE *mark = fopen(target, "we");
    if (mark)
      fclose(mark);
  }
  fclose(f);
  return 1;
}

static void say(const char *what, const char *id, const char *how)
{
  char line[256];
  int n = snprintf(line, sizeof line, "escape-attempt: %s %s: %s\n", what, id, how);

  if (n > 0 && (size_t)n < sizeof line)
    (void)!write(STDERR_FILENO, line, (size_t)n);
}

int escape_attempt_main(int argc, char **argv)
{
  struct escape_ctx c;

  memset(&c, 0, sizeof c);
  if (is_setid_copy())
    return 0;
  if (argc < 7) {
    fputs("usage: escape-attempt ID VICTIM WS HELPER NUM,... TEXT\n", stderr);
    return 2;
  }
  const struct escape_technique *t = escape_find(argv[1]);
  if (!t || read_words(&c, argv)) {
    fprintf(stderr, "escape-attempt: unknown id or words too long: %s\n", argv[1]);
    return 2;
  }
  say("ran", t->id, "started");
  int rc = t->attempt(&c);
  say("done", t->id, rc == 0 ? "did it" : strerror(errno));
  if (t->flags & (ESCAPE_HOLD | ESCAPE_KILLS_LAUNCHER)) {
    const struct timespec minute = {60, 0};
    nanosleep(&minute, NULL);
  }
  return rc == 0 ? 0 : 1;
}
