/* What the observer has seen refused: filled by the monitor, in memory its caller gave it, and read by that
 * caller when the command has ended. */
#ifndef CONFINE_MONITOR_DENIALS_H
#define CONFINE_MONITOR_DENIALS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Different denials kept; further ones are only counted. */
#define CONFINE__DENIALS_MAX 256
/* Bytes of all their paths together. */
#define CONFINE__DENIAL_NAMES_MAX (256 * 1024)

/* Numbers go over the status channel. */
enum confine__operation {
  CONFINE__OPERATION_OPEN = 1,
  CONFINE__OPERATION_CREATE = 2,
  CONFINE__OPERATION_TRUNCATE = 3,
  CONFINE__OPERATION_UNLINK = 4,
  CONFINE__OPERATION_RMDIR = 5,
  CONFINE__OPERATION_RENAME = 6,
  CONFINE__OPERATION_LINK = 7,
  CONFINE__OPERATION_SYMLINK = 8,
  CONFINE__OPERATION_MKDIR = 9,
  CONFINE__OPERATION_MKNOD = 10,
  CONFINE__OPERATION_BIND = 11,
  CONFINE__OPERATION_CHMOD = 12,
  CONFINE__OPERATION_CHOWN = 13,
  CONFINE__OPERATION_UTIMES = 14,
  CONFINE__OPERATION_XATTR = 15,
  CONFINE__OPERATION_FLAGS = 16,
  CONFINE__OPERATION_LAST = CONFINE__OPERATION_FLAGS,
};

struct confine__denial {
  int32_t operation, error; /* enum confine__operation; errno the runner answers with */
  int32_t pid;              /* of the first */
  char comm[16];            /* with a zero byte */
  uint64_t count;
  uint32_t path, path_length; /* offset into names; without the zero byte that follows */
};

struct confine__denials {
  size_t count, names_used;
  uint64_t dropped; /* further denials, each time one happened */
  struct confine__denial entries[CONFINE__DENIALS_MAX];
  char names[CONFINE__DENIAL_NAMES_MAX];
};

/* Adds one, or counts an equal one again. Raw: no libc. */
void confine__denials_add(struct confine__denials *denials, const struct confine__denial *denial, const char *path,
                          size_t length);

#endif
