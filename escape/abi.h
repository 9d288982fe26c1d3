/*
 * Kernel numbers and layouts that musl's headers lack; all from the kernel's user API headers
 * (include/uapi) and the system call tables. Numbers from 424 up are the same on every
 * architecture.
 */
#ifndef ESCAPE_ABI_H
#define ESCAPE_ABI_H

#include <stdint.h>
#include <sys/syscall.h>

#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#ifndef SYS_io_uring_setup
#define SYS_io_uring_setup 425
#define SYS_io_uring_enter 426
#endif
#ifndef SYS_open_tree
#define SYS_open_tree 428
#define SYS_move_mount 429
#endif
#ifndef SYS_fsopen
#define SYS_fsopen 430
#define SYS_fsconfig 431
#define SYS_fsmount 432
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef SYS_openat2
#define SYS_openat2 437
#define SYS_pidfd_getfd 438
#endif
#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif
#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#ifndef SYS_setxattrat
#define SYS_setxattrat 463
#define SYS_removexattrat 466
#define SYS_open_tree_attr 467
#endif
#ifndef SYS_file_setattr
#define SYS_file_getattr 468
#define SYS_file_setattr 469
#endif

/* i386 numbers, for the 32-bit entry */
enum {
  I386_open = 5,
  I386_link = 9,
  I386_unlink = 10,
  I386_chmod = 15,
  I386_mount = 21,
  I386_ptrace = 26,
  I386_utime = 30,
  I386_kill = 37,
  I386_rename = 38,
  I386_mkdir = 39,
  I386_ioctl = 54,
  I386_symlink = 83,
  I386_truncate = 92,
  I386_socketcall = 102,
  I386_chown32 = 212,
  I386_setxattr = 226,
  I386_fsetxattr = 228,
  I386_utimes = 271,
  I386_keyctl = 288,
  I386_unshare = 310
};
enum { X32_BIT = 0x40000000 };

struct abi_open_how {
  uint64_t flags, mode, resolve;
};
struct abi_xattr_args {
  uint64_t value;
  uint32_t size, flags;
};
struct abi_file_attr {
  uint64_t xflags;
  uint32_t extsize, nextents, projid, cowextsize;
};
struct abi_fsxattr {
  uint32_t xflags, extsize, nextents, projid, cowextsize;
  unsigned char pad[8];
};
struct abi_mount_attr {
  uint64_t set, clear, propagation, userns_fd;
};

#define ABI_FS_IOC_GETFLAGS 0x80086601UL
#define ABI_FS_IOC_SETFLAGS 0x40086602UL
#define ABI_FS_IOC32_SETFLAGS 0x40046602UL
#define ABI_FS_IOC_FSGETXATTR 0x801c581fUL
#define ABI_FS_IOC_FSSETXATTR 0x401c5820UL
enum { ABI_FS_IMMUTABLE_FL = 0x10, ABI_FS_NODUMP_FL = 0x40, ABI_FS_NOATIME_FL = 0x80 };
enum { ABI_FS_XFLAG_NODUMP = 0x80 };

enum { ABI_MOUNT_ATTR_RDONLY = 1, ABI_AT_RECURSIVE = 0x8000 };
enum { ABI_OPEN_TREE_CLONE = 1, ABI_MOVE_MOUNT_F_EMPTY_PATH = 4 };
enum { ABI_RENAME_EXCHANGE = 2 };

#define ABI_LOOP_SET_FD 0x4C00UL
#define ABI_LOOP_CLR_FD 0x4C01UL
#define ABI_LOOP_CTL_ADD 0x4C80UL
#define ABI_LOOP_CTL_REMOVE 0x4C81UL
#define ABI_LOOP_CTL_GET_FREE 0x4C82UL
enum { ABI_LOOP_MAJOR = 7 };

#define ABI_TIOCSTI 0x5412UL
#define ABI_TIOCLINUX 0x541CUL
#define ABI_TIOCSETD 0x5423UL
#define ABI_TIOCGETD 0x5424UL
#define ABI_TIOCGPTN 0x80045430UL
#define ABI_TIOCSPTLCK 0x40045431UL
enum { ABI_N_NULL = 27 };

#define ABI_TUNSETIFF 0x400454caUL
#define ABI_TUNSETPERSIST 0x400454cbUL
enum { ABI_IFF_TUN = 1, ABI_IFF_NO_PI = 0x1000 };

enum { ABI_KEY_USER_KEYRING = -4, ABI_KEY_SESSION_KEYRING = -3 };
enum {
  ABI_KEYCTL_UPDATE = 2,
  ABI_KEYCTL_REVOKE = 3,
  ABI_KEYCTL_SETPERM = 5,
  ABI_KEYCTL_LINK = 8,
  ABI_KEYCTL_UNLINK = 9,
  ABI_KEYCTL_SEARCH = 10,
  ABI_KEYCTL_READ = 11
};

struct abi_sqe {
  uint8_t opcode, flags;
  uint16_t ioprio;
  int32_t fd;
  uint64_t off, addr;
  uint32_t len, op_flags;
  uint64_t user_data;
  uint16_t buf_index, personality;
  int32_t file_index;
  uint64_t addr3, pad;
};
struct abi_cqe {
  uint64_t user_data;
  int32_t res;
  uint32_t flags;
};
struct abi_uring_params {
  uint32_t sq_entries, cq_entries, flags, sq_thread_cpu, sq_thread_idle, features, wq_fd, resv[3];
  struct {
    uint32_t head, tail, ring_mask, ring_entries, flags, dropped, array, resv1;
    uint64_t user_addr;
  } sq_off;
  struct {
    uint32_t head, tail, ring_mask, ring_entries, overflow, cqes, flags, resv1;
    uint64_t user_addr;
  } cq_off;
};
enum {
  ABI_IORING_OP_CONNECT = 16,
  ABI_IORING_OP_FALLOCATE = 17,
  ABI_IORING_OP_OPENAT = 18,
  ABI_IORING_OP_WRITE = 23,
  ABI_IORING_OP_RENAMEAT = 35,
  ABI_IORING_OP_UNLINKAT = 36,
  ABI_IORING_OP_MKDIRAT = 37,
  ABI_IORING_OP_SYMLINKAT = 38,
  ABI_IORING_OP_LINKAT = 39,
  ABI_IORING_OP_FSETXATTR = 41,
  ABI_IORING_OP_SETXATTR = 42
};

#endif
