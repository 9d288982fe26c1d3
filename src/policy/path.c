#include "base/error.h"
#include "policy/policy.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void confine__path_release(struct confine__held_path *held) {
  if (held->path)
    close(held->fd);
  free(held->path);
  memset(held, 0, sizeof *held);
  held->fd = -1;
}

/* proc(5): the link of a descriptor shows the object's present path. Physical resolution has been done by
 * the kernel when it was opened, so `link/..` is the parent of the link's target. */
static int canonical_name(int fd, char *out, size_t size) {
  char link[40];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, out, size - 1);
  if (n < 0)
    return -errno;
  if ((size_t)n == size - 1)
    return -ENAMETOOLONG;
  out[n] = '\0';
  return out[0] == '/' ? 0 : -ENOENT;
}

/* The current directory's name without the detour through proc(5). It is "(unreachable)..." where there is
 * none (getcwd(2)), which the C library may or may not turn into an error. */
static int current_name(char *out, size_t size) {
  if (!getcwd(out, size))
    return -errno;
  return out[0] == '/' ? 0 : -ENOENT;
}

/* The name of a deleted object, or of one outside this root, leads elsewhere or nowhere. */
static int verify_name(const char *name, const struct stat *held) {
  struct stat named;
  if (lstat(name, &named) != 0)
    return -errno;
  return named.st_dev == held->st_dev && named.st_ino == held->st_ino ? 0 : -ESTALE;
}

int confine__path_hold(const char *path, const char *what, struct confine__held_path *ret_held,
                       confine_error *error) {
  char name[PATH_MAX];
  struct stat st;
  const char *shown = path ? path : "the current directory";
  if (path && !*path)
    return confine__error(error, CONFINE_EPATH, "the %s is an empty string; name a directory", what);
  int fd = open(path ? path : ".", O_PATH | O_CLOEXEC);
  if (fd < 0)
    return confine__error_errno(error, CONFINE_EPATH, errno, "%s %s", what, shown);
  int r = fstat(fd, &st) == 0 ? 0 : -errno;
  if (r == 0)
    r = path ? canonical_name(fd, name, sizeof name) : current_name(name, sizeof name);
  if (r == 0)
    r = verify_name(name, &st);
  if (r < 0) {
    close(fd);
    return confine__error_errno(error, CONFINE_EPATH, -r, "%s %s: its canonical name cannot be found", what,
                                shown);
  }
  char *copy = strdup(name);
  if (!copy) {
    close(fd);
    return confine__error_memory(error);
  }
  *ret_held = (struct confine__held_path){.path = copy,
                                          .fd = fd,
                                          .device = st.st_dev,
                                          .inode = st.st_ino,
                                          .is_directory = S_ISDIR(st.st_mode)};
  return 0;
}

static int beneath(const char *path, const char *directory) {
  size_t n = strlen(directory);
  return strncmp(path, directory, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

/* The same directory under another name (a bind mount, a symbolic link above it) is still the same. */
static int is_same(const struct confine__held_path *held, const char *path) {
  struct stat st;
  if (strcmp(held->path, path) == 0)
    return 1;
  return stat(path, &st) == 0 && st.st_dev == held->device && st.st_ino == held->inode;
}

static int refuse(const struct confine__held_path *held, const char *what, const char *reason,
                  confine_error *error) {
  return confine__error(error, CONFINE_EPATH, "%s %s is refused: %s", what, held->path, reason);
}

int confine__path_check_workspace(const struct confine__held_path *held, confine_error *error) {
  static const char *const shared[] = {"/tmp", "/var/tmp"};
  static const char *const system[] = {"/proc", "/sys", "/dev"};
  const char *what = "workspace";
  if (!held->is_directory)
    return refuse(held, what, "it is not a directory", error);
  if (is_same(held, "/"))
    return refuse(held, what, "it is the whole file system; choose a directory below it", error);
  for (size_t i = 0; i < sizeof shared / sizeof shared[0]; i++)
    if (is_same(held, shared[i]))
      return refuse(held, what, "every program shares it; choose a directory of its own", error);
  for (size_t i = 0; i < sizeof system / sizeof system[0]; i++)
    if (is_same(held, system[i]) || beneath(held->path, system[i]))
      return refuse(held, what, "it belongs to the kernel", error);
  return 0;
}

int confine__path_check_root(const struct confine__held_path *held, confine_error *error) {
  static const char *const system[] = {"/proc", "/sys", "/dev"};
  const char *what = "writable root";
  if (is_same(held, "/"))
    return refuse(held, what, "it is the whole file system; danger-full-access says that", error);
  if (beneath(held->path, "/dev/shm"))
    return 0; /* the one place below /dev that is for files */
  for (size_t i = 0; i < sizeof system / sizeof system[0]; i++)
    if (is_same(held, system[i]) || beneath(held->path, system[i]))
      return refuse(held, what, "it belongs to the kernel", error);
  return 0;
}
