/*
 * escape-suite [--json] [--mode MODE] [--only ID|FAMILY,...] [--jobs N] [--user NAME]
 *              [--scratch DIR] [--program FILE] [--object FILE] [--timeout MS]
 *              [--wrap | --resolves-late] [--list] -- PREFIX...
 *
 * Runs the techniques under the sandbox that PREFIX starts; in PREFIX the words %MODE% and %WS%
 * stand for the mode and the workspace. An empty PREFIX is no sandbox: everything escapes.
 *   --wrap           PREFIX prints the argv to start instead, as JSON with a member "argv"
 *   --resolves-late  PREFIX makes out the workspace when it starts: no techniques that swap it
 * Exit status: 0 nothing escaped but what is open by design, 1 something did, 125 usage or failure.
 */
#define _GNU_SOURCE
#include "run.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS = 256, OUTPUT = 262144, FAILED = 125 };

struct suite {
  struct escape_config config;
  const char *only;
  bool json, list, wrap;
  char *const *prefix;
  size_t shown, held, escaped, open, na, silent;
};

static volatile sig_atomic_t interrupted;

static void interrupt(int number)
{
  (void)number;
  interrupted = 1;
}

static bool listed(const char *list, const char *word)
{
  size_t n = strlen(word);

  for (const char *p = list; p && *p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
    if (strncmp(p, word, n) == 0 && (p[n] == ',' || p[n] == '\0'))
      return true;
  return false;
}

static bool wanted(const struct escape_technique *t, void *arg)
{
  const struct suite *s = arg;

  return !s->only || listed(s->only, t->id) || listed(s->only, t->family);
}

static void print_json_string(const char *text)
{
  putchar('"');
  for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
    if (*p == '"' || *p == '\\')
      printf("\\%c", *p);
    else if (*p < ' ' || *p > '~')
      printf("\\u%04x", *p);
    else
      putchar(*p);
  }
  putchar('"');
}

static const char *channel(const struct escape_technique *t)
{
  return t->flags & ESCAPE_CHANNEL_IPC        ? "ipc"
         : t->flags & ESCAPE_CHANNEL_PROCESS  ? "process"
         : t->flags & ESCAPE_CHANNEL_NETWORK  ? "network"
         : t->flags & ESCAPE_CHANNEL_TERMINAL ? "terminal"
                                              : "";
}

static void count(struct suite *s, const struct escape_result *r)
{
  s->held += r->verdict == ESCAPE_HELD;
  s->na += r->verdict == ESCAPE_NA;
  if (r->verdict == ESCAPE_ESCAPED && r->technique->by_design)
    s->open++;
  else if (r->verdict == ESCAPE_ESCAPED)
    s->escaped++;
  if (r->verdict == ESCAPE_HELD && !r->ran && !(r->technique->flags & ESCAPE_ATTACKS_LAUNCHER))
    s->silent++;
}

static void show(const struct escape_result *r, void *arg)
{
  struct suite *s = arg;
  const struct escape_technique *t = r->technique;
  const char *verdict = r->verdict == ESCAPE_NA     ? "n/a"
                        : r->verdict == ESCAPE_HELD ? (r->ran ? "held" : "refused")
                        : t->by_design              ? "open"
                                                    : "escaped";

  count(s, r);
  if (!s->json) {
    printf("%-8s %-18s %-32s %4d ms  %s%s%s%s\n", verdict, t->family, t->id, r->milliseconds,
           r->why, t->by_design ? " [" : "", t->by_design ? t->by_design : "",
           t->by_design ? "]" : "");
    fflush(stdout);
    return;
  }
  printf("%s{\"id\":\"%s\",\"family\":\"%s\",\"mode\":\"%s\",\"verdict\":\"%s\",\"ran\":%s,"
         "\"byDesign\":\"%s\",\"channel\":\"%s\",\"ms\":%d,\"why\":",
         s->shown++ ? ",\n" : "", t->id, t->family, s->config.mode,
         strcmp(verdict, "refused") == 0 ? "held" : verdict, r->ran ? "true" : "false",
         t->by_design ? t->by_design : "", channel(t), r->milliseconds);
  print_json_string(r->why);
  putchar('}');
}

/* --wrap: runs PREFIX with the attempt's words and reads "argv" from what it prints */

static size_t run_wrap(char **argv, char *out, size_t size)
{
  int ends[2], status;
  size_t n = 0;
  ssize_t got;

  if (pipe(ends) < 0)
    return 0;
  pid_t pid = fork();
  if (pid == 0) {
    dup2(ends[1], 1);
    close(ends[0]);
    close(ends[1]);
    execvp(argv[0], argv);
    _exit(127);
  }
  close(ends[1]);
  while (pid > 0 && n < size - 1 && (got = read(ends[0], out + n, size - 1 - n)) > 0)
    n += (size_t)got;
  close(ends[0]);
  out[n] = '\0';
  return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0 ? n : 0;
}

static char *read_string(const char **at)
{
  const char *p = *at;
  char *word = malloc(strlen(p) + 1), *to = word;

  while (word && *p && *p != '"') {
    if (*p != '\\') {
      *to++ = *p++;
      continue;
    }
    p++;
    if (*p == 'u') {
      unsigned value = 0;
      if (sscanf(p + 1, "%4x", &value) != 1 || value > 127)
        break;
      *to++ = (char)value;
      p += 5;
    } else if (*p) {
      *to++ = *p == 'n' ? '\n' : *p == 't' ? '\t' : *p == 'r' ? '\r' : *p;
      p++;
    }
  }
  if (!word || *p != '"') {
    free(word);
    return NULL;
  }
  *to = '\0';
  *at = p + 1;
  return word;
}

static void free_words(char **words)
{
  for (size_t i = 0; words[i]; i++)
    free(words[i]);
  free(words);
}

static int wrap(void *arg, const char *mode, const char *ws, char *const attempt[], char ***argv)
{
  const struct suite *s = arg;
  static char out[OUTPUT];
  char *words[WORDS];
  size_t n = 0;

  for (size_t i = 0; s->prefix[i] && n < WORDS / 2; i++)
    words[n++] = strcmp(s->prefix[i], "%MODE%") == 0  ? (char *)(uintptr_t)mode
                 : strcmp(s->prefix[i], "%WS%") == 0 ? (char *)(uintptr_t)ws
                                                     : s->prefix[i];
  for (size_t i = 0; attempt[i] && n < WORDS - 1; i++)
    words[n++] = attempt[i];
  words[n] = NULL;
  if (n == 0 || !run_wrap(words, out, sizeof out))
    return -ENOEXEC;
  const char *p = strstr(out, "\"argv\"");
  p = p ? strchr(p, '[') : NULL;
  char **built = calloc(WORDS, sizeof *built);
  if (!p || !built) {
    free(built);
    return -EPROTO;
  }
  n = 0;
  while (*++p && *p != ']' && n < WORDS - 1)
    if (*p == '"') {
      p++;
      built[n] = read_string(&p);
      if (!built[n]) {
        free_words(built);
        return -EPROTO;
      }
      n++;
      p--;
    }
  if (n == 0) {
    free_words(built);
    return -EPROTO;
  }
  *argv = built;
  return 0;
}

static int options(struct suite *s, int argc, char **argv)
{
  static const struct option words[] = {
      {"json", 0, NULL, 'j'},    {"mode", 1, NULL, 'm'},          {"only", 1, NULL, 'o'},
      {"jobs", 1, NULL, 'n'},    {"user", 1, NULL, 'u'},          {"scratch", 1, NULL, 's'},
      {"program", 1, NULL, 'p'}, {"object", 1, NULL, 'b'},        {"timeout", 1, NULL, 't'},
      {"wrap", 0, NULL, 'w'},    {"resolves-late", 0, NULL, 'r'}, {"list", 0, NULL, 'l'},
      {NULL, 0, NULL, 0}};
  static const char *program[2];
  int c;

  while ((c = getopt_long(argc, argv, "+", words, NULL)) != -1)
    switch (c) {
    case 'j': s->json = true; break;
    case 'm': s->config.mode = optarg; break;
    case 'o': s->only = optarg; break;
    case 'n': s->config.jobs = (int)strtol(optarg, NULL, 10); break;
    case 'u': s->config.user = optarg; break;
    case 's': s->config.scratch = optarg; break;
    case 'p':
      program[0] = optarg;
      s->config.program = program;
      break;
    case 'b': s->config.object = optarg; break;
    case 't': s->config.timeout_ms = (int)strtol(optarg, NULL, 10); break;
    case 'w': s->wrap = true; break;
    case 'r': s->config.resolves_late = true; break;
    case 'l': s->list = true; break;
    default: return -1;
    }
  s->prefix = argv + optind;
  if (strcmp(s->config.mode, "read-only") != 0 && strcmp(s->config.mode, "workspace-write") != 0) {
    fprintf(stderr, "escape-suite: --mode is read-only or workspace-write, not %s\n",
            s->config.mode);
    return -1;
  }
  return 0;
}

/* The attempt program and the shared object lie beside this one unless named. */
static void find_beside(struct suite *s)
{
  static char attempt[ESCAPE_PATH * 2], object[ESCAPE_PATH * 2];
  static const char *program[2] = {attempt, NULL};
  char self[ESCAPE_PATH];
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

  self[n > 0 ? n : 0] = '\0';
  char *slash = strrchr(self, '/');
  if (slash)
    *slash = '\0';
  snprintf(attempt, sizeof attempt, "%s/escape-attempt", self);
  snprintf(object, sizeof object, "%s/escape-preload.so", self);
  if (!s->config.program)
    s->config.program = program;
  if (!s->config.object && access(object, R_OK) == 0)
    s->config.object = object;
}

static void list_all(void)
{
  for (size_t i = 0; i < escape_count(); i++) {
    const struct escape_technique *t = escape_at(i);
    printf("%s\t%s\t%s\t%s\t%s%s%s%s%s\n", t->id, t->family, t->by_design ? t->by_design : "-",
           *channel(t) ? channel(t) : "-", t->flags & ESCAPE_ROOT_ONLY ? "root " : "",
           t->flags & ESCAPE_USER_ONLY ? "user " : "",
           t->flags & ESCAPE_WORKSPACE_ONLY ? "workspace " : "",
           t->flags & ESCAPE_NEEDS_TTY ? "tty " : "",
           t->flags & ESCAPE_VIA_OUTSIDE ? "outside " : "");
  }
}

static int make_scratch(struct suite *s, char *scratch)
{
  if (s->config.scratch)
    return 0;
  if (!mkdtemp(scratch)) {
    fprintf(stderr, "escape-suite: cannot make %s: %s\n", scratch, strerror(errno));
    return -1;
  }
  chmod(scratch, 0755);
  s->config.scratch = scratch;
  return 1;
}

int main(int argc, char **argv)
{
  static struct suite s;
  char scratch[] = "/var/tmp/confine-escape-XXXXXX";

  s.config.mode = "workspace-write";
  if (options(&s, argc, argv) < 0)
    return FAILED;
  if (s.list) {
    list_all();
    return 0;
  }
  find_beside(&s);
  s.config.prefix = (const char *const *)s.prefix;
  if (s.wrap) {
    s.config.wrap = wrap;
    s.config.wrap_arg = &s;
  }
  s.config.cancel = &interrupted;
  signal(SIGINT, interrupt);
  signal(SIGTERM, interrupt);
  int made = make_scratch(&s, scratch);
  if (made < 0)
    return FAILED;
  if (s.json)
    printf("[");
  int rc = escape_run_all(&s.config, wanted, show, &s);
  if (s.json)
    printf("]\n");
  if (made)
    rmdir(scratch);
  if (rc) {
    fprintf(stderr, "escape-suite: %s\n", strerror(-rc));
    return FAILED;
  }
  fprintf(s.json ? stderr : stdout, "%zu held, %zu escaped, %zu open by design, %zu n/a", s.held,
          s.escaped, s.open, s.na);
  fprintf(s.json ? stderr : stdout, "; %zu held only because nothing was started\n", s.silent);
  return s.escaped || s.silent ? 1 : 0;
}
