#include "rules.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <linux/btrfs.h>
#include <linux/fs.h>
#include <linux/fscrypt.h>
#include <linux/fsverity.h>
#include <linux/ioprio.h>
#include <linux/msdos_fs.h>
#include <linux/net.h>
#include <linux/netlink.h>

/* The same constants on every ABI covered here; not all of them are in user-space headers. */
#define SETLEASE 1024
#define SETDELEG 1040
#define ANY_NEW_NAMESPACE                                                                          \
  (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |    \
   CLONE_NEWNET)
#define UNSHARE_HARMLESS                                                                           \
  (CLONE_FS | CLONE_FILES | CLONE_SYSVSEM | CLONE_THREAD | CLONE_SIGHAND | CLONE_VM)
#define PATH_ONLY 010000000
#define WRITE_INTENT (03 | O_CREAT | O_TRUNC)
#define SOCKET_TYPE_BITS 0xf

/* ioctl requests that carry the size of a C long differ between 64-bit and 32-bit callers. */
#define REQUEST32(request) (((request) & ~(0x3fffU << 16)) | (4U << 16))
#define OCFS2_REFLINK _IOW('o', 4, uint64_t[3])
#define EXT4_SETVERSION _IOW('f', 4, uint64_t)
#define JFS_SETFLAGS _IOW('f', 129, uint64_t)
#define ZFS_SETDOSFLAGS _IOW(0x83, 2, uint64_t)

#define ALL 0xffffffffU
#define WHEN_ARG(number, test_op, test_value) {GUARD_##test_op, (number), ALL, (test_value)}
#define WHEN_MASKED(number, test_op, test_mask, test_value)                                        \
  {GUARD_##test_op, (number), (test_mask), (test_value)}

#define DENY(call, error) {call, 0, GUARD_ERRNO(error), {{GUARD_NONE, 0, 0, 0}}}
#define DENY_IN(bits, call, error) {call, bits, GUARD_ERRNO(error), {{GUARD_NONE, 0, 0, 0}}}
#define NOTIFY_IN(bits, call) {call, bits, GUARD_NOTIFY, {{GUARD_NONE, 0, 0, 0}}}
#define IOCTL(value, what) {"ioctl", 0, what, {WHEN_ARG(1, EQUAL, (uint32_t)(value))}}
#define IOCTL_NOTIFY(value)                                                                        \
  {"ioctl", METADATA, GUARD_NOTIFY, {WHEN_ARG(1, EQUAL, (uint32_t)(value))}}
#define IOCTL_TYPE(type)                                                                           \
  {"ioctl", 0, GUARD_ERRNO(EPERM), {WHEN_MASKED(1, EQUAL, 0xff00U, (type) << 8)}}

/* Metadata calls are trapped for both supervisors. */
#define METADATA (GUARD_METADATA | GUARD_OBSERVE)
#define NOAPPEND 0x20 /* RWF_NOAPPEND, Linux 6.9 */
/* Another process or thread: the supervisor knows whether it is one of the command's. */
#define NOTIFY_OTHER(call, pid_argument)                                                           \
  {call, METADATA, GUARD_NOTIFY, {WHEN_ARG(pid_argument, DIFFERENT, 0)}}

/*
 * Not here: what the kernel refuses to everybody without a capability that no confined command has
 * (swapon, acct, kexec, modules, clocks), and bpf, which writes to no file without one. Rules for
 * these would stop nothing, and made the filter a third longer and a tenth slower to install.
 */
const struct guard_rule guard_rules[] = {
  /*
   * Terminal injection. Whoever shares the terminal would run what is pushed into its input.
   */
  IOCTL(TIOCSTI, GUARD_ERRNO(EPERM)),
  IOCTL(TIOCLINUX, GUARD_ERRNO(EPERM)),

  /*
   * ioctl requests that change a file, its attributes or its directory through a descriptor open for
   * reading only, and that Landlock therefore does not see. None is used by ordinary tools.
   */
  IOCTL(FS_IOC_SETVERSION, GUARD_ERRNO(EPERM)),
  IOCTL(REQUEST32(FS_IOC_SETVERSION), GUARD_ERRNO(EPERM)),
  IOCTL(EXT4_SETVERSION, GUARD_ERRNO(EPERM)),
  IOCTL(REQUEST32(EXT4_SETVERSION), GUARD_ERRNO(EPERM)),
  IOCTL(JFS_SETFLAGS, GUARD_ERRNO(EPERM)),
  IOCTL(REQUEST32(JFS_SETFLAGS), GUARD_ERRNO(EPERM)),
  IOCTL(FS_IOC_ENABLE_VERITY, GUARD_ERRNO(EPERM)),
  IOCTL(FS_IOC_SET_ENCRYPTION_POLICY, GUARD_ERRNO(EPERM)),
  IOCTL(FS_IOC_ADD_ENCRYPTION_KEY, GUARD_ERRNO(EPERM)),
  IOCTL(FS_IOC_REMOVE_ENCRYPTION_KEY, GUARD_ERRNO(EPERM)),
  IOCTL(FS_IOC_REMOVE_ENCRYPTION_KEY_ALL_USERS, GUARD_ERRNO(EPERM)),
  IOCTL(FAT_IOCTL_SET_ATTRIBUTES, GUARD_ERRNO(EPERM)),
  IOCTL(OCFS2_REFLINK, GUARD_ERRNO(EPERM)),
  IOCTL(ZFS_SETDOSFLAGS, GUARD_ERRNO(EPERM)),

  /*
   * btrfs makes and deletes subvolumes and snapshots beneath any directory its caller may write to by
   * mode bits, past Landlock's hooks, so its whole request type is closed but for reflink copies and
   * harmless questions. f2fs (0xf5) and bcachefs (0xbc) have the like.
   */
  IOCTL(FICLONE, GUARD_ALLOW),
  IOCTL(FICLONERANGE, GUARD_ALLOW),
  IOCTL(FIDEDUPERANGE, GUARD_ALLOW),
  IOCTL(FS_IOC_GETFSLABEL, GUARD_ALLOW),
  IOCTL(BTRFS_IOC_INO_LOOKUP, GUARD_ALLOW),
  IOCTL(BTRFS_IOC_FS_INFO, GUARD_ALLOW),
  IOCTL(BTRFS_IOC_SUBVOL_GETFLAGS, GUARD_ALLOW),
  IOCTL(BTRFS_IOC_GET_SUBVOL_INFO, GUARD_ALLOW),
  IOCTL_NOTIFY(FS_IOC_SETFLAGS),
  IOCTL_NOTIFY(REQUEST32(FS_IOC_SETFLAGS)),
  IOCTL_NOTIFY(FS_IOC_FSSETXATTR),
  IOCTL_TYPE(0x94U),
  IOCTL_TYPE(0xf5U),
  IOCTL_TYPE(0xbcU),

  /*
   * Keyrings outlive the command and are shared with everything else the user runs. ENOSYS is what a
   * kernel without CONFIG_KEYS says; container runtimes and Kerberos take it as "no keyrings here".
   */
  DENY("add_key", ENOSYS),
  DENY("request_key", ENOSYS),
  DENY("keyctl", ENOSYS),

  /* Opens by number, past every path rule. name_to_handle_at only tells and stays allowed. */
  DENY("open_by_handle_at", EPERM),

  /*
   * A lease or delegation on a readable file makes everybody else's open of it wait. EACCES is what
   * fcntl(2) gives to those who do not own the file.
   */
  {"fcntl", 0, GUARD_ERRNO(EACCES), {WHEN_ARG(1, EQUAL, SETLEASE)}},
  {"fcntl", 0, GUARD_ERRNO(EACCES), {WHEN_ARG(1, EQUAL, SETDELEG)}},
  {"fcntl64", 0, GUARD_ERRNO(EACCES), {WHEN_ARG(1, EQUAL, SETLEASE)}},
  {"fcntl64", 0, GUARD_ERRNO(EACCES), {WHEN_ARG(1, EQUAL, SETDELEG)}},

  /*
   * io_uring does file and socket work that no filter sees. ENOSYS makes libuv and the like use plain
   * calls.
   */
  DENY("io_uring_setup", ENOSYS),
  DENY("io_uring_enter", ENOSYS),
  DENY("io_uring_register", ENOSYS),

  /*
   * Mounts and namespaces could make a read-only tree writable again. EPERM is what the kernel says to
   * a caller without CAP_SYS_ADMIN.
   */
  DENY("mount", EPERM),
  DENY("umount", EPERM),
  DENY("umount2", EPERM),
  DENY("pivot_root", EPERM),
  DENY("chroot", EPERM),
  DENY("open_tree", EPERM),
  DENY("open_tree_attr", EPERM),
  DENY("move_mount", EPERM),
  DENY("fsopen", EPERM),
  DENY("fsconfig", EPERM),
  DENY("fsmount", EPERM),
  DENY("fspick", EPERM),
  DENY("mount_setattr", EPERM),
  DENY("setns", EPERM),
  {"unshare", 0, GUARD_ERRNO(EPERM), {WHEN_ARG(0, ANY_BIT, ~(uint32_t)UNSHARE_HARMLESS)}},
  {"clone", 0, GUARD_ERRNO(EPERM), {WHEN_ARG(0, ANY_BIT, ANY_NEW_NAMESPACE)}},
  /* clone3's flags lie in memory, where no filter can read them; every libc falls back to clone. */
  DENY("clone3", ENOSYS),

  /* A second line to the missing MAKE_BLOCK and MAKE_CHAR rights and CAP_MKNOD. */
  {"mknod", 0, GUARD_ERRNO(EPERM), {WHEN_MASKED(1, EQUAL, S_IFMT, S_IFBLK)}},
  {"mknod", 0, GUARD_ERRNO(EPERM), {WHEN_MASKED(1, EQUAL, S_IFMT, S_IFCHR)}},
  {"mknodat", 0, GUARD_ERRNO(EPERM), {WHEN_MASKED(2, EQUAL, S_IFMT, S_IFBLK)}},
  {"mknodat", 0, GUARD_ERRNO(EPERM), {WHEN_MASKED(2, EQUAL, S_IFMT, S_IFCHR)}},

  /*
   * Sockets. A connected stream or seqpacket pair cannot be pointed at anybody else; a datagram pair can,
   * by an address in memory, and SOCK_RAW means datagram for AF_UNIX. socketcall keeps its arguments in
   * memory, so 32-bit x86 programs lose sockets made that way altogether. Route netlink only tells which
   * addresses there are (getifaddrs) to a caller without CAP_NET_ADMIN.
   */
  {"socket", GUARD_IPC, GUARD_ERRNO(EACCES), {WHEN_ARG(0, EQUAL, AF_UNIX)}},
  {"socket",
   GUARD_NETWORK,
   GUARD_ERRNO(EACCES),
   {WHEN_ARG(0, DIFFERENT, AF_UNIX), WHEN_ARG(0, DIFFERENT, AF_NETLINK)}},
  {"socket",
   GUARD_NETWORK,
   GUARD_ERRNO(EACCES),
   {WHEN_ARG(0, EQUAL, AF_NETLINK), WHEN_ARG(2, DIFFERENT, NETLINK_ROUTE)}},
  {"socketpair", GUARD_NETWORK, GUARD_ERRNO(EACCES), {WHEN_ARG(0, DIFFERENT, AF_UNIX)}},
  {"socketpair",
   GUARD_IPC,
   GUARD_ERRNO(EACCES),
   {WHEN_ARG(0, EQUAL, AF_UNIX), WHEN_MASKED(1, DIFFERENT, SOCKET_TYPE_BITS, SOCK_STREAM),
    WHEN_MASKED(1, DIFFERENT, SOCKET_TYPE_BITS, SOCK_SEQPACKET)}},
  {"socketcall", GUARD_IPC | GUARD_NETWORK, GUARD_ERRNO(EACCES), {WHEN_ARG(0, EQUAL, SYS_SOCKET)}},
  {"socketcall",
   GUARD_IPC | GUARD_NETWORK,
   GUARD_ERRNO(EACCES),
   {WHEN_ARG(0, EQUAL, SYS_SOCKETPAIR)}},
  {"socketcall", GUARD_OBSERVE, GUARD_NOTIFY, {WHEN_ARG(0, EQUAL, SYS_BIND)}},

  /* System V and POSIX IPC, for runners that have no IPC namespace. */
  DENY_IN(GUARD_IPC_OBJECTS, "ipc", EACCES),
  DENY_IN(GUARD_IPC_OBJECTS, "shmget", EACCES),
  DENY_IN(GUARD_IPC_OBJECTS, "shmat", EACCES),
  DENY_IN(GUARD_IPC_OBJECTS, "shmctl", EACCES),
  DENY_IN(GUARD_IPC_OBJECTS, "semget", EACCES),
  DENY_IN(GUARD_IPC_OBJECTS, "semop", EACCES),
  DENY_IN(GUARD_IPC_OBJECTS, "semctl", EACCES),
  DENY_IN(GUARD_IPC_OBJECTS, "semtimedop", EACCES),
  DENY_IN(GUARD_IPC_OBJECTS, "semtimedop_time64", EACCES),
  DENY_IN(GUARD_IPC_OBJECTS, "msgget", EACCES),
  DENY_IN(GUARD_IPC_OBJECTS, "msgsnd", EACCES),
  DENY_IN(GUARD_IPC_OBJECTS, "msgrcv", EACCES),
  DENY_IN(GUARD_IPC_OBJECTS, "msgctl", EACCES),
  DENY_IN(GUARD_IPC_OBJECTS, "mq_open", EACCES),
  DENY_IN(GUARD_IPC_OBJECTS, "mq_unlink", EACCES),

  /* Metadata: no Landlock right covers these; the supervisor performs or refuses them. */
  NOTIFY_IN(METADATA, "chmod"),
  NOTIFY_IN(METADATA, "fchmod"),
  NOTIFY_IN(METADATA, "fchmodat"),
  NOTIFY_IN(METADATA, "fchmodat2"),
  NOTIFY_IN(METADATA, "chown"),
  NOTIFY_IN(METADATA, "lchown"),
  NOTIFY_IN(METADATA, "fchown"),
  NOTIFY_IN(METADATA, "chown32"),
  NOTIFY_IN(METADATA, "lchown32"),
  NOTIFY_IN(METADATA, "fchown32"),
  NOTIFY_IN(METADATA, "fchownat"),
  NOTIFY_IN(METADATA, "utime"),
  NOTIFY_IN(METADATA, "utimes"),
  NOTIFY_IN(METADATA, "futimesat"),
  NOTIFY_IN(METADATA, "utimensat"),
  NOTIFY_IN(METADATA, "utimensat_time64"),
  NOTIFY_IN(METADATA, "setxattr"),
  NOTIFY_IN(METADATA, "lsetxattr"),
  NOTIFY_IN(METADATA, "fsetxattr"),
  NOTIFY_IN(METADATA, "setxattrat"),
  NOTIFY_IN(METADATA, "removexattr"),
  NOTIFY_IN(METADATA, "lremovexattr"),
  NOTIFY_IN(METADATA, "fremovexattr"),
  NOTIFY_IN(METADATA, "removexattrat"),
  NOTIFY_IN(METADATA, "file_setattr"),
  /* Allowed; the supervisor only needs to know that groups are no longer those it started with. */
  NOTIFY_IN(METADATA, "setgroups"),
  NOTIFY_IN(METADATA, "setgroups32"),

  /*
   * Limits and priorities of processes outside. By group or user they would reach those in any case.
   */
  {"setpriority", METADATA, GUARD_ERRNO(EPERM), {WHEN_ARG(0, DIFFERENT, PRIO_PROCESS)}},
  NOTIFY_OTHER("setpriority", 1),
  {"ioprio_set", METADATA, GUARD_ERRNO(EPERM), {WHEN_ARG(0, DIFFERENT, IOPRIO_WHO_PROCESS)}},
  NOTIFY_OTHER("ioprio_set", 1),
  NOTIFY_OTHER("prlimit64", 0),
  NOTIFY_OTHER("sched_setaffinity", 0),
  NOTIFY_OTHER("sched_setattr", 0),
  NOTIFY_OTHER("sched_setparam", 0),
  NOTIFY_OTHER("sched_setscheduler", 0),

  /*
   * A standard stream that is a file outside may be written as it was opened, but not emptied, nor may
   * what was there before be written over by a stream that appends.
   */
  NOTIFY_IN(GUARD_STREAMS, "ftruncate"),
  NOTIFY_IN(GUARD_STREAMS, "ftruncate64"),
  NOTIFY_IN(GUARD_STREAMS, "fallocate"),
  {"fcntl", GUARD_STREAMS, GUARD_NOTIFY, {WHEN_ARG(1, EQUAL, F_SETFL), WHEN_ARG(2, NO_BIT, O_APPEND)}},
  {"fcntl64", GUARD_STREAMS, GUARD_NOTIFY, {WHEN_ARG(1, EQUAL, F_SETFL), WHEN_ARG(2, NO_BIT, O_APPEND)}},
  {"pwritev2", GUARD_STREAMS, GUARD_ERRNO(EOPNOTSUPP), {WHEN_ARG(5, ANY_BIT, NOAPPEND)}},

  /*
   * The observer's traps: calls with write intent. An open for reading is decided here by its flags;
   * O_PATH makes the kernel ignore the others. openat2's flags lie in memory.
   */
  {"open",
   GUARD_OBSERVE,
   GUARD_NOTIFY,
   {WHEN_ARG(1, ANY_BIT, WRITE_INTENT), WHEN_ARG(1, NO_BIT, PATH_ONLY)}},
  {"openat",
   GUARD_OBSERVE,
   GUARD_NOTIFY,
   {WHEN_ARG(2, ANY_BIT, WRITE_INTENT), WHEN_ARG(2, NO_BIT, PATH_ONLY)}},
  NOTIFY_IN(GUARD_OBSERVE, "openat2"),
  NOTIFY_IN(GUARD_OBSERVE, "creat"),
  NOTIFY_IN(GUARD_OBSERVE, "truncate"),
  NOTIFY_IN(GUARD_OBSERVE, "truncate64"),
  NOTIFY_IN(GUARD_OBSERVE, "unlink"),
  NOTIFY_IN(GUARD_OBSERVE, "unlinkat"),
  NOTIFY_IN(GUARD_OBSERVE, "rmdir"),
  NOTIFY_IN(GUARD_OBSERVE, "rename"),
  NOTIFY_IN(GUARD_OBSERVE, "renameat"),
  NOTIFY_IN(GUARD_OBSERVE, "renameat2"),
  NOTIFY_IN(GUARD_OBSERVE, "link"),
  NOTIFY_IN(GUARD_OBSERVE, "linkat"),
  NOTIFY_IN(GUARD_OBSERVE, "symlink"),
  NOTIFY_IN(GUARD_OBSERVE, "symlinkat"),
  NOTIFY_IN(GUARD_OBSERVE, "mkdir"),
  NOTIFY_IN(GUARD_OBSERVE, "mkdirat"),
  NOTIFY_IN(GUARD_OBSERVE, "mknod"),
  NOTIFY_IN(GUARD_OBSERVE, "mknodat"),
  NOTIFY_IN(GUARD_OBSERVE, "bind"),
};

const size_t guard_rules_count = sizeof guard_rules / sizeof guard_rules[0];

_Static_assert(sizeof guard_rules / sizeof guard_rules[0] <= GUARD_RULES_MAX,
               "more rules than GUARD_RULES_MAX");
