#include "base/error.h"
#include "provider/internal.h"
#include "spawn/host.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const bwrap_places[] = {"/usr/bin/bwrap", "/usr/local/bin/bwrap"};

/* The file this code was loaded from, from proc(5)'s list of mappings: dladdr(3) would give the name the
 * loader was told, which may be relative or, for a program, argv[0]. */
static int own_mapping(char *out, size_t size) {
  FILE *maps = fopen("/proc/self/maps", "re");
  char *line = NULL;
  size_t capacity = 0;
  int r = maps ? -ENOENT : -errno;
  while (r == -ENOENT) {
    uintptr_t from, to, here = (uintptr_t)own_mapping;
    int path = 0;
    errno = 0;
    if (getline(&line, &capacity, maps) <= 0) {
      r = errno ? -errno : r;
      break;
    }
    if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %*s %*s %*s %*s %n", &from, &to, &path) == 2 && here >= from &&
        here < to && path && line[path] == '/') {
      line[strcspn(line, "\n")] = '\0';
      r = snprintf(out, size, "%s", line + path) < (int)size ? 0 : -ENAMETOOLONG;
    }
  }
  free(line);
  if (maps)
    fclose(maps);
  return r;
}

/* The directory of the library, or of the static program it is part of. */
static int own_directory(char *out, size_t size) {
  int r = 0;
  if (getauxval(AT_BASE) == 0) { /* no dynamic loader: static */
    ssize_t n = readlink("/proc/self/exe", out, size - 1);
    if (n < 0)
      return -errno;
    out[n] = '\0';
  } else {
    r = own_mapping(out, size);
  }
  char *slash = r == 0 ? strrchr(out, '/') : NULL;
  if (!slash)
    return r ? r : -ENOENT;
  *slash = '\0';
  return 0;
}

/* Finds an executable file; -ENOENT and the like, with nothing kept, if path is none. */
static int find_program(const char *path, struct confine__guarded *program) {
  struct stat st;
  int r = confine__guarded_init(program, path);
  if (r == 0 && stat(program->path, &st) != 0)
    r = -errno;
  if (r == 0 && (!S_ISREG(st.st_mode) || !(st.st_mode & 0111)))
    r = -EACCES;
  if (r < 0)
    confine__guarded_release(program);
  return r;
}

static int find_in(const char *directory, const char *below, const char *name, struct confine__guarded *program) {
  char path[PATH_MAX];
  if (snprintf(path, sizeof path, "%s%s/%s", directory, below, name) >= (int)sizeof path)
    return -ENAMETOOLONG;
  return find_program(path, program);
}

/* Where launchers are, from the library's or program's own directory: installed, and in a build folder. */
static const char *const places[] = {"/../libexec/confine", "/../launcher"};

/* -ENOMEM, or 0 with the program found or not. */
static int find_launcher(const confine_provider *provider, const char *own, const char *name,
                         struct confine__guarded *program) {
  int r = 0;
  if (provider->launcher_directory)
    r = find_in(provider->launcher_directory, "", name, program);
  for (size_t i = 0; own && !program->path && r != -ENOMEM && i < sizeof places / sizeof places[0]; i++)
    r = find_in(own, places[i], name, program);
  return r == -ENOMEM ? r : 0;
}

static int only_roots(const char *path, char *reason, size_t size) {
  struct stat st;
  if (stat(path, &st) != 0) {
    snprintf(reason, size, "%s: %s", path, strerror(errno));
    return 0;
  }
  if (st.st_uid == 0 && !(st.st_mode & 022))
    return 1;
  snprintf(reason, size,
           "%s is not trusted: it must belong to root and be writable by nobody else (owner %u, mode %04o)", path,
           (unsigned)st.st_uid, (unsigned)(st.st_mode & 07777));
  return 0;
}

/* Whoever may change the file, its directory or the directory of a link to it could make it another program. */
static int is_trusted(const char *place, const char *canonical, char *reason, size_t size) {
  char directory[PATH_MAX];
  const char *const names[] = {place, canonical};
  if (!only_roots(canonical, reason, size))
    return 0;
  for (size_t i = 0; i < 2; i++) {
    snprintf(directory, sizeof directory, "%.*s", (int)(strrchr(names[i], '/') - names[i]), names[i]);
    if (!only_roots(*directory ? directory : "/", reason, size))
      return 0;
  }
  return 1;
}

static int find_bwrap(struct confine__snapshot *snapshot) {
  char *reason = snapshot->missing->bwrap;
  size_t size = sizeof snapshot->missing->bwrap;
  for (size_t i = 0; i < sizeof bwrap_places / sizeof bwrap_places[0]; i++) {
    int r = find_program(bwrap_places[i], &snapshot->bwrap);
    if (r == -ENOMEM)
      return r;
    if (r < 0)
      continue;
    if (is_trusted(bwrap_places[i], snapshot->bwrap.path, reason, size))
      return 0;
    confine__guarded_release(&snapshot->bwrap);
    return 0;
  }
  snprintf(reason, size, "there is no %s and no %s", bwrap_places[0], bwrap_places[1]);
  return 0;
}

/* A word of the command may be a script that its first word runs, so each that is a path counts. */
static int find_custom(const confine_provider *provider, struct confine__snapshot *snapshot) {
  const struct confine__argv *command = &provider->runner_command;
  if (!command->count)
    return 0;
  snapshot->custom = calloc(command->count, sizeof *snapshot->custom);
  if (!snapshot->custom)
    return -ENOMEM;
  for (size_t i = 0; i < command->count; i++) {
    if (command->words[i][0] != '/')
      continue;
    if (confine__guarded_init(&snapshot->custom[snapshot->custom_count], command->words[i]) == -ENOMEM)
      return -ENOMEM;
    snapshot->custom_count++;
  }
  return 0;
}

static void free_snapshot(struct confine__snapshot *snapshot) {
  confine__guarded_release(&snapshot->landlock_run);
  confine__guarded_release(&snapshot->namespace_run);
  confine__guarded_release(&snapshot->bwrap);
  for (size_t i = 0; i < snapshot->custom_count; i++)
    confine__guarded_release(&snapshot->custom[i]);
  free(snapshot->custom);
  free(snapshot->missing);
  free(snapshot);
}

/* Says where launchers were looked for, for the case that there are none. */
static void note_place(const char *given, const char *own, char *out, size_t size) {
  if (given)
    snprintf(out, size, "in %.900s", given);
  else if (own)
    snprintf(out, size, "in %.900s/../libexec/confine", own);
  else
    snprintf(out, size, "anywhere, since this library's own place is unknown (is /proc mounted?)");
}

static int find_programs(const confine_provider *provider, struct confine__snapshot *snapshot) {
  char directory[PATH_MAX], *own = NULL;
  const char *given = provider->launcher_directory;
  snapshot->missing = calloc(1, sizeof *snapshot->missing);
  if (!snapshot->missing)
    return -ENOMEM;
  int r = given ? 0 : own_directory(directory, sizeof directory);
  /* Want of memory or descriptors says nothing about the host. */
  if (r == -ENOMEM || r == -EMFILE || r == -ENFILE)
    return r;
  if (!given && r == 0)
    own = directory;
  note_place(given, own, snapshot->missing->launchers, sizeof snapshot->missing->launchers);
  r = find_launcher(provider, own, "landlock-run", &snapshot->landlock_run);
  if (r == 0)
    r = find_launcher(provider, own, "namespace-run", &snapshot->namespace_run);
  if (r == 0)
    r = find_bwrap(snapshot);
  if (r == 0)
    r = find_custom(provider, snapshot);
  snapshot->has_programs = 1;
  snapshot->host.landlock_run = snapshot->landlock_run.path;
  snapshot->host.namespace_run = snapshot->namespace_run.path;
  snapshot->host.bwrap = snapshot->bwrap.path;
  return r;
}

static int look(const confine_provider *provider, int with_programs, struct confine__snapshot *snapshot) {
  struct confine__abilities abilities;
  confine__abilities(&abilities);
  snapshot->host = (struct confine__host){
      .landlock_abi = abilities.landlock_abi,
      .guard = 1,
      .supervisor = abilities.supervisor,
      .mounts_without_userns = abilities.mounts_without_userns,
      .runner_command = (const char *const *)provider->runner_command.words,
      .runner_failure_signatures = (const char *const *)provider->signatures.words,
  };
  return with_programs ? find_programs(provider, snapshot) : 0;
}

static int same_program(const struct confine__guarded *a, const struct confine__guarded *b) {
  if (!a->path || !b->path)
    return !a->path && !b->path;
  return strcmp(a->path, b->path) == 0 && a->chain_length == b->chain_length &&
         (!a->chain_length || memcmp(a->chain, b->chain, a->chain_length * sizeof *a->chain) == 0);
}

static int same_snapshot(const struct confine__snapshot *a, const struct confine__snapshot *b) {
  if (a->has_programs != b->has_programs || a->host.landlock_abi != b->host.landlock_abi ||
      a->host.supervisor != b->host.supervisor || a->host.mounts_without_userns != b->host.mounts_without_userns ||
      a->custom_count != b->custom_count || (a->missing && strcmp(a->missing->bwrap, b->missing->bwrap) != 0))
    return 0;
  for (size_t i = 0; i < a->custom_count; i++)
    if (!same_program(&a->custom[i], &b->custom[i]))
      return 0;
  return same_program(&a->landlock_run, &b->landlock_run) && same_program(&a->namespace_run, &b->namespace_run) &&
         same_program(&a->bwrap, &b->bwrap);
}

static int take_locked(confine_provider *provider, int with_programs, confine_error *error) {
  struct confine__snapshot *known = atomic_load(&provider->snapshot);
  struct confine__snapshot *found = calloc(1, sizeof *found);
  int r = found ? look(provider, with_programs, found) : -ENOMEM;
  if (r == 0 && !(known && same_snapshot(known, found))) {
    found->older = known;
    atomic_store(&provider->snapshot, found);
    return 0;
  }
  if (found)
    free_snapshot(found);
  if (r == 0)
    return 0;
  return r == -ENOMEM ? confine__error_memory(error)
                      : confine__error_errno(error, CONFINE_ESYSTEM, -r, "the host cannot be looked at");
}

int confine__snapshot_take(confine_provider *provider, int with_programs, confine_error *error) {
  pthread_mutex_lock(&provider->look);
  int r = take_locked(provider, with_programs, error);
  pthread_mutex_unlock(&provider->look);
  return r;
}

int confine__snapshot_full(confine_provider *provider, const struct confine__snapshot **ret_snapshot,
                           confine_error *error) {
  const struct confine__snapshot *snapshot = atomic_load(&provider->snapshot);
  if (!snapshot->has_programs) {
    int r = confine__snapshot_take(provider, 1, error);
    if (r < 0)
      return r;
    snapshot = atomic_load(&provider->snapshot);
  }
  *ret_snapshot = snapshot;
  return 0;
}

void confine__snapshot_free_all(confine_provider *provider) {
  struct confine__snapshot *snapshot = atomic_load(&provider->snapshot);
  while (snapshot) {
    struct confine__snapshot *older = snapshot->older;
    free_snapshot(snapshot);
    snapshot = older;
  }
}

const char *confine__runner_path(const struct confine__snapshot *snapshot, confine_runner runner) {
  switch (runner) {
  case CONFINE_RUNNER_NAMESPACE: return snapshot->host.namespace_run;
  case CONFINE_RUNNER_BWRAP: return snapshot->host.bwrap;
  case CONFINE_RUNNER_LANDLOCK: return snapshot->host.landlock_run;
  case CONFINE_RUNNER_CUSTOM: return snapshot->host.runner_command ? snapshot->host.runner_command[0] : NULL;
  default: return NULL;
  }
}

int confine__runner_missing(const struct confine__snapshot *snapshot, confine_runner runner,
                            struct confine__verdict *verdict) {
  const struct confine__host *host = &snapshot->host;
  const char *launcher = NULL;
  verdict->reason[0] = verdict->repair[0] = '\0';
  if (!confine__runner_find(runner)) {
    snprintf(verdict->reason, sizeof verdict->reason, "%s is not a runner of this system", confine_runner_name(runner));
  } else if (runner == CONFINE_RUNNER_BWRAP && !host->bwrap) {
    snprintf(verdict->reason, sizeof verdict->reason, "%s", snapshot->missing->bwrap);
    snprintf(verdict->repair, sizeof verdict->repair, "install bubblewrap");
  } else if (runner == CONFINE_RUNNER_NAMESPACE && !host->namespace_run) {
    launcher = "namespace-run";
  } else if ((runner == CONFINE_RUNNER_LANDLOCK || runner == CONFINE_RUNNER_BWRAP) && !host->landlock_run) {
    launcher = "landlock-run";
  }
  if (launcher) {
    snprintf(verdict->reason, sizeof verdict->reason, "there is no %s %.960s", launcher,
             snapshot->missing->launchers);
    snprintf(verdict->repair, sizeof verdict->repair, "install confine's launchers there");
  }
  return verdict->reason[0] != '\0';
}
