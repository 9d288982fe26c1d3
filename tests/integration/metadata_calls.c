/*
 * Every form of the calls that change metadata, on every kind of object and path: prints what each
 * returned and what it changed, so that a run outside a sandbox can be compared with one inside.
 *
 *   metadata-calls build TREE    make the tree of files
 *   metadata-calls own TREE      make it, then every call, making it anew where a call changed it
 *   metadata-calls victim TREE   every call on a tree that is there already
 *
 * A line: call, object, result (or errno name), and the description of each file that has changed.
 */
#define _GNU_SOURCE
#include "metadata_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>
#include <utime.h>

#ifndef __x86_64__
#error "the numbers below are those of x86_64 and of its 32-bit entry"
#endif

enum { NR_FCHMODAT2 = 452, NR_SETXATTRAT = 463, NR_REMOVEXATTRAT = 466, NR_FILE_SETATTR = 469 };
enum {
  I386_CHMOD = 15, I386_LCHOWN = 16, I386_UTIME = 30, I386_IOCTL = 54, I386_FCHMOD = 94, I386_FCHOWN = 95,
  I386_CHOWN = 182, I386_LCHOWN32 = 198, I386_FCHOWN32 = 207, I386_CHOWN32 = 212, I386_SETXATTR = 226,
  I386_LSETXATTR = 227, I386_FSETXATTR = 228, I386_REMOVEXATTR = 235, I386_LREMOVEXATTR = 236,
  I386_FREMOVEXATTR = 237, I386_UTIMES = 271, I386_FCHOWNAT = 298, I386_FUTIMESAT = 299, I386_FCHMODAT = 306,
  I386_UTIMENSAT = 320, I386_UTIMENSAT_TIME64 = 412
};
#define EMPTY 0x1000
#define NOFOLLOW 0x100
#define SETFLAGS_32 0x40046602u
#define NEW_TIME 1100000000
#define NODUMP 0x40
#define OMIT ((1l << 30) - 2l)
#define NOW ((1l << 30) - 1l)
#define ACL "system.posix_acl_access"

static uid_t me;
static gid_t my_group;

/* Memory that the 32-bit entry can reach. */
static char *arena, *arena_next;

static void *low(const void *from, size_t size) {
  char *at = arena_next;
  arena_next += (size + 15) & ~(size_t)15;
  if (arena_next > arena + (1 << 20))
    die("arena");
  memcpy(at, from, size);
  return at;
}

static char *low_text(const char *format, ...) {
  static char text[8192];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  return low(text, strlen(text) + 1);
}

/* Not every kernel for x86_64 has the 32-bit entry; without it the call ends the process. */
static int has_entry_32;
#define NO_ENTRY (-4096)

static int find_entry_32(void) {
  int status = 1;
  pid_t child = fork();
  if (child == 0) {
    long result = 64; /* getppid */
    __asm__ volatile("int $0x80" : "+a"(result) : : "r8", "r9", "r10", "r11", "memory");
    _exit(result <= 0);
  }
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static __attribute__((noinline)) long int80(int number, const uint32_t *arguments) {
  long result = number;
  if (!has_entry_32)
    return NO_ENTRY;
  __asm__ volatile("sub $128, %%rsp\n push %%rbx\n push %%rbp\n"
                   "mov 0(%%rdi), %%ebx\n mov 4(%%rdi), %%ecx\n mov 8(%%rdi), %%edx\n mov 12(%%rdi), %%esi\n"
                   "mov 20(%%rdi), %%ebp\n mov 16(%%rdi), %%edi\n int $0x80\n"
                   "pop %%rbp\n pop %%rbx\n add $128, %%rsp"
                   : "+a"(result), "+D"(arguments)
                   :
                   : "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory");
  return (int)result;
}
#define INT80(number, ...) int80((number), (const uint32_t[6]){__VA_ARGS__})
#define P(pointer) ((uint32_t)(uintptr_t)(pointer))

static long native(long result) {
  return result < 0 ? -errno : result;
}
#define CALL(...) native(syscall(__VA_ARGS__))

static void show(const char *call, const char *object, long result) {
  if (result == NO_ENTRY)
    return;
  if (result < 0)
    printf("%s\t%s\t%s", call, object, strerrorname_np((int)-result));
  else
    printf("%s\t%s\t%ld", call, object, result);
  tree_changes();
}


/* Calls by path. */

static const struct timespec *new_times;
static const struct timeval *new_timeval;
static const struct utimbuf *new_utimbuf;
static const int32_t *new_times_32;
static const int64_t *new_times_64;
static const void *acl;
enum { ACL_SIZE = 44 };
static const char *user_new, *user_old, *acl_low, *letter;
struct xattr_args {
  uint64_t value;
  uint32_t size, flags;
};
static const struct xattr_args *xattr_args;
static struct fsxattr *fsx;
struct file_attr {
  uint64_t xflags;
  uint32_t extsize, nextents, projid, cowextsize;
};
static const struct file_attr *file_attr;

static void make_values(void) {
  const struct timespec times[2] = {{NEW_TIME, 5}, {NEW_TIME + 1, 6}};
  const struct timeval timeval[2] = {{NEW_TIME, 7}, {NEW_TIME + 1, 8}};
  const struct utimbuf utimbuf = {NEW_TIME, NEW_TIME + 1};
  const int32_t times_32[4] = {NEW_TIME, 9, NEW_TIME + 1, 10};
  const int64_t times_64[4] = {NEW_TIME, 11, NEW_TIME + 1, 12};
  struct {
    uint32_t version;
    struct {
      uint16_t tag, perm;
      uint32_t id;
    } entry[5];
  } list = {2, {{1, 7, ~0u}, {2, 5, me}, {4, 5, ~0u}, {16, 5, ~0u}, {32, 4, ~0u}}};
  const struct file_attr attributes = {.xflags = 0x80 /* nodump */};
  new_times = low(times, sizeof times);
  new_timeval = low(timeval, sizeof timeval);
  new_utimbuf = low(&utimbuf, sizeof utimbuf);
  new_times_32 = low(times_32, sizeof times_32);
  new_times_64 = low(times_64, sizeof times_64);
  acl = low(&list, sizeof list);
  user_new = low_text("user.new");
  user_old = low_text("user.old");
  acl_low = low_text(ACL);
  letter = low_text("x");
  const struct xattr_args arguments = {(uintptr_t)letter, 1, 0};
  xattr_args = low(&arguments, sizeof arguments);
  file_attr = low(&attributes, sizeof attributes);
  fsx = low(&(struct fsxattr){.fsx_xflags = 0x80}, sizeof *fsx);
}

#define BY_PATH(name, call) \
  static long name(int dirfd, const char *path) { \
    (void)dirfd; \
    return call; \
  }

BY_PATH(a_chmod, CALL(SYS_chmod, path, 0701))
BY_PATH(a_fchmodat, CALL(SYS_fchmodat, dirfd, path, 0701))
BY_PATH(a_fchmodat2, CALL(NR_FCHMODAT2, dirfd, path, 0701, 0))
BY_PATH(a_fchmodat2_nofollow, CALL(NR_FCHMODAT2, dirfd, path, 0701, NOFOLLOW))
BY_PATH(a_fchmodat2_empty, CALL(NR_FCHMODAT2, dirfd, path, 0701, EMPTY))
BY_PATH(a_fchmodat2_both, CALL(NR_FCHMODAT2, dirfd, path, 0701, EMPTY | NOFOLLOW))
BY_PATH(a_fchmodat2_bad, CALL(NR_FCHMODAT2, dirfd, path, 0701, 0x400))
BY_PATH(a_chown, CALL(SYS_chown, path, me, my_group))
BY_PATH(a_lchown, CALL(SYS_lchown, path, me, my_group))
BY_PATH(a_chown_other, CALL(SYS_chown, path, 12, 34))
BY_PATH(a_fchownat, CALL(SYS_fchownat, dirfd, path, 12, 34, 0))
BY_PATH(a_fchownat_nofollow, CALL(SYS_fchownat, dirfd, path, me, my_group, NOFOLLOW))
BY_PATH(a_fchownat_empty, CALL(SYS_fchownat, dirfd, path, 12, 34, EMPTY))
BY_PATH(a_fchownat_bad, CALL(SYS_fchownat, dirfd, path, 12, 34, 0x200))
BY_PATH(a_utime, CALL(SYS_utime, path, new_utimbuf))
BY_PATH(a_utime_null, CALL(SYS_utime, path, NULL))
BY_PATH(a_utimes, CALL(SYS_utimes, path, new_timeval))
BY_PATH(a_futimesat, CALL(SYS_futimesat, dirfd, path, new_timeval))
BY_PATH(a_futimesat_null, CALL(SYS_futimesat, dirfd, path, NULL))
BY_PATH(a_utimensat, CALL(SYS_utimensat, dirfd, path, new_times, 0))
BY_PATH(a_utimensat_null, CALL(SYS_utimensat, dirfd, path, NULL, 0))
BY_PATH(a_utimensat_nofollow, CALL(SYS_utimensat, dirfd, path, new_times, NOFOLLOW))
BY_PATH(a_utimensat_empty, CALL(SYS_utimensat, dirfd, path, new_times, EMPTY))
BY_PATH(a_utimensat_both, CALL(SYS_utimensat, dirfd, path, new_times, EMPTY | NOFOLLOW))
BY_PATH(a_utimensat_bad, CALL(SYS_utimensat, dirfd, path, new_times, 0x800))
BY_PATH(a_setxattr, CALL(SYS_setxattr, path, user_new, letter, 1, 0))
BY_PATH(a_lsetxattr, CALL(SYS_lsetxattr, path, user_new, letter, 1, 0))
BY_PATH(a_setxattr_acl, CALL(SYS_setxattr, path, acl_low, acl, ACL_SIZE, 0))
BY_PATH(a_removexattr, CALL(SYS_removexattr, path, user_old))
BY_PATH(a_lremovexattr, CALL(SYS_lremovexattr, path, user_old))
BY_PATH(a_setxattrat, CALL(NR_SETXATTRAT, dirfd, path, 0, user_new, xattr_args, sizeof *xattr_args))
BY_PATH(a_setxattrat_nofollow, CALL(NR_SETXATTRAT, dirfd, path, NOFOLLOW, user_new, xattr_args, sizeof *xattr_args))
BY_PATH(a_setxattrat_empty, CALL(NR_SETXATTRAT, dirfd, path, EMPTY, user_new, xattr_args, sizeof *xattr_args))
BY_PATH(a_setxattrat_bad, CALL(NR_SETXATTRAT, dirfd, path, 0x800, user_new, xattr_args, sizeof *xattr_args))
BY_PATH(a_removexattrat, CALL(NR_REMOVEXATTRAT, dirfd, path, 0, user_old))
BY_PATH(a_removexattrat_empty, CALL(NR_REMOVEXATTRAT, dirfd, path, EMPTY, user_old))
BY_PATH(a_file_setattr, CALL(NR_FILE_SETATTR, dirfd, path, file_attr, sizeof *file_attr, 0))
BY_PATH(a_file_setattr_nofollow, CALL(NR_FILE_SETATTR, dirfd, path, file_attr, sizeof *file_attr, NOFOLLOW))
BY_PATH(a_file_setattr_empty, CALL(NR_FILE_SETATTR, dirfd, path, file_attr, sizeof *file_attr, EMPTY))
BY_PATH(a_file_setattr_bad, CALL(NR_FILE_SETATTR, dirfd, path, file_attr, sizeof *file_attr, 0x800))

BY_PATH(c_chmod, INT80(I386_CHMOD, P(path), 0701))
BY_PATH(c_fchmodat, INT80(I386_FCHMODAT, (uint32_t)dirfd, P(path), 0701))
BY_PATH(c_fchmodat2_empty, INT80(NR_FCHMODAT2, (uint32_t)dirfd, P(path), 0701, EMPTY))
BY_PATH(c_chown, INT80(I386_CHOWN, P(path), 12, 34))
BY_PATH(c_lchown, INT80(I386_LCHOWN, P(path), 0xffff, 0xffff))
BY_PATH(c_chown32, INT80(I386_CHOWN32, P(path), me, my_group))
BY_PATH(c_lchown32, INT80(I386_LCHOWN32, P(path), me, my_group))
BY_PATH(c_fchownat, INT80(I386_FCHOWNAT, (uint32_t)dirfd, P(path), 12, 34, 0))
BY_PATH(c_fchownat_nofollow, INT80(I386_FCHOWNAT, (uint32_t)dirfd, P(path), ~0u, ~0u, NOFOLLOW))
BY_PATH(c_utime, INT80(I386_UTIME, P(path), P(new_times_32)))
BY_PATH(c_utimes, INT80(I386_UTIMES, P(path), P(new_times_32)))
BY_PATH(c_futimesat, INT80(I386_FUTIMESAT, (uint32_t)dirfd, P(path), P(new_times_32)))
BY_PATH(c_utimensat, INT80(I386_UTIMENSAT, (uint32_t)dirfd, P(path), P(new_times_32), 0))
BY_PATH(c_utimensat_empty, INT80(I386_UTIMENSAT, (uint32_t)dirfd, P(path), P(new_times_32), EMPTY))
BY_PATH(c_utimensat64, INT80(I386_UTIMENSAT_TIME64, (uint32_t)dirfd, P(path), P(new_times_64), NOFOLLOW))
BY_PATH(c_setxattr, INT80(I386_SETXATTR, P(path), P(user_new), P(letter), 1, 0))
BY_PATH(c_lsetxattr, INT80(I386_LSETXATTR, P(path), P(user_new), P(letter), 1, 0))
BY_PATH(c_removexattr, INT80(I386_REMOVEXATTR, P(path), P(user_old)))
BY_PATH(c_lremovexattr, INT80(I386_LREMOVEXATTR, P(path), P(user_old)))
BY_PATH(c_setxattrat, INT80(NR_SETXATTRAT, (uint32_t)dirfd, P(path), 0, P(user_new), P(xattr_args), 16))
BY_PATH(c_removexattrat, INT80(NR_REMOVEXATTRAT, (uint32_t)dirfd, P(path), 0, P(user_old)))
BY_PATH(c_file_setattr, INT80(NR_FILE_SETATTR, (uint32_t)dirfd, P(path), P(file_attr), 24, 0))

struct path_call {
  const char *name;
  long (*call)(int dirfd, const char *path);
  int at; /* has a directory */
};
#define AT(name) {#name, a_##name, 1}
#define PLAIN(name) {#name, a_##name, 0}
#define AT32(name) {#name "/32", c_##name, 1}
#define PLAIN32(name) {#name "/32", c_##name, 0}
static const struct path_call path_calls[] = {
  PLAIN(chmod), AT(fchmodat), AT(fchmodat2), AT(fchmodat2_nofollow), AT(fchmodat2_empty), AT(fchmodat2_both),
  AT(fchmodat2_bad), PLAIN(chown), PLAIN(lchown), PLAIN(chown_other), AT(fchownat), AT(fchownat_nofollow),
  AT(fchownat_empty), AT(fchownat_bad), PLAIN(utime), PLAIN(utime_null), PLAIN(utimes), AT(futimesat),
  AT(futimesat_null), AT(utimensat), AT(utimensat_null), AT(utimensat_nofollow), AT(utimensat_empty),
  AT(utimensat_both), AT(utimensat_bad), PLAIN(setxattr), PLAIN(lsetxattr), PLAIN(setxattr_acl),
  PLAIN(removexattr), PLAIN(lremovexattr), AT(setxattrat), AT(setxattrat_nofollow), AT(setxattrat_empty),
  AT(setxattrat_bad), AT(removexattrat), AT(removexattrat_empty), AT(file_setattr), AT(file_setattr_nofollow),
  AT(file_setattr_empty), AT(file_setattr_bad), PLAIN32(chmod), AT32(fchmodat), AT32(fchmodat2_empty),
  PLAIN32(chown), PLAIN32(lchown), PLAIN32(chown32), PLAIN32(lchown32), AT32(fchownat), AT32(fchownat_nofollow),
  PLAIN32(utime), PLAIN32(utimes), AT32(futimesat), AT32(utimensat), AT32(utimensat_empty), AT32(utimensat64),
  PLAIN32(setxattr), PLAIN32(lsetxattr), PLAIN32(removexattr), PLAIN32(lremovexattr), AT32(setxattrat),
  AT32(removexattrat), AT32(file_setattr),
};

static void by_path_on(const char *object, int dirfd, const char *path) {
  for (size_t i = 0; i < sizeof path_calls / sizeof path_calls[0]; i++)
    if (path_calls[i].at || dirfd == AT_FDCWD)
      show(path_calls[i].name, object, path_calls[i].call(dirfd, path));
}

static void by_cwd_path(const char *path) {
  by_path_on(path, AT_FDCWD, low_text("%s", path));
}

static void ordinary_paths(void) {
  static const char *const paths[] = {
    "f", "./f", "d/../f", "d/./../d/f", "l", "l/", "la", "ll", "ld", "ld/", "ld/f", "ld/../f", "ld/up", "d", "d/",
    "d/.", "d/..", ".", "./", "f/", "f/.", "f/x", "l/x", "missing", "missing/", "missing/f", "dangling", "dangling/",
    "loop", "c20", "c45", "c20/", "nox", "nox/f", "nox/../f", "lnox", "nox/missing", "p", "s", "ro", "lslash",
    "lproc", "lcwd", "/dev/stdin", "/dev/fd/40", "/proc/self/fd/40", "/proc/self/fd/43", "/proc/thread-self/fd/41",
    "/proc/self/fd/45", "/proc/self/fd/45/f", "/proc/self/fd/44", "/proc/self/fd/99", "/proc/self/cwd/f",
    "/proc/self/cwd", "/proc/self/task/../fd/40", "/proc/self/fd/47", "//proc///self//fd//40", "/proc/self/fd/40/",
    "/proc/self/fd/50", "/proc/self/fd/51", "/proc/self/fd/52", "/proc/self/fd/49",
  };
  for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
    by_cwd_path(paths[i]);
}

static void odd_paths(void) {
  static char text[8192];
  by_path_on("absolute", AT_FDCWD, low_text("%s/f", tree));
  by_path_on("absolute through ..", AT_FDCWD, low_text("/..//../%s/d/../f", tree));
  by_path_on("absolute through lroot", AT_FDCWD, low_text("lroot%s/f", tree));
  by_path_on("absolute through own root", AT_FDCWD, low_text("/proc/self/root%s/f", tree));
  by_path_on("own pid", AT_FDCWD, low_text("/proc/%d/fd/40", getpid()));
  by_path_on("through init", AT_FDCWD, low_text("/proc/1/root%s/f", tree));
  by_path_on("empty", AT_FDCWD, low_text(""));
  by_path_on("null", AT_FDCWD, NULL);
  by_path_on("one", AT_FDCWD, (const char *)1);
  by_path_on("high", AT_FDCWD, (const char *)0xfffff000u);
  memset(text, 'n', 255);
  text[255] = '\0';
  by_path_on("255 bytes", AT_FDCWD, low(text, 256));
  memset(text, 'n', 256);
  text[256] = '\0';
  by_path_on("256 bytes", AT_FDCWD, low(text, 257));
  by_path_on("256 bytes below nox", AT_FDCWD, low_text("nox/%s", text));
  for (int i = 0; i < 4094; i++)
    text[i] = i % 2 ? '/' : '.';
  text[4094] = 'f';
  text[4095] = '\0';
  by_path_on("4095 bytes", AT_FDCWD, low(text, 4096));
  memmove(text + 1, text, 4096);
  by_path_on("4096 bytes", AT_FDCWD, low(text, 4097));
  char *edge = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
  if (edge == MAP_FAILED || munmap(edge + 4096, 4096))
    die("mmap");
  memcpy(edge + 4094, "f", 2);
  by_path_on("before the edge", AT_FDCWD, edge + 4094);
  memcpy(edge + 4094, "ff", 2);
  by_path_on("over the edge", AT_FDCWD, edge + 4094);
}

static void directories(void) {
  const char *f = low_text("f"), *absolute = low_text("%s/f", tree), *up = low_text("../f"), *none = low_text("");
  by_path_on("d f", FD_DIR, f);
  by_path_on("d/../f", FD_DIR, up);
  by_path_on("d(path) f", FD_DIR_PATH, f);
  by_path_on("file f", FD_READ, f);
  by_path_on("nox f", FD_NOX, f);
  by_path_on("-1 f", -1, f);
  by_path_on("99 f", 99, f);
  by_path_on("-1 absolute", -1, absolute);
  by_path_on("99 absolute", 99, absolute);
  by_path_on("99 empty", 99, none);
  by_path_on("99 null", 99, NULL);
  by_path_on("99 EFAULT", 99, (const char *)1);
  by_path_on("link f", FD_LINK, f);
  by_path_on("pipe f", FD_PIPE, f);
  by_path_on("removed f", FD_RMDIR, f);
  by_path_on("removed ..", FD_RMDIR, low_text(".."));
  for (int fd = FD_READ; fd < FD_END; fd++) {
    char object[32];
    snprintf(object, sizeof object, "fd %d empty", fd);
    by_path_on(object, fd, none);
    snprintf(object, sizeof object, "fd %d null", fd);
    by_path_on(object, fd, NULL);
  }
}

/* Calls by descriptor. */

#define BY_FD(name, call) \
  static long name(int fd) { \
    return call; \
  }
static const int *nodump;
BY_FD(d_fchmod, CALL(SYS_fchmod, fd, 0701))
BY_FD(d_fchown, CALL(SYS_fchown, fd, 12, 34))
BY_FD(d_fchown_me, CALL(SYS_fchown, fd, me, my_group))
BY_FD(d_utimensat, CALL(SYS_utimensat, fd, NULL, new_times, 0))
BY_FD(d_utimensat_nofollow, CALL(SYS_utimensat, fd, NULL, new_times, NOFOLLOW))
BY_FD(d_futimesat, CALL(SYS_futimesat, fd, NULL, new_timeval))
BY_FD(d_fsetxattr, CALL(SYS_fsetxattr, fd, user_new, letter, 1, 0))
BY_FD(d_fsetxattr_acl, CALL(SYS_fsetxattr, fd, acl_low, acl, ACL_SIZE, 0))
BY_FD(d_fremovexattr, CALL(SYS_fremovexattr, fd, user_old))
BY_FD(d_setflags, CALL(SYS_ioctl, fd, FS_IOC_SETFLAGS, nodump))
BY_FD(d_setflags32, CALL(SYS_ioctl, fd, SETFLAGS_32, nodump))
BY_FD(d_fssetxattr, CALL(SYS_ioctl, fd, FS_IOC_FSSETXATTR, fsx))
BY_FD(d_setflags_efault, CALL(SYS_ioctl, fd, FS_IOC_SETFLAGS, 1))
BY_FD(e_fchmod, INT80(I386_FCHMOD, (uint32_t)fd, 0701))
BY_FD(e_fchown, INT80(I386_FCHOWN, (uint32_t)fd, 12, 34))
BY_FD(e_fchown32, INT80(I386_FCHOWN32, (uint32_t)fd, me, my_group))
BY_FD(e_utimensat, INT80(I386_UTIMENSAT, (uint32_t)fd, 0, P(new_times_32), 0))
BY_FD(e_utimensat64, INT80(I386_UTIMENSAT_TIME64, (uint32_t)fd, 0, P(new_times_64), 0))
BY_FD(e_futimesat, INT80(I386_FUTIMESAT, (uint32_t)fd, 0, P(new_times_32)))
BY_FD(e_fsetxattr, INT80(I386_FSETXATTR, (uint32_t)fd, P(user_new), P(letter), 1, 0))
BY_FD(e_fremovexattr, INT80(I386_FREMOVEXATTR, (uint32_t)fd, P(user_old)))
BY_FD(e_setflags, INT80(I386_IOCTL, (uint32_t)fd, SETFLAGS_32, P(nodump)))
BY_FD(e_setflags64, INT80(I386_IOCTL, (uint32_t)fd, (uint32_t)FS_IOC_SETFLAGS, P(nodump)))
BY_FD(e_fssetxattr, INT80(I386_IOCTL, (uint32_t)fd, (uint32_t)FS_IOC_FSSETXATTR, P(fsx)))

static const struct {
  const char *name;
  long (*call)(int fd);
} fd_calls[] = {
  {"fchmod", d_fchmod}, {"fchown", d_fchown}, {"fchown_me", d_fchown_me}, {"utimensat", d_utimensat},
  {"utimensat_nofollow", d_utimensat_nofollow}, {"futimesat", d_futimesat}, {"fsetxattr", d_fsetxattr},
  {"fsetxattr_acl", d_fsetxattr_acl}, {"fremovexattr", d_fremovexattr}, {"setflags", d_setflags},
  {"setflags32", d_setflags32}, {"fssetxattr", d_fssetxattr}, {"setflags_efault", d_setflags_efault},
  {"fchmod/32", e_fchmod}, {"fchown/32", e_fchown}, {"fchown32/32", e_fchown32}, {"utimensat/32", e_utimensat},
  {"utimensat64/32", e_utimensat64}, {"futimesat/32", e_futimesat}, {"fsetxattr/32", e_fsetxattr},
  {"fremovexattr/32", e_fremovexattr}, {"setflags/32", e_setflags}, {"setflags64/32", e_setflags64},
  {"fssetxattr/32", e_fssetxattr},
};

static void by_descriptor(int fd) {
  char object[32];
  snprintf(object, sizeof object, "fd %d", fd);
  for (size_t i = 0; i < sizeof fd_calls / sizeof fd_calls[0]; i++)
    show(fd_calls[i].name, object, fd_calls[i].call(fd));
}

/* Values, each on one file. */

static void modes_and_owners(void) {
  const char *f = low_text("f"), *d = low_text("d");
  static const unsigned long modes[] = {0, 07777, 06755, 01777, 0100644, 0170777, 0x10000ul | 0640, ~0ul};
  char object[64];
  for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
    snprintf(object, sizeof object, "f %lo", modes[i]);
    show("chmod", object, CALL(SYS_chmod, f, modes[i]));
    show("chmod d", object, CALL(SYS_chmod, d, modes[i]));
  }
  static const long ids[] = {-1, 0, 1, 65534, 65535, 65536, 0x7fffffff, 0xfffffffe, 0x100000000 | 12};
  for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
    snprintf(object, sizeof object, "f %ld", ids[i]);
    show("chown uid", object, CALL(SYS_chown, f, ids[i], -1));
    show("chown gid", object, CALL(SYS_chown, f, -1, ids[i]));
    show("chown uid/32", object, INT80(I386_CHOWN, P(f), (uint32_t)ids[i], 0xffff));
    show("chown32 gid/32", object, INT80(I386_CHOWN32, P(f), ~0u, (uint32_t)ids[i]));
  }
  gid_t groups[64];
  int count = getgroups(64, groups);
  for (int i = 0; i < count; i++)
    show("chgrp", "f own group", CALL(SYS_chown, f, -1, groups[i]));
  long result = CALL(SYS_chmod, f, 06755);
  show("chmod setid and chown", "f", result < 0 ? result : CALL(SYS_chown, f, -1, my_group));
  show("fchmodat", "high bits of dirfd", CALL(SYS_fchmodat, 0xffffffff00000000ul | (unsigned)AT_FDCWD, f, 0701));
  show("fchmodat", "high bits of dirfd 2", CALL(SYS_fchmodat, 0x500000000ul | (unsigned)AT_FDCWD, f, 0701));
  show("fchmodat2", "high bits of flags", CALL(NR_FCHMODAT2, AT_FDCWD, f, 0701, 0x500000000ul));
  show("fchownat", "high bits of flags", CALL(SYS_fchownat, AT_FDCWD, f, -1, -1, 0x500000000ul | NOFOLLOW));
  show("utimensat", "high bits of flags", CALL(SYS_utimensat, AT_FDCWD, f, new_times, 0x500000000ul));
  show("fchmod", "high bits of fd", CALL(SYS_fchmod, 0x500000000ul | FD_READ, 0701));
  show("fchmod", "high bits of mode", CALL(SYS_fchmod, FD_READ, 0x500000000ul | 0701));
}

static void times(void) {
  const char *f = low_text("f"), *missing = low_text("missing"), *ro = low_text("ro");
  static const struct timespec pairs[][2] = {
    {{NEW_TIME, 1000000000}, {NEW_TIME, 0}}, {{NEW_TIME, -1}, {NEW_TIME, 0}}, {{NEW_TIME, OMIT}, {NEW_TIME, OMIT}},
    {{5, OMIT}, {NEW_TIME, 3}}, {{NEW_TIME, 3}, {5, OMIT}}, {{5, NOW}, {5, NOW}}, {{5, NOW}, {5, OMIT}},
    {{-5, 7}, {-1, 999999999}}, {{1ll << 33, 0}, {1ll << 31, 0}}, {{1ll << 40, 0}, {-(1ll << 40), 0}},
    {{0, 0}, {0, 0}}, {{NEW_TIME, 1l << 30}, {NEW_TIME, 0}}};
  char object[64];
  for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
    const struct timespec *pair = low(pairs[i], sizeof pairs[i]);
    const int32_t narrow[4] = {(int32_t)pair[0].tv_sec, (int32_t)pair[0].tv_nsec, (int32_t)pair[1].tv_sec,
                               (int32_t)pair[1].tv_nsec};
    const int64_t padded[4] = {pair[0].tv_sec, pair[0].tv_nsec | 5ll << 32, pair[1].tv_sec, pair[1].tv_nsec};
    const void *narrow_low = low(narrow, sizeof narrow), *padded_low = low(padded, sizeof padded);
    snprintf(object, sizeof object, "times %zu", i);
    show("utimensat f", object, CALL(SYS_utimensat, AT_FDCWD, f, pair, 0));
    show("utimensat fd", object, CALL(SYS_utimensat, FD_READ, NULL, pair, 0));
    show("utimensat missing", object, CALL(SYS_utimensat, AT_FDCWD, missing, pair, 0));
    show("utimensat bad flags", object, CALL(SYS_utimensat, AT_FDCWD, missing, pair, 0x800));
    show("utimensat bad fd", object, CALL(SYS_utimensat, 99, NULL, pair, 0));
    show("utimensat ro", object, CALL(SYS_utimensat, AT_FDCWD, ro, pair, 0));
    show("utimes", object, CALL(SYS_utimes, f, pair));
    show("utimes missing", object, CALL(SYS_utimes, missing, pair));
    show("futimesat", object, CALL(SYS_futimesat, AT_FDCWD, f, pair));
    show("utime", object, CALL(SYS_utime, f, pair));
    show("utimensat/32", object, INT80(I386_UTIMENSAT, (uint32_t)AT_FDCWD, P(f), P(narrow_low), 0));
    show("utimes/32", object, INT80(I386_UTIMES, P(f), P(narrow_low)));
    show("utime/32", object, INT80(I386_UTIME, P(f), P(narrow_low)));
    show("utimensat64/32", object, INT80(I386_UTIMENSAT_TIME64, (uint32_t)AT_FDCWD, P(f), P(pair), 0));
    show("utimensat64/32 padded", object, INT80(I386_UTIMENSAT_TIME64, (uint32_t)AT_FDCWD, P(f), P(padded_low), 0));
  }
  show("utimensat", "f EFAULT", CALL(SYS_utimensat, AT_FDCWD, f, 1, 0));
  show("utimensat", "missing EFAULT", CALL(SYS_utimensat, AT_FDCWD, missing, 1, 0));
  show("utime", "f EFAULT", CALL(SYS_utime, f, 1));
  show("utimes", "f EFAULT", CALL(SYS_utimes, f, 1));
  show("utimensat", "null path", CALL(SYS_utimensat, AT_FDCWD, NULL, new_times, 0));
  show("utimensat", "fd null path empty", CALL(SYS_utimensat, FD_READ, NULL, new_times, EMPTY));
  show("utime", "ro null", CALL(SYS_utime, ro, NULL));
}

static void attributes(void) {
  const char *f = low_text("f"), *missing = low_text("missing");
  static char text[70000];
  memset(text, 'a', sizeof text);
  memcpy(text, "user.", 5);
  text[255] = '\0';
  const char *name_255 = low(text, 256);
  text[255] = 'a';
  text[256] = '\0';
  const char *name_256 = low(text, 257);
  text[256] = 'a';
  const char *large = low(text, sizeof text);
  static const char *const names[] = {"", "user.", "user", "user.new", "other.new", "trusted.new", "security.new",
                                      "security.capability", "system.new", "system.posix_acl_access",
                                      "system.posix_acl_default"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    const char *name = low_text("%s", names[i]);
    show("setxattr f", names[i], CALL(SYS_setxattr, f, name, letter, 1, 0));
    show("setxattr missing", names[i], CALL(SYS_setxattr, missing, name, letter, 1, 0));
    show("removexattr f", names[i], CALL(SYS_removexattr, f, name));
    show("removexattr missing", names[i], CALL(SYS_removexattr, missing, name));
  }
  show("setxattr", "255", CALL(SYS_setxattr, f, name_255, letter, 1, 0));
  show("setxattr", "256", CALL(SYS_setxattr, f, name_256, letter, 1, 0));
  show("removexattr", "256", CALL(SYS_removexattr, f, name_256));
  show("setxattr", "name EFAULT", CALL(SYS_setxattr, f, 1, letter, 1, 0));
  show("setxattr", "value EFAULT", CALL(SYS_setxattr, f, user_new, 1, 1, 0));
  show("setxattr", "value null", CALL(SYS_setxattr, f, user_new, NULL, 0, 0));
  show("setxattr", "value null 1", CALL(SYS_setxattr, f, user_new, NULL, 1, 0));
  static const unsigned long sizes[] = {100, 4000, 65536, 65537, 1ul << 32 | 1, ~0ul};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    char object[32];
    snprintf(object, sizeof object, "size %lu", sizes[i]);
    show("setxattr", object, CALL(SYS_setxattr, f, user_new, large, sizes[i], 0));
    show("setxattr missing", object, CALL(SYS_setxattr, missing, user_new, large, sizes[i], 0));
    show("setxattr/32", object, INT80(I386_SETXATTR, P(f), P(user_new), P(large), (uint32_t)sizes[i], 0));
  }
  static const int flags[] = {XATTR_CREATE, XATTR_REPLACE, XATTR_CREATE | XATTR_REPLACE, 8, -1};
  for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
    char object[32];
    snprintf(object, sizeof object, "flags %d", flags[i]);
    show("setxattr old", object, CALL(SYS_setxattr, f, user_old, letter, 1, flags[i]));
    show("setxattr new", object, CALL(SYS_setxattr, f, user_new, letter, 1, flags[i]));
    show("setxattr missing", object, CALL(SYS_setxattr, missing, user_new, letter, 1, flags[i]));
    show("setxattr EFAULT", object, CALL(SYS_setxattr, f, 1, letter, 1, flags[i]));
  }
  char *stranger = low(acl, ACL_SIZE);
  memcpy(stranger + 16, &(uint32_t){12}, 4);
  show("setxattr", "acl of a stranger", CALL(SYS_setxattr, f, acl_low, stranger, ACL_SIZE, 0));
  show("setxattr", "acl none", CALL(SYS_setxattr, f, acl_low, NULL, 0, 0));
  show("setxattr", "acl short", CALL(SYS_setxattr, f, acl_low, acl, 7, 0));
  show("setxattr", "acl default on d",
       CALL(SYS_setxattr, low_text("d"), low_text("system.posix_acl_default"), acl, ACL_SIZE, 0));
}

static void structures(void) {
  const char *f = low_text("f"), *missing = low_text("missing");
  char *block = low((char[5000]){0}, 5000);
  char object[32];
  memcpy(block, xattr_args, sizeof *xattr_args);
  static const unsigned long sizes[] = {0, 8, 16, 17, 24, 4096, 4097, 1ul << 32 | 16};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    snprintf(object, sizeof object, "args %lu", sizes[i]);
    show("setxattrat", object, CALL(NR_SETXATTRAT, AT_FDCWD, f, 0, user_new, block, sizes[i]));
  }
  block[20] = 1;
  show("setxattrat", "tail", CALL(NR_SETXATTRAT, AT_FDCWD, f, 0, user_new, block, 24));
  show("setxattrat", "EFAULT", CALL(NR_SETXATTRAT, AT_FDCWD, f, 0, user_new, 1, 16));
  show("setxattrat", "flags and EFAULT", CALL(NR_SETXATTRAT, AT_FDCWD, f, 0x800, 1, xattr_args, 16));
  show("removexattrat", "flags and EFAULT", CALL(NR_REMOVEXATTRAT, AT_FDCWD, f, 0x800, 1));
  memset(block, 0, 5000);
  memcpy(block, file_attr, sizeof *file_attr);
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    snprintf(object, sizeof object, "attr %lu", sizes[i]);
    show("file_setattr", object, CALL(NR_FILE_SETATTR, AT_FDCWD, f, block, sizes[i], 0));
    show("file_setattr missing", object, CALL(NR_FILE_SETATTR, AT_FDCWD, missing, block, sizes[i], 0));
  }
  block[30] = 1;
  show("file_setattr", "tail", CALL(NR_FILE_SETATTR, AT_FDCWD, f, block, 32, 0));
  show("file_setattr", "EFAULT", CALL(NR_FILE_SETATTR, AT_FDCWD, f, 1, 24, 0));
  static const int flags[] = {0x10 /* immutable */, 0x20 /* append */, 0x80 /* noatime */, 0};
  for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
    const int *value = low(&(int){flags[i] | (*nodump & ~NODUMP)}, sizeof *value);
    snprintf(object, sizeof object, "%x", (unsigned)flags[i]);
    show("setflags", object, CALL(SYS_ioctl, FD_READ, FS_IOC_SETFLAGS, value));
    show("setflags/32", object, INT80(I386_IOCTL, FD_READ, SETFLAGS_32, P(value)));
  }
}

/* Where the current directory has been removed, or may not be searched. */
static void odd_directories(void) {
  for (int i = 0; i < 2; i++) {
    static const char *const paths[] = {"f", ".", "..", "", "./f"};
    for (size_t j = 0; j < sizeof paths / sizeof paths[0]; j++)
      for (size_t k = 0; k < sizeof path_calls / sizeof path_calls[0]; k++) {
        char object[64];
        if (i == 0 && (mkdir("gone", 0755) || chdir("gone") || rmdir("../gone")))
          die("gone");
        if (i == 1 && (chdir("cwd") || chmod(".", 0)))
          die("cwd");
        long result = path_calls[k].call(AT_FDCWD, low_text("%s", paths[j]));
        if (fchdir(tree_fd))
          die("fchdir");
        if (i == 1 && chmod("cwd", 0755))
          die("cwd");
        tree_set_old(".");
        snprintf(object, sizeof object, "%s %s", i ? "unsearchable" : "removed", paths[j]);
        show(path_calls[k].name, object, result);
        arena_next = arena + (1 << 19);
      }
  }
}

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  tree_enter(argv[2]);
  if (!strcmp(argv[1], "build")) {
    tree_make();
    return 0;
  }
  own = !strcmp(argv[1], "own");
  me = geteuid();
  my_group = getegid();
  arena = arena_next =
      mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
  if (arena == MAP_FAILED)
    die("mmap");
  has_entry_32 = find_entry_32();
  make_values();
  tree_prepare();
  int f, flags = tree_flags("f", &f);
  close(f);
  nodump = low(&(int){flags | NODUMP}, sizeof *nodump);
  ordinary_paths();
  odd_paths();
  directories();
  for (int fd = FD_READ; fd < FD_END; fd++)
    by_descriptor(fd);
  by_descriptor(-1);
  by_descriptor(99);
  by_descriptor(AT_FDCWD);
  modes_and_owners();
  times();
  attributes();
  structures();
  if (own)
    odd_directories();
  return 0;
}
