/*
 * Shared by the inside halves. Everything returns what the system call would: 0 or more, or -1
 * with errno.
 */
#ifndef ESCAPE_INSIDE_H
#define ESCAPE_INSIDE_H

#include "abi.h"
#include "technique.h"

#if defined(__x86_64__)
#define ESCAPE_HAS_INT80 1
#endif

#define ESCAPE_ASK "escape: please write" /* what an outside daemon acts on */
#define ESCAPE_GIVE "escape: please give" /* what it answers with a descriptor */

#define ATTEMPT(name) static int name(struct escape_ctx *c)

/* Path below the victim or the workspace; a static buffer each, four in rotation. */
char *escape_in(const char *dir, const char *name);

/* Opens for writing by path and writes; with flags added to O_WRONLY. */
int escape_scribble(const char *path, int flags);
/* The last step of a trick that opened the way: writes to victim/file and makes victim/new. */
int escape_write_victim(struct escape_ctx *c);
/* Opens /proc/self/fd/FD again for writing and writes. */
int escape_reopen(int fd, int flags);

/* 64-bit call by the i386 entry; pointers must come from escape_low. ENOSYS elsewhere. */
long escape_int80(long nr, const long arg[6]);
#define INT80(nr, ...) escape_int80(nr, (const long[6]){__VA_ARGS__})
/* A copy below 4 GiB, as the number the i386 entry wants; 0 with errno on failure. */
long escape_low(const void *data, size_t size);
long escape_low_str(const char *text);

/* One io_uring request on a ring of its own; result of the operation. */
int escape_uring(const struct abi_sqe *sqe);

/* Connects or sends the request to an address; SOCK_DGRAM sends, others connect and send. */
int escape_ask(int family, int type, int protocol, const void *addr, size_t size);
/* Runs a program to its end; the environment passes. Exit status or -1. */
int escape_exec_wait(const char *const argv[]);
/* Whether this process is in another mount namespace than the driver (num[5]). */
bool escape_own_mounts(struct escape_ctx *c);
/* Takes on a mount namespace of its own if it has not one yet; never touches the host's. */
int escape_take_mounts(struct escape_ctx *c, bool with_user_namespace);

#endif
