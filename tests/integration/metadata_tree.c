#define _GNU_SOURCE
#include "metadata_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#define OLD_TIME 1000000000
#define ACL "system.posix_acl_access"

const char *tree;
int tree_fd, own;
static time_t started;

_Noreturn void die(const char *what) {
  fprintf(stderr, "metadata-calls: %s: %s\n", what, strerror(errno));
  exit(2);
}

static char long_name[256];
static const char *const files[] = {".", "f", "d", "d/f", "l", "p", "s", "nox", "other", "ro", "cwd", "two", "replaced",
                                    long_name};
enum { FILES = sizeof files / sizeof files[0] };

static void hold(int fd, int number) {
  if (fd < 0) {
    close(number);
    return;
  }
  if (dup2(fd, number) < 0)
    die("dup2");
  close(fd);
}

static void make_file(const char *name, mode_t mode) {
  int fd = open(name, O_CREAT | O_EXCL | O_WRONLY, mode);
  if (fd < 0 || write(fd, "content\n", 8) != 8)
    die(name);
  close(fd);
}

static const struct timespec old_times[2] = {{OLD_TIME, 123456789}, {OLD_TIME + 1, 987654321}};

void tree_set_old(const char *name) {
  if (utimensat(AT_FDCWD, name, old_times, AT_SYMLINK_NOFOLLOW) && errno != ENOENT)
    die(name);
}

static void make_links(void) {
  char name[32], target[PATH_MAX];
  snprintf(target, sizeof target, "%s/f", tree);
  if (symlink("f", "l") || symlink(target, "la") || symlink("d", "ld") || symlink("nothing", "dangling") ||
      symlink("loop", "loop") || symlink("/proc/self/fd/40", "lproc") || symlink("/proc/self/cwd/f", "lcwd") ||
      symlink("d/../l", "ll") || symlink("../f", "d/up") || symlink("//", "lroot") || symlink("f/", "lslash") ||
      symlink("nox/f", "lnox"))
    die("symlink");
  for (int i = 1; i <= 45; i++) {
    snprintf(name, sizeof name, "c%d", i);
    snprintf(target, sizeof target, i == 1 ? "f" : "c%d", i - 1);
    if (symlink(target, name))
      die(name);
  }
}

static void make_files(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "s"};
  int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  if (fchdir(tree_fd) || mkdir("d", 0755) || mkdir("nox", 0755) || mkdir("cwd", 0755) || mkfifo("p", 0644) ||
      bind(listener, (struct sockaddr *)&address, sizeof address))
    die("tree");
  close(listener);
  make_file("f", 0644);
  make_file("d/f", 0640);
  make_file("nox/f", 0644);
  make_file("other", 0644);
  make_file("ro", 0444);
  make_file(long_name, 0644);
  make_links();
  if (setxattr("f", "user.old", "old", 3, 0) || setxattr("d", "user.old", "old", 3, 0))
    die("setxattr");
}

static void open_objects(void) {
  int pair[2];
  hold(open("f", O_RDONLY), STDIN_FILENO);
  hold(open("f", O_RDONLY), FD_READ);
  hold(open("f", O_WRONLY), FD_WRITE);
  hold(open("f", O_RDWR), FD_BOTH);
  hold(open("f", O_PATH), FD_PATH);
  hold(open("l", O_PATH | O_NOFOLLOW), FD_LINK);
  hold(open("d", O_RDONLY | O_DIRECTORY), FD_DIR);
  hold(open("d", O_PATH), FD_DIR_PATH);
  hold(open("nox", O_PATH), FD_NOX);
  hold(open("s", O_PATH), FD_SOCKET_PATH);
  hold(open("p", O_RDONLY | O_NONBLOCK), FD_FIFO);
  if (!own)
    return;
  if (pipe(pair))
    die("pipe");
  close(pair[1]);
  hold(pair[0], FD_PIPE);
  hold(open("/proc/self/fd/47", O_PATH), FD_PIPE_PATH);
  hold(socket(AF_UNIX, SOCK_STREAM, 0), FD_SOCKET);
  hold(memfd_create("memory", 0), FD_MEMORY);
  hold(eventfd(0, 0), FD_EVENT);
  hold(memfd_create("sealed", MFD_ALLOW_SEALING), FD_SEALED);
  hold(open(".", O_TMPFILE | O_RDWR, 0644), FD_NAMELESS);
  make_file("unlinked", 0644);
  hold(open("unlinked", O_RDWR), FD_UNLINKED);
  make_file("one", 0644);
  hold(open("one", O_RDWR), FD_LINKED_STILL);
  make_file("replaced", 0644);
  hold(open("replaced", O_RDWR), FD_REPLACED);
  make_file("replacing", 0644);
  if (unlink("unlinked") || link("one", "two") || unlink("one") || rename("replacing", "replaced") ||
      mkdir("gone", 0755))
    die("unlink");
  hold(open("gone", O_RDONLY), FD_RMDIR);
  if (rmdir("gone"))
    die("rmdir");
  futimens(FD_PIPE, old_times);
  futimens(FD_SOCKET, old_times);
  futimens(FD_MEMORY, old_times);
  futimens(FD_NAMELESS, old_times);
}

static void make_old(void) {
  for (int i = FILES - 1; i >= 0; i--)
    tree_set_old(files[i]);
  if (chmod("nox", 0600))
    die("nox");
}

int tree_flags(const char *name, int *fd) {
  int flags = 0;
  *fd = open(name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (*fd < 0 || ioctl(*fd, FS_IOC_GETFLAGS, &flags))
    return 0;
  return flags;
}

/* Only the flags set here: without others the file system would change how it keeps the file. */
static void clear_flags(const char *name) {
  int fd, flags = tree_flags(name, &fd), fewer = flags & ~0xf0;
  if (flags != fewer && ioctl(fd, FS_IOC_SETFLAGS, &fewer))
    die(name);
  close(fd);
}

static void clear_directory(const char *name) {
  char command[PATH_MAX + 64];
  static const char *const insides[] = {"d/f", "d/up", "nox/f", "f", "ro", "other", "p", "s", "two", "replaced",
                                        "l", "la", "ld", "ll", "lcwd", "lproc", "lroot", "lslash", "lnox", "loop",
                                        "dangling", "d", "nox", "cwd"};
  if (fchdir(tree_fd))
    die(name);
  chmod("nox", 0700);
  chmod(".", 0755);
  clear_flags("f");
  clear_flags(".");
  chmod("d", 0755);
  for (size_t i = 0; i < sizeof insides / sizeof insides[0]; i++)
    if (unlink(insides[i]) && rmdir(insides[i]) && errno != ENOENT)
      die(insides[i]);
  for (int i = 1; i <= 45; i++) {
    snprintf(command, sizeof command, "c%d", i);
    unlink(command);
  }
  unlink(long_name);
  /* What calls on the directory itself have left. */
  removexattr(".", "user.new");
  removexattr(".", "system.posix_acl_access");
}

/* Descriptions, the times of calls made just now being the same everywhere. */

static void describe_time(char *out, size_t size, const struct timespec *time) {
  size_t n = strlen(out);
  if (time->tv_sec >= started - 2 && time->tv_sec < started + 3600)
    snprintf(out + n, size - n, " now");
  else
    snprintf(out + n, size - n, " %lld.%09ld", (long long)time->tv_sec, time->tv_nsec);
}

static void describe_attributes(char *out, size_t size, const char *name) {
  char list[1024], value[256];
  ssize_t length = llistxattr(name, list, sizeof list);
  for (ssize_t at = 0; at < length; at += (ssize_t)strlen(list + at) + 1) {
    ssize_t n = lgetxattr(name, list + at, value, sizeof value);
    unsigned sum = 0;
    for (ssize_t i = 0; i < n; i++)
      sum = sum * 31 + (unsigned char)value[i];
    size_t used = strlen(out);
    snprintf(out + used, size - used, " %s=%zd:%x", list + at, n, sum);
  }
}

static void describe(const char *name, char *out, size_t size) {
  struct stat st;
  out[0] = '\0';
  if (fstatat(AT_FDCWD, name, &st, AT_SYMLINK_NOFOLLOW)) {
    snprintf(out, size, "%s", strerror(errno));
    return;
  }
  snprintf(out, size, "%o %u:%u", st.st_mode, st.st_uid, st.st_gid);
  describe_time(out, size, &st.st_mtim);
  if (S_ISREG(st.st_mode))
    describe_time(out, size, &st.st_atim);
  describe_attributes(out, size, name);
  if (!strcmp(name, "f") || !strcmp(name, "d") || !strcmp(name, "d/f")) {
    int fd;
    size_t n = strlen(out);
    snprintf(out + n, size - n, " %x", tree_flags(name, &fd) & 0xff);
    close(fd);
  }
}

static void describe_open(int fd, char *out, size_t size) {
  struct stat st;
  out[0] = '\0';
  if (fstat(fd, &st))
    return;
  snprintf(out, size, "%o %u:%u", st.st_mode, st.st_uid, st.st_gid);
  if (fd == FD_EVENT)
    return;
  describe_time(out, size, &st.st_mtim);
}

enum { DESCRIPTION = 600, OBJECTS = FILES + FD_END - FD_READ };
static char before[OBJECTS][DESCRIPTION];
static struct stat attributes_before[OBJECTS];

static void describe_object(int i, char *out) {
  if (i < FILES)
    describe(files[i], out, DESCRIPTION);
  else
    describe_open(FD_READ + i - FILES, out, DESCRIPTION);
}

void tree_prepare(void) {
  if (own) {
    clear_directory(tree);
    make_files();
  }
  open_objects();
  if (own)
    make_old();
  for (int i = 0; i < OBJECTS; i++) {
    describe_object(i, before[i]);
    if (i < FILES)
      lstat(files[i], &attributes_before[i]);
    else
      fstat(FD_READ + i - FILES, &attributes_before[i]);
  }
}

/* Undoes what a call has changed. */
static void repair(int i) {
  const struct stat *st = &attributes_before[i];
  const char *name = i < FILES ? files[i] : "";
  char now[DESCRIPTION];
  if (i >= FILES) {
    int fd = FD_READ + i - FILES;
    if (fchown(fd, st->st_uid, st->st_gid) == 0 && fchmod(fd, st->st_mode & 07777) == 0)
      futimens(fd, (const struct timespec[2]){st->st_atim, st->st_mtim});
  } else {
    if (!S_ISLNK(st->st_mode)) {
      clear_flags(name);
      removexattr(name, "user.new");
      removexattr(name, ACL);
      removexattr(name, "system.posix_acl_default");
      if (strstr(before[i], "user.old"))
        setxattr(name, "user.old", "old", 3, 0);
    }
    if (lchown(name, st->st_uid, st->st_gid) || (!S_ISLNK(st->st_mode) && chmod(name, st->st_mode & 07777)))
      die(name);
    tree_set_old(name);
  }
  describe_object(i, now);
  if (strcmp(now, before[i]))
    tree_prepare();
}

/* Prints and undoes what has changed. */
void tree_changes(void) {
  int changed[OBJECTS] = {0};
  for (int i = 0; i < OBJECTS; i++) {
    char now[DESCRIPTION];
    describe_object(i, now);
    if (!strcmp(now, before[i]))
      continue;
    changed[i] = 1;
    if (i < FILES)
      printf("\t[%s] %s", files[i], now);
    else
      printf("\t[fd %d] %s", FD_READ + i - FILES, now);
  }
  printf("\n");
  for (int i = 0; own && i < OBJECTS; i++)
    if (changed[i])
      repair(i);
}

void tree_enter(const char *path) {
  tree = path;
  started = time(NULL);
  memset(long_name, 'n', 255);
  umask(022);
  tree_fd = open(tree, O_RDONLY | O_DIRECTORY);
  if (tree_fd < 0 || fchdir(tree_fd))
    die(tree);
}

void tree_make(void) {
  make_files();
  make_old();
}
