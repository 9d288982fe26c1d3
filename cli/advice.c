#include "advice.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int lies_in(const char *path, const char *directory) {
  size_t n = strlen(directory);
  return strncmp(path, directory, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

/* Whether the operation is about a name in a directory. A file without a name is made in one, too; then the
 * path is the directory's. */
static int needs_directory(const confine_denial *denial) {
  struct stat st;
  switch (denial->operation) {
  case CONFINE_OPERATION_CREATE:
    return stat(denial->path, &st) != 0 || !S_ISDIR(st.st_mode);
  case CONFINE_OPERATION_UNLINK:
  case CONFINE_OPERATION_RMDIR:
  case CONFINE_OPERATION_RENAME:
  case CONFINE_OPERATION_LINK:
  case CONFINE_OPERATION_SYMLINK:
  case CONFINE_OPERATION_MKDIR:
  case CONFINE_OPERATION_MKNOD:
  case CONFINE_OPERATION_BIND:
    return 1;
  default:
    return 0;
  }
}

static void name_root(const confine_denial *denial, char root[PATH_MAX]) {
  size_t length = strnlen(denial->path, PATH_MAX - 1);
  memcpy(root, denial->path, length);
  root[length] = '\0';
  char *slash = strrchr(root, '/');
  if (slash && needs_directory(denial))
    slash[slash == root] = '\0';
}

/* A private temporary area is empty: only new names directly in it are what the mode gives. */
static int is_given_by_mode(const char *root, const confine_policy *policy, const confine_result *result) {
  const char *workspace = confine_policy_workspace(policy);
  if (confine_policy_mode(policy) != CONFINE_MODE_READ_ONLY)
    return 0;
  if (workspace && lies_in(root, workspace))
    return 1;
  if (confine_result_runner(result) == CONFINE_RUNNER_LANDLOCK)
    return lies_in(root, "/tmp");
  return strcmp(root, "/tmp") == 0 || strcmp(root, "/dev/shm") == 0;
}

/* Asks the library whether a call with this root would be accepted. What /proc said of a process is gone with
 * it; that is not why. */
static int try_root(const struct cli_options *options, confine_provider *provider, const confine_policy *policy,
                    const char *root, confine_error *error) {
  confine_policy *wider = NULL;
  confine_wrapped *wrapped = NULL;
  int r = confine_policy_new(CONFINE_MODE_WORKSPACE_WRITE, &wider, error);
  if (r == 0)
    r = confine_policy_set_workspace(wider, confine_policy_workspace(policy), error);
  if (r == 0)
    r = confine_policy_add_writable(wider, lies_in(root, "/proc") ? "/proc" : root, error);
  if (r == 0 && options->config)
    r = confine_policy_protect(wider, options->config, error);
  if (r == 0)
    r = confine_provider_confine(provider, options->command, wider, &wrapped, error);
  confine_wrapped_free(wrapped);
  confine_policy_free(wider);
  return r;
}

static struct advised_root *find_root(const struct advice *advice, const char *path) {
  for (size_t i = 0; i < advice->root_count; i++)
    if (strcmp(advice->roots[i].path, path) == 0)
      return &advice->roots[i];
  return NULL;
}

static void add_root(struct advice *advice, const char *path, int by_mode) {
  struct stat st;
  struct advised_root *root = &advice->roots[advice->root_count++];
  memcpy(root->path, path, strlen(path) + 1);
  root->is_directory = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
  root->by_mode = by_mode;
  root->only_mkdir = 1;
}

static int by_path(const void *a, const void *b) {
  return strcmp(((const struct advised_root *)a)->path, ((const struct advised_root *)b)->path);
}

/* One root beneath another that is needed as well is part of that. */
static void merge_roots(struct advice *advice) {
  size_t kept = 0;
  qsort(advice->roots, advice->root_count, sizeof *advice->roots, by_path);
  for (size_t i = 0; i < advice->root_count; i++) {
    const struct advised_root *root = &advice->roots[i];
    size_t j = 0;
    while (j < kept && (!lies_in(root->path, advice->roots[j].path) || (advice->roots[j].by_mode && !root->by_mode)))
      j++;
    if (j == kept)
      advice->roots[kept++] = *root;
  }
  advice->root_count = kept;
}

/* The deepest one, which comes last in the order of their paths. */
static size_t root_of(const struct advice *advice, const char *path) {
  size_t i = advice->root_count;
  while (i > 0 && !lies_in(path, advice->roots[i - 1].path))
    i--;
  return i > 0 ? i - 1 : advice->root_count;
}

static void assign_roots(struct advice *advice) {
  char path[PATH_MAX];
  for (size_t i = 0; i < advice->wanted_count; i++) {
    struct wanted *wanted = &advice->wanted[i];
    name_root(&wanted->denial, path);
    wanted->root = wanted->why ? advice->root_count : root_of(advice, path);
    if (wanted->root < advice->root_count && wanted->denial.operation != CONFINE_OPERATION_MKDIR)
      advice->roots[wanted->root].only_mkdir = 0;
  }
}

int advice_make(const struct cli_options *options, confine_provider *provider, const confine_policy *policy,
                const confine_result *result, struct advice *ret_advice) {
  char path[PATH_MAX];
  size_t count = confine_result_denial_count(result);
  struct advice *advice = ret_advice;
  *advice = (struct advice){0};
  advice->wanted = calloc(count + 1, sizeof *advice->wanted);
  advice->roots = calloc(count + 1, sizeof *advice->roots);
  if (!advice->wanted || !advice->roots)
    return -1;
  advice->wanted_count = count;
  for (size_t i = 0; i < count; i++) {
    struct wanted *wanted = &advice->wanted[i];
    confine_error reason = CONFINE_ERROR_INIT;
    wanted->denial.size = sizeof wanted->denial;
    if (confine_result_denial(result, i, &wanted->denial) < 0)
      return -1;
    name_root(&wanted->denial, path);
    if (find_root(advice, path))
      continue;
    int by_mode = is_given_by_mode(path, policy, result);
    if (by_mode || try_root(options, provider, policy, path, &reason) == 0)
      add_root(advice, path, by_mode);
    else if ((wanted->why = strdup(reason.text)) == NULL)
      return -1;
  }
  merge_roots(advice);
  assign_roots(advice);
  return 0;
}

void advice_release(struct advice *advice) {
  for (size_t i = 0; advice->wanted && i < advice->wanted_count; i++)
    free(advice->wanted[i].why);
  free(advice->wanted);
  free(advice->roots);
}
