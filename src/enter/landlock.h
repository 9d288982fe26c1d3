/* Landlock's interface as far as the newest ABI known here (Documentation/userspace-api/landlock.rst).
 * A newer kernel is used as the newest known one. */
#ifndef CONFINE_ENTER_LANDLOCK_H
#define CONFINE_ENTER_LANDLOCK_H

#include <stdint.h>

#define LANDLOCK_FS_EXECUTE (1ull << 0)
#define LANDLOCK_FS_WRITE_FILE (1ull << 1)
#define LANDLOCK_FS_READ_FILE (1ull << 2)
#define LANDLOCK_FS_READ_DIR (1ull << 3)
#define LANDLOCK_FS_REMOVE_DIR (1ull << 4)
#define LANDLOCK_FS_REMOVE_FILE (1ull << 5)
#define LANDLOCK_FS_MAKE_CHAR (1ull << 6)
#define LANDLOCK_FS_MAKE_DIR (1ull << 7)
#define LANDLOCK_FS_MAKE_REG (1ull << 8)
#define LANDLOCK_FS_MAKE_SOCK (1ull << 9)
#define LANDLOCK_FS_MAKE_FIFO (1ull << 10)
#define LANDLOCK_FS_MAKE_BLOCK (1ull << 11)
#define LANDLOCK_FS_MAKE_SYM (1ull << 12)
#define LANDLOCK_FS_REFER (1ull << 13)     /* ABI 2 */
#define LANDLOCK_FS_TRUNCATE (1ull << 14)  /* ABI 3 */
#define LANDLOCK_FS_IOCTL_DEV (1ull << 15) /* ABI 5 */

#define LANDLOCK_NET_BIND_TCP (1ull << 0)    /* ABI 4 */
#define LANDLOCK_NET_CONNECT_TCP (1ull << 1) /* ABI 4 */

#define LANDLOCK_SCOPE_ABSTRACT_UNIX (1ull << 0) /* ABI 6 */
#define LANDLOCK_SCOPE_SIGNALS (1ull << 1)       /* ABI 6 */

#define LANDLOCK_VERSION_FLAG 1u
#define LANDLOCK_PATH_BENEATH 1

/* The ABI from which every filesystem right exists; below it enforcement is partial. */
#define LANDLOCK_ABI_FULL 5

struct landlock_ruleset {
  uint64_t handled_fs, handled_net, scoped;
};

struct landlock_beneath {
  uint64_t allowed;
  int32_t parent_fd;
} __attribute__((packed));

/* The filesystem rights an ABI knows. */
static inline uint64_t landlock_rights(int abi) {
  uint64_t rights = (LANDLOCK_FS_MAKE_SYM << 1) - 1;
  if (abi >= 2)
    rights |= LANDLOCK_FS_REFER;
  if (abi >= 3)
    rights |= LANDLOCK_FS_TRUNCATE;
  if (abi >= 5)
    rights |= LANDLOCK_FS_IOCTL_DEV;
  return rights;
}

#endif
