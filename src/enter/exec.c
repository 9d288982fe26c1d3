#include "enter/plan.h"
#include "enter/sys.h"

#define PATH_LIMIT 4096

static const char *environment_value(char *const *envp, const char *name) {
  size_t n = sys_strlen(name);
  for (; envp && *envp; envp++) {
    size_t i = 0;
    while (i < n && (*envp)[i] == name[i])
      i++;
    if (i == n && (*envp)[n] == '=')
      return *envp + n + 1;
  }
  return NULL;
}

/* execve(2) reports a missing interpreter as ENOENT too; a regular file that is there but cannot run is
 * "found but not executable". */
static int exec_one(const struct confine__plan *plan, const char *path) {
  long r = sys(__NR_execve, path, plan->argv, plan->envp);
  if (r != -ENOEXEC)
    return (int)r;
  /* As execvp(3): a file without a known format is a script for /bin/sh. The arguments are shifted by
   * one in the child's own stack. */
  size_t count = 0;
  while (plan->argv[count])
    count++;
  if (count > PATH_LIMIT)
    return -E2BIG;
  const char *script[PATH_LIMIT + 3];
  script[0] = "/bin/sh";
  script[1] = path;
  for (size_t i = 1; i <= count; i++)
    script[i + 1] = plan->argv[i];
  return (int)sys(__NR_execve, "/bin/sh", script, plan->envp);
}

/* Makes dir/name in out; 0 if it does not fit. An empty dir is the current directory (POSIX, PATH). */
static int join(char *out, const char *dir, size_t dir_length, const char *name) {
  size_t n = sys_strlen(name);
  if (dir_length + n + 3 > PATH_LIMIT)
    return 0;
  size_t at = 0;
  if (dir_length == 0)
    out[at++] = '.';
  for (size_t i = 0; i < dir_length; i++)
    out[at++] = dir[i];
  out[at++] = '/';
  for (size_t i = 0; i <= n; i++)
    out[at + i] = name[i];
  return 1;
}

static int exec_from_path(const struct confine__plan *plan, const char *name) {
  const char *path = environment_value(plan->envp, "PATH");
  if (!path)
    path = "/usr/local/bin:/bin:/usr/bin"; /* what confstr(_CS_PATH) and the C libraries fall back on */
  char candidate[PATH_LIMIT];
  int result = -ENOENT;
  for (;;) {
    size_t length = 0;
    while (path[length] && path[length] != ':')
      length++;
    if (join(candidate, path, length, name)) {
      int r = exec_one(plan, candidate);
      if (r == -EACCES)
        result = r; /* another directory may hold one that runs */
      else if (r != -ENOENT && r != -ENOTDIR && r != -ENAMETOOLONG && r != -ELOOP)
        return r;
    }
    if (!path[length])
      return result;
    path += length + 1;
  }
}

int confine__enter_exec(struct confine__enter_state *state) {
  const char *name = state->plan->argv[0];
  for (const char *c = name; *c; c++)
    if (*c == '/')
      return exec_one(state->plan, name);
  return *name ? exec_from_path(state->plan, name) : -ENOENT;
}
