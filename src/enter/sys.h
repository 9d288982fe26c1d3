/*
 * Raw system calls for code that runs between clone(2) and execve(2), or in a process that shares its
 * memory with a caller: such code must touch neither errno nor any other libc state. Every function
 * returns the kernel's value: zero or more, or a negated errno. No locks, no allocation; safe in any
 * thread and in a vfork child.
 */
#ifndef CONFINE_ENTER_SYS_H
#define CONFINE_ENTER_SYS_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>

#if defined(__x86_64__)
static inline long sys_call6(long number, long a, long b, long c, long d, long e, long f) {
  long result;
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
}
#elif defined(__aarch64__)
static inline long sys_call6(long number, long a, long b, long c, long d, long e, long f) {
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  register long x4 __asm__("x4") = e;
  register long x5 __asm__("x5") = f;
  __asm__ volatile("svc 0"
                   : "+r"(x0)
                   : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                   : "memory", "cc");
  return x0;
}
#else
#error "confine's Linux runners are written for x86_64 and aarch64"
#endif

#define SYS_PICK(_0, _1, _2, _3, _4, _5, _6, name, ...) name
#define SYS_0(n) sys_call6((n), 0, 0, 0, 0, 0, 0)
#define SYS_1(n, a) sys_call6((n), (long)(a), 0, 0, 0, 0, 0)
#define SYS_2(n, a, b) sys_call6((n), (long)(a), (long)(b), 0, 0, 0, 0)
#define SYS_3(n, a, b, c) sys_call6((n), (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define SYS_4(n, a, b, c, d) sys_call6((n), (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)
#define SYS_5(n, a, b, c, d, e) \
  sys_call6((n), (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), 0)
#define SYS_6(n, a, b, c, d, e, f) \
  sys_call6((n), (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
/* sys(number, up to six arguments) */
#define sys(...) SYS_PICK(__VA_ARGS__, SYS_6, SYS_5, SYS_4, SYS_3, SYS_2, SYS_1, SYS_0, 0)(__VA_ARGS__)

/* Numbers and constants newer than the oldest supported headers (Linux 6.1). All but the old ones are
 * the same on every architecture (Documentation/process/adding-syscalls.rst). */
#ifndef __NR_pidfd_send_signal
#define __NR_pidfd_send_signal 424
#endif
#ifndef __NR_open_tree
#define __NR_open_tree 428
#endif
#ifndef __NR_move_mount
#define __NR_move_mount 429
#endif
#ifndef __NR_pidfd_open
#define __NR_pidfd_open 434
#endif
#ifndef __NR_close_range
#define __NR_close_range 436
#endif
#ifndef __NR_openat2
#define __NR_openat2 437
#endif
#ifndef __NR_mount_setattr
#define __NR_mount_setattr 442
#endif
#ifndef __NR_landlock_create_ruleset
#define __NR_landlock_create_ruleset 444
#endif
#ifndef __NR_landlock_add_rule
#define __NR_landlock_add_rule 445
#endif
#ifndef __NR_landlock_restrict_self
#define __NR_landlock_restrict_self 446
#endif

/* open_tree(2), move_mount(2), mount_setattr(2) */
#define SYS_OPEN_TREE_CLONE 1
#define SYS_OPEN_TREE_CLOEXEC O_CLOEXEC
#define SYS_AT_EMPTY_PATH 0x1000
#define SYS_AT_RECURSIVE 0x8000
#define SYS_MOVE_MOUNT_F_EMPTY_PATH 0x4
#define SYS_MOVE_MOUNT_T_EMPTY_PATH 0x40
#define SYS_MOUNT_ATTR_RDONLY 0x1
#define SYS_MOUNT_ATTR_NOSUID 0x2
#define SYS_MOUNT_ATTR_NODEV 0x4
#define SYS_MOUNT_ATTR_NOEXEC 0x8
#define SYS_MS_RDONLY 0x1
#define SYS_MS_NOSUID 0x2
#define SYS_MS_NODEV 0x4
#define SYS_MS_NOEXEC 0x8
#define SYS_MNT_DETACH 2
#define SYS_MS_PRIVATE (1 << 18)
#define SYS_CLOSE_RANGE_UNSHARE 2

struct sys_mount_attr {
  uint64_t attr_set, attr_clr, propagation, userns_fd;
};

#define SYS_PIDFD_THREAD O_EXCL /* pidfd_open(2), Linux 6.9 */
#define SYS_WALL 0x40000000 /* wait4(2): children of any kind */

/* openat2(2) */
#define SYS_RESOLVE_NO_MAGICLINKS 0x02
#define SYS_RESOLVE_NO_SYMLINKS 0x04
#define SYS_RESOLVE_BENEATH 0x08

struct sys_open_how {
  uint64_t flags, mode, resolve;
};

/* clone(2) */
#define SYS_CLONE_VM 0x00000100
#define SYS_CLONE_FS 0x00000200
#define SYS_CLONE_FILES 0x00000400
#define SYS_CLONE_SIGHAND 0x00000800
#define SYS_CLONE_VFORK 0x00004000
#define SYS_CLONE_THREAD 0x00010000
#define SYS_CLONE_NEWNS 0x00020000
#define SYS_CLONE_NEWIPC 0x08000000
#define SYS_CLONE_NEWUSER 0x10000000
#define SYS_CLONE_NEWPID 0x20000000
#define SYS_CLONE_NEWNET 0x40000000

static inline long sys_openat(int dir, const char *path, int flags, mode_t mode) {
  return sys(__NR_openat, dir, path, flags, mode);
}

static inline long sys_close(int fd) {
  return sys(__NR_close, fd);
}

static inline long sys_openat2(int dir, const char *path, uint64_t flags, uint64_t resolve) {
  struct sys_open_how how = {.flags = flags, .mode = 0, .resolve = resolve};
  return sys(__NR_openat2, dir, path, &how, sizeof how);
}

static inline _Noreturn void sys_exit(int code) {
  for (;;)
    sys(__NR_exit_group, code);
}

/* Milliseconds on the monotonic clock. */
static inline int64_t sys_now_ms(void) {
  struct timespec now;
  sys(__NR_clock_gettime, CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000ll + now.tv_nsec / 1000000;
}

/* An optimiser may turn loops into calls of libc's own functions; these are small enough not to matter. */
static inline size_t sys_strlen(const char *s) {
  size_t n = 0;
  while (s[n])
    n++;
  return n;
}

static inline int sys_streq(const char *a, const char *b) {
  while (*a && *a == *b) {
    a++;
    b++;
  }
  return *a == *b;
}

/* Writes the decimal digits of value and a final zero byte into out (21 bytes are always enough) and
 * returns their count. */
static inline size_t sys_decimal(uint64_t value, char *out) {
  char reversed[20];
  size_t n = 0;
  do {
    reversed[n++] = (char)('0' + value % 10);
    value /= 10;
  } while (value);
  for (size_t i = 0; i < n; i++)
    out[i] = reversed[n - 1 - i];
  out[n] = '\0';
  return n;
}

/* True if path is dir itself or lies below it; both canonical. */
static inline int sys_path_beneath(const char *path, const char *dir) {
  size_t n = sys_strlen(dir);
  for (size_t i = 0; i < n; i++)
    if (path[i] != dir[i])
      return 0;
  return path[n] == '\0' || path[n] == '/' || (n > 0 && dir[n - 1] == '/');
}

#endif
