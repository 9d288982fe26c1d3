/*
 * The kernel's own state and devices: sysctl, sysfs, cgroups, names, keys, the log, accounting,
 * loop devices, tunnels, and set-id programs. What an attempt changes is harmless and is put back
 * by cleanup, or belongs to the cell.
 */
#define _GNU_SOURCE
#include "families.h"
#include "inside.h"
#include "outside.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

/* Settings: text names the file, saved its value from before. */

static int put_setting(const char *path, const char *text)
{
  int fd = open(path, O_WRONLY | O_CLOEXEC);

  if (fd < 0)
    return -1;
  ssize_t n = write(fd, text, strlen(text));
  close(fd);
  return n < 0 ? -1 : 0;
}

static int setting(struct escape_ctx *c, const char *path)
{
  snprintf(c->text, sizeof c->text, "%s", path);
  escape_lock(path);
  if (escape_get(path, c->saved, sizeof c->saved) < 0) {
    c->saved[0] = '\0';
    return escape_not_here(c, "%s: %s", path, strerror(errno));
  }
  c->num[0] = 1;
  return 0;
}

JUDGE(j_setting)
{
  char now[ESCAPE_PATH];

  if (escape_get(c->text, now, sizeof now) < 0 || strcmp(now, c->saved) == 0)
    return false;
  return escape_because(c, "%.100s is \"%.50s\" instead of \"%.50s\"", c->text, now, c->saved);
}

CLEANUP(c_setting)
{
  if (c->num[0])
    put_setting(c->text, c->saved);
}

PREPARE(p_core_pattern)
{
  return setting(c, "/proc/sys/kernel/core_pattern");
}

/* Dumps keep falling where they fell; only their name gets longer. */
ATTEMPT(a_core_pattern)
{
  char text[256], longer[260];

  if (escape_get(c->text, text, sizeof text) < 0)
    return -1;
  snprintf(longer, sizeof longer, "%s.%%e", text);
  return put_setting(c->text, longer);
}

PREPARE(p_sysctl)
{
  return setting(c, "/proc/sys/kernel/core_pipe_limit");
}

ATTEMPT(a_sysctl)
{
  return put_setting(c->text, "7");
}

/* A procfs of one's own over the protected one. */
ATTEMPT(a_sysctl_fresh)
{
  if (escape_take_mounts(c, false) < 0)
    return -1;
  if (mount("proc", "/proc", "proc", 0, NULL) < 0)
    umount2("/proc/sys", MNT_DETACH);
  return put_setting(c->text, "7");
}

ATTEMPT(a_sysctl_remount)
{
  if (escape_take_mounts(c, false) < 0)
    return -1;
  mount(NULL, "/proc/sys", NULL, MS_REMOUNT | MS_BIND, NULL);
  mount(NULL, "/proc", NULL, MS_REMOUNT | MS_BIND, NULL);
  return put_setting(c->text, "7");
}

PREPARE(p_sysfs)
{
  return setting(c, "/sys/block/loop7/queue/read_ahead_kb");
}

ATTEMPT(a_sysfs)
{
  return put_setting(c->text, "132");
}

PREPARE(p_release_agent)
{
  static const char *const paths[] = {"/sys/fs/cgroup/pids/release_agent",
                                      "/sys/fs/cgroup/freezer/release_agent",
                                      "/sys/fs/cgroup/blkio/release_agent", NULL};

  for (size_t i = 0; paths[i]; i++)
    if (access(paths[i], W_OK) == 0)
      return setting(c, paths[i]);
  return escape_not_here(c, "no version 1 cgroup hierarchy with a release_agent");
}

ATTEMPT(a_release_agent)
{
  return put_setting(c->text, "/nonexistent");
}

CLEANUP(c_release_agent)
{
  if (c->num[0])
    put_setting(c->text, c->saved[0] ? c->saved : "\n");
}

PREPARE(p_cgroup)
{
  static const char *const roots[] = {"/sys/fs/cgroup/cgroup.procs",
                                      "/sys/fs/cgroup/unified/cgroup.procs",
                                      "/sys/fs/cgroup/pids/cgroup.procs", NULL};

  for (size_t i = 0; roots[i]; i++)
    if (access(roots[i], F_OK) == 0) {
      int n = (int)(strrchr(roots[i], '/') - roots[i]);
      snprintf(c->text, sizeof c->text, "%.*s/confine-escape-%d", n, roots[i], (int)getpid());
      return 0;
    }
  return escape_not_here(c, "no cgroup hierarchy is mounted");
}

ATTEMPT(a_cgroup)
{
  return mkdir(c->text, 0755);
}

STATE(s_exists)
{
  return access(c->text, F_OK);
}

CLEANUP(c_cgroup)
{
  if (strstr(c->text, "/confine-escape-"))
    rmdir(c->text);
}

/* names of the host */

PREPARE(p_domain)
{
  escape_lock("/proc/sys/kernel/domainname");
  if (getdomainname(c->saved, sizeof c->saved) < 0)
    return escape_not_here(c, "no domain name: %s", strerror(errno));
  c->num[0] = 1;
  return 0;
}

ATTEMPT(a_domain)
{
  (void)c;
  return setdomainname("confine-escape", 14);
}

JUDGE(j_domain)
{
  char now[ESCAPE_PATH] = "";

  return getdomainname(now, sizeof now) == 0 && strcmp(now, c->saved) != 0 &&
         escape_because(c, "the domain name is %.60s", now);
}

CLEANUP(c_domain)
{
  if (c->num[0])
    (void)!setdomainname(c->saved, strlen(c->saved));
}

/* keys: found again from outside by name */

static long key_search(struct escape_ctx *c)
{
  return syscall(SYS_keyctl, ABI_KEYCTL_SEARCH, c->num[0], "user", c->text, 0);
}

static int key_name(struct escape_ctx *c, long ring)
{
  snprintf(c->text, sizeof c->text, "confine-escape-%d", (int)getpid());
  c->num[0] = ring;
  if (syscall(SYS_keyctl, 0, ring, 1) < 0)
    return escape_not_here(c, "no keyring: %s", strerror(errno));
  return 0;
}

PREPARE(p_user_keyring)
{
  return key_name(c, ABI_KEY_USER_KEYRING);
}

PREPARE(p_session_keyring)
{
  int rc;

  /* a session keyring of the driver's own, so that none of the user's is touched */
  if (syscall(SYS_keyctl, 1, "confine-escape") < 0)
    return escape_not_here(c, "no session keyring: %s", strerror(errno));
  rc = key_name(c, ABI_KEY_SESSION_KEYRING);
  return rc;
}

ATTEMPT(a_add_key)
{
  return syscall(SYS_add_key, "user", c->text, "escaped", 7, (int)c->num[0]) < 0 ? -1 : 0;
}

ATTEMPT(a_add_key_int80)
{
  return INT80(286 /* add_key */, escape_low_str("user"), escape_low_str(c->text),
               escape_low_str("escaped"), 7, c->num[0]) < 0
             ? -1
             : 0;
}

STATE(s_key)
{
  return key_search(c) > 0;
}

CLEANUP(c_key)
{
  long key = c->num[0] ? key_search(c) : -1;

  if (key > 0)
    syscall(SYS_keyctl, ABI_KEYCTL_UNLINK, key, c->num[0]);
}

PREPARE(p_key)
{
  int rc = key_name(c, ABI_KEY_USER_KEYRING);

  if (rc == 0) {
    c->num[1] = syscall(SYS_add_key, "user", c->text, "kept", 4, ABI_KEY_USER_KEYRING);
    if (c->num[1] < 0)
      rc = -errno;
  }
  return rc;
}

ATTEMPT(a_key_update)
{
  return (int)syscall(SYS_keyctl, ABI_KEYCTL_UPDATE, c->num[1], "escaped", 7);
}

STATE(s_key_value)
{
  char value[32] = "";

  return syscall(SYS_keyctl, ABI_KEYCTL_READ, c->num[1], value, sizeof value) < 0 ? -1 : value[0];
}

ATTEMPT(a_key_revoke)
{
  return (int)syscall(SYS_keyctl, ABI_KEYCTL_REVOKE, c->num[1]);
}

CLEANUP(c_known_key)
{
  if (c->num[1] > 0)
    syscall(SYS_keyctl, ABI_KEYCTL_UNLINK, c->num[1], ABI_KEY_USER_KEYRING);
}

/* the kernel's log */

PREPARE(p_kmsg)
{
  c->kept[0] = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (c->kept[0] < 0 || lseek(c->kept[0], 0, SEEK_END) < 0)
    return escape_not_here(c, "/dev/kmsg: %s", strerror(errno));
  snprintf(c->text, sizeof c->text, "confine-escape-%d", (int)getpid());
  return 0;
}

ATTEMPT(a_kmsg)
{
  char line[128];

  snprintf(line, sizeof line, "<7>%.100s\n", c->text);
  return put_setting("/dev/kmsg", line);
}

/* The node is easily made again where there is a place for it. */
ATTEMPT(a_kmsg_node)
{
  char line[128];
  const char *node = escape_in(c->ws, "node");

  snprintf(line, sizeof line, "<7>%.100s\n", c->text);
  if (mknod(node, S_IFCHR | 0600, makedev(1, 11)) < 0)
    return -1;
  return put_setting(node, line);
}

JUDGE(j_kmsg)
{
  char record[1024];
  ssize_t n;

  while ((n = read(c->kept[0], record, sizeof record)) > 0 || (n < 0 && errno == EPIPE))
    if (n > 0 && memmem(record, (size_t)n, c->text, strlen(c->text)))
      return escape_because(c, "a line stands in the kernel's log");
  return false;
}

/* loop devices */

PREPARE(p_loop)
{
  int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);

  if (control < 0)
    return escape_not_here(c, "/dev/loop-control: %s", strerror(errno));
  char block[4096] = "disk";
  int image = open(escape_in(c->victim, "image"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  for (int i = 0; i < 64; i++)
    if (write(image, block, sizeof block) != sizeof block)
      return -errno;
  for (int tries = 0; tries < 20; tries++) {
    int number = ioctl(control, ABI_LOOP_CTL_GET_FREE);
    if (number < 0)
      break;
    snprintf(c->text, sizeof c->text, "/dev/loop%d", number);
    int loop = open(c->text, O_RDWR | O_CLOEXEC);
    if (loop >= 0 && ioctl(loop, ABI_LOOP_SET_FD, image) == 0) {
      c->kept[0] = loop;
      c->num[0] = number;
      close(image);
      close(control);
      return 0;
    }
    if (loop >= 0)
      close(loop);
  }
  return escape_not_here(c, "no loop device could be set up: %s", strerror(errno));
}

static int spoil(const char *node)
{
  char block[4096] = "escaped";
  int fd = open(node, O_WRONLY | O_CLOEXEC);
  int rc = fd >= 0 && write(fd, block, sizeof block) == sizeof block && fsync(fd) == 0 ? 0 : -1;

  if (fd >= 0)
    close(fd);
  return rc;
}

ATTEMPT(a_loop_write)
{
  return spoil(c->text);
}

ATTEMPT(a_loop_node)
{
  const char *node = escape_in(c->ws, "node");

  if (mknod(node, S_IFBLK | 0600, makedev(ABI_LOOP_MAJOR, (unsigned)c->num[0])) < 0)
    return -1;
  return spoil(node);
}

/* wherever a file system is writable and has devices */
ATTEMPT(a_loop_node_anywhere)
{
  static const char *const places[] = {"/tmp", "/dev/shm", "/dev", "/run", "/dev/pts", NULL};
  char node[64];

  for (size_t i = 0; places[i]; i++) {
    snprintf(node, sizeof node, "%s/confine-escape-%d", places[i], (int)getpid());
    if (mknod(node, S_IFBLK | 0600, makedev(ABI_LOOP_MAJOR, (unsigned)c->num[0])) < 0)
      continue;
    int rc = spoil(node);
    unlink(node);
    if (rc == 0)
      return 0;
  }
  return -1;
}

ATTEMPT(a_loop_devtmpfs)
{
  char node[64];

  if (escape_take_mounts(c, false) < 0 || mount("dev", "/mnt", "devtmpfs", 0, NULL) < 0)
    return -1;
  snprintf(node, sizeof node, "/mnt/loop%ld", c->num[0]);
  return spoil(node);
}

CLEANUP(c_loop)
{
  if (c->kept[0] >= 0) {
    ioctl(c->kept[0], ABI_LOOP_CLR_FD, 0);
    close(c->kept[0]);
  }
}

enum { SPARE_LOOP = 731 };

PREPARE(p_loop_control)
{
  snprintf(c->text, sizeof c->text, "/sys/block/loop%d", SPARE_LOOP);
  if (access("/dev/loop-control", F_OK) < 0)
    return escape_not_here(c, "no /dev/loop-control");
  escape_lock("/dev/loop-control");
  if (access(c->text, F_OK) == 0)
    return escape_not_here(c, "loop device %d exists", SPARE_LOOP);
  c->num[0] = 1;
  return 0;
}

ATTEMPT(a_loop_control)
{
  int fd = open("/dev/loop-control", O_RDWR | O_CLOEXEC);

  (void)c;
  return ioctl(fd, ABI_LOOP_CTL_ADD, SPARE_LOOP) < 0 ? -1 : 0;
}

CLEANUP(c_loop_control)
{
  int fd = c->num[0] ? open("/dev/loop-control", O_RDWR | O_CLOEXEC) : -1;

  if (fd >= 0) {
    ioctl(fd, ABI_LOOP_CTL_REMOVE, SPARE_LOOP);
    close(fd);
  }
}

/* device nodes in the workspace: of the harmless null device, judged by being there */

ATTEMPT(a_mknod_char)
{
  return mknod(escape_in(c->ws, "node"), S_IFCHR | 0666, makedev(1, 3));
}

ATTEMPT(a_mknod_block)
{
  return mknod(escape_in(c->ws, "node"), S_IFBLK | 0600, makedev(ABI_LOOP_MAJOR, 255));
}

JUDGE(j_node)
{
  struct stat st;

  return lstat(escape_in(c->ws, "node"), &st) == 0 &&
         (S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode)) &&
         escape_because(c, "a device node lies in the workspace");
}

/* new names in the host's /dev */
PREPARE(p_dev_name)
{
  snprintf(c->text, sizeof c->text, "/dev/confine-escape-%d", (int)getpid());
  return 0;
}

ATTEMPT(a_dev_name)
{
  return escape_scribble(c->text, O_CREAT);
}

CLEANUP(c_dev_name)
{
  if (strncmp(c->text, "/dev/confine-escape-", 20) == 0)
    unlink(c->text);
}

/* An event of fanotify(7) hands out a descriptor of the file as its opener sees it: of one that an
 * outside process opens on a writable mount, a writable one. */

static void open_again_and_again(struct escape_ctx *c, int stop)
{
  struct pollfd p = {.fd = stop, .events = POLLIN};

  escape_ready();
  while (poll(&p, 1, 1) == 0)
    close(open(c->file, O_RDONLY | O_CLOEXEC));
}

PREPARE(p_fanotify)
{
  return escape_helper(c, open_again_and_again);
}

ATTEMPT(a_fanotify)
{
  struct fanotify_event_metadata event;
  int group = (int)syscall(SYS_fanotify_init, FAN_CLASS_NOTIF, O_WRONLY | O_CLOEXEC);
  struct pollfd p = {.fd = group, .events = POLLIN};

  if (group < 0 || syscall(SYS_fanotify_mark, group, FAN_MARK_ADD, (uint64_t)FAN_OPEN, AT_FDCWD,
                           c->file) < 0)
    return -1;
  if (poll(&p, 1, 200) != 1 || read(group, &event, sizeof event) < (ssize_t)sizeof event)
    return -1;
  return write(event.fd, "escaped\n", 8) == 8 ? 0 : -1;
}

/* process accounting: the kernel itself appends to the file it was given */

PREPARE(p_acct)
{
  /* turned off afterwards, so not where somebody uses it */
  if (access("/var/log/account/pacct", F_OK) == 0 || access("/var/account/pacct", F_OK) == 0)
    return escape_not_here(c, "this host keeps process accounts");
  escape_lock("/proc/sys/kernel/acct");
  c->num[0] = 1;
  return 0;
}

ATTEMPT(a_acct)
{
  if (syscall(SYS_acct, c->file) < 0)
    return -1;
  pid_t pid = fork();
  if (pid == 0)
    _exit(0);
  return pid > 0 && waitpid(pid, NULL, 0) == pid ? 0 : -1;
}

CLEANUP(c_acct)
{
  if (c->num[0])
    syscall(SYS_acct, NULL);
}

/* tunnels and links: names in the host's network */

PREPARE(p_tun)
{
  if (access("/dev/net/tun", F_OK) < 0)
    return escape_not_here(c, "no /dev/net/tun");
  snprintf(c->saved, sizeof c->saved, "esc%d", (int)getpid() % 1000000);
  snprintf(c->text, sizeof c->text, "/sys/class/net/%.20s", c->saved);
  return 0;
}

static int tunnel(const char *name, int keep)
{
  struct {
    char name[16];
    short flags;
    char pad[22];
  } request;
  int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);

  memset(&request, 0, sizeof request);
  snprintf(request.name, sizeof request.name, "%.15s", name);
  request.flags = ABI_IFF_TUN | ABI_IFF_NO_PI;
  if (fd < 0 || ioctl(fd, ABI_TUNSETIFF, &request) < 0)
    return -1;
  int rc = ioctl(fd, ABI_TUNSETPERSIST, keep);
  close(fd);
  return rc;
}

ATTEMPT(a_tun)
{
  return tunnel(strrchr(c->text, '/') + 1, 1);
}

CLEANUP(c_tun)
{
  if (c->saved[0] && access(c->text, F_OK) == 0)
    tunnel(c->saved, 0);
}

/* a set-id program: runs as its owner only if privileges may still be gained */

PREPARE(p_setid)
{
  if (geteuid() != 0)
    return escape_not_here(c, "only root can make a set-id program of root's");
  int rc = escape_copy_program(c, escape_in(c->victim, "program"), 04755);
  if (rc == 0) {
    char line[ESCAPE_PATH + 8];
    snprintf(line, sizeof line, "%.500s/by-root\n", c->victim);
    rc = escape_put(escape_in(c->victim, "payload"), line, 0644);
  }
  return rc;
}

ATTEMPT(a_setid)
{
  const char *const argv[] = {escape_in(c->victim, "program"), NULL};

  return escape_exec_wait(argv) == 0 ? 0 : -1;
}

#define K(id_, family_, flags_, prepare_, attempt_, judge_, cleanup_) \
  {.id = id_,                                                          \
   .family = family_,                                                 \
   .flags = flags_,                                                   \
   .prepare = prepare_,                                               \
   .attempt = attempt_,                                               \
   .escaped = judge_,                                                 \
   .cleanup = cleanup_}
#define KS(id_, family_, flags_, prepare_, attempt_, state_, cleanup_) \
  {.id = id_,                                                           \
   .family = family_,                                                  \
   .flags = flags_,                                                    \
   .prepare = prepare_,                                                \
   .attempt = attempt_,                                                \
   .state = state_,                                                    \
   .cleanup = cleanup_}
#define ROOT ESCAPE_ROOT_ONLY
#define ROOT_WS (ESCAPE_ROOT_ONLY | ESCAPE_WORKSPACE_ONLY)

const struct escape_technique escape_kernel[] = {
    K("sysctl-core-pattern", "proc", ROOT, p_core_pattern, a_core_pattern, j_setting, c_setting),
    K("sysctl", "proc", ROOT, p_sysctl, a_sysctl, j_setting, c_setting),
    K("sysctl-fresh-proc", "proc", ROOT, p_sysctl, a_sysctl_fresh, j_setting, c_setting),
    K("sysctl-remount", "proc", ROOT, p_sysctl, a_sysctl_remount, j_setting, c_setting),
    K("sysfs", "kernel", ROOT, p_sysfs, a_sysfs, j_setting, c_setting),
    K("cgroup-release-agent", "kernel", ROOT, p_release_agent, a_release_agent, j_setting,
      c_release_agent),
    KS("cgroup-mkdir", "kernel", ROOT, p_cgroup, a_cgroup, s_exists, c_cgroup),
    K("domain-name", "kernel", ROOT, p_domain, a_domain, j_domain, c_domain),
    KS("keyring-user", "keyring", 0, p_user_keyring, a_add_key, s_key, c_key),
    KS("keyring-user-int80", "keyring", 0, p_user_keyring, a_add_key_int80, s_key, c_key),
    KS("keyring-session", "keyring", 0, p_session_keyring, a_add_key, s_key, c_key),
    KS("keyring-update", "keyring", 0, p_key, a_key_update, s_key_value, c_known_key),
    KS("keyring-revoke", "keyring", 0, p_key, a_key_revoke, s_key_value, c_known_key),
    K("kmsg", "devices", ROOT, p_kmsg, a_kmsg, j_kmsg, NULL),
    K("kmsg-node", "devices", ROOT_WS, p_kmsg, a_kmsg_node, j_kmsg, NULL),
    K("loop-write", "devices", ROOT, p_loop, a_loop_write, NULL, c_loop),
    K("loop-node-in-workspace", "devices", ROOT_WS, p_loop, a_loop_node, NULL, c_loop),
    K("loop-node-anywhere", "devices", ROOT, p_loop, a_loop_node_anywhere, NULL, c_loop),
    K("loop-devtmpfs", "devices", ROOT, p_loop, a_loop_devtmpfs, NULL, c_loop),
    KS("loop-control", "devices", ROOT, p_loop_control, a_loop_control, s_exists, c_loop_control),
    K("mknod-character", "devices", ROOT_WS, NULL, a_mknod_char, j_node, NULL),
    K("mknod-block", "devices", ROOT_WS, NULL, a_mknod_block, j_node, NULL),
    KS("dev-new-name", "devices", ROOT, p_dev_name, a_dev_name, s_exists, c_dev_name),
    K("fanotify-descriptor", "kernel", ROOT | ESCAPE_VIA_OUTSIDE, p_fanotify, a_fanotify, NULL,
      NULL),
    K("accounting", "kernel", ROOT, p_acct, a_acct, NULL, c_acct),
    {.id = "tunnel",
     .family = "network",
     .flags = ESCAPE_ROOT_ONLY | ESCAPE_CHANNEL_NETWORK,
     .by_design = "outside-network",
     .prepare = p_tun,
     .attempt = a_tun,
     .state = s_exists,
     .cleanup = c_tun},
    K("setid-program", "setid", ESCAPE_PREPARE_AS_ROOT | ESCAPE_USER_ONLY, p_setid, a_setid, NULL,
      NULL),
};
const size_t escape_kernel_count = sizeof escape_kernel / sizeof *escape_kernel;
