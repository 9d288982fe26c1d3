/*
 * Messages to an outside daemon that writes a file when asked, over unix sockets and FIFOs, and
 * descriptors that it hands out; and objects of System V and POSIX IPC that an outside process made.
 */
#define _GNU_SOURCE
#include "families.h"
#include "inside.h"
#include "outside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* unix sockets */

static int unix_daemon(struct escape_ctx *c, int type, bool abstract)
{
  struct sockaddr_un addr = {.sun_family = AF_UNIX};
  socklen_t size = sizeof addr;

  if (abstract) {
    snprintf(c->text, sizeof c->text, "confine-escape-%d", (int)getpid());
    memcpy(addr.sun_path + 1, c->text, strlen(c->text));
    size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(c->text));
  } else {
    snprintf(c->text, sizeof c->text, "%s", escape_in(c->victim, "socket"));
    if (strlen(c->text) >= sizeof addr.sun_path)
      return escape_not_here(c, "the scratch folder's name is too long for a socket");
    memcpy(addr.sun_path, c->text, strlen(c->text));
  }
  int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
  if (fd < 0 || bind(fd, (const struct sockaddr *)&addr, size) < 0)
    return -errno;
  if (type != SOCK_DGRAM && listen(fd, 8) < 0)
    return -errno;
  c->sockets[0] = fd;
  return escape_helper(c, escape_serve);
}

static socklen_t unix_address(struct escape_ctx *c, bool abstract, struct sockaddr_un *addr)
{
  size_t size = strlen(c->text);

  memset(addr, 0, sizeof *addr);
  addr->sun_family = AF_UNIX;
  memcpy(addr->sun_path + (abstract ? 1 : 0), c->text, size);
  return abstract ? (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + size)
                  : (socklen_t)sizeof *addr;
}

static int unix_ask(struct escape_ctx *c, int type, bool abstract)
{
  struct sockaddr_un addr;
  socklen_t size = unix_address(c, abstract, &addr);

  return escape_ask(AF_UNIX, type, 0, &addr, size);
}

PREPARE(p_path_stream)
{
  return unix_daemon(c, SOCK_STREAM, false);
}

PREPARE(p_path_dgram)
{
  return unix_daemon(c, SOCK_DGRAM, false);
}

PREPARE(p_path_seqpacket)
{
  return unix_daemon(c, SOCK_SEQPACKET, false);
}

PREPARE(p_abstract_stream)
{
  return unix_daemon(c, SOCK_STREAM, true);
}

PREPARE(p_abstract_dgram)
{
  return unix_daemon(c, SOCK_DGRAM, true);
}

ATTEMPT(a_path_stream)
{
  return unix_ask(c, SOCK_STREAM, false);
}

ATTEMPT(a_path_dgram)
{
  return unix_ask(c, SOCK_DGRAM, false);
}

ATTEMPT(a_path_seqpacket)
{
  return unix_ask(c, SOCK_SEQPACKET, false);
}

ATTEMPT(a_abstract_stream)
{
  return unix_ask(c, SOCK_STREAM, true);
}

ATTEMPT(a_abstract_dgram)
{
  return unix_ask(c, SOCK_DGRAM, true);
}

/* socketpair gives a datagram socket without socket(); an unconnected peer can be addressed */
static int pair_send(struct escape_ctx *c, bool abstract)
{
  struct sockaddr_un addr;
  socklen_t size = unix_address(c, abstract, &addr);
  int pair[2];

  if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) < 0)
    return -1;
  ssize_t n = sendto(pair[0], ESCAPE_ASK, sizeof ESCAPE_ASK, MSG_NOSIGNAL,
                     (const struct sockaddr *)&addr, size);
  return n > 0 ? 0 : -1;
}

ATTEMPT(a_pair_path)
{
  return pair_send(c, false);
}

ATTEMPT(a_pair_abstract)
{
  return pair_send(c, true);
}

ATTEMPT(a_path_fd)
{
  struct sockaddr_un addr = {.sun_family = AF_UNIX};

  snprintf(addr.sun_path, sizeof addr.sun_path, "/proc/self/fd/%d/socket",
           open(c->victim, O_PATH | O_CLOEXEC));
  return escape_ask(AF_UNIX, SOCK_STREAM, 0, &addr, sizeof addr);
}

ATTEMPT(a_path_int80)
{
  struct sockaddr_un addr;
  unix_address(c, false, &addr);
  const uint32_t open_args[3] = {AF_UNIX, SOCK_STREAM, 0};
  long fd = INT80(I386_socketcall, 1, escape_low(open_args, sizeof open_args));
  if (fd < 0)
    return -1;
  const uint32_t connect_args[3] = {(uint32_t)fd, (uint32_t)escape_low(&addr, sizeof addr),
                                    sizeof addr};
  if (INT80(I386_socketcall, 3, escape_low(connect_args, sizeof connect_args)) < 0)
    return -1;
  return write((int)fd, ESCAPE_ASK, sizeof ESCAPE_ASK) > 0 ? 0 : -1;
}

ATTEMPT(a_path_uring)
{
  struct sockaddr_un addr;
  socklen_t size = unix_address(c, false, &addr);
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  const struct abi_sqe sqe = {
      .opcode = ABI_IORING_OP_CONNECT, .fd = fd, .addr = (uintptr_t)&addr, .off = size};

  if (fd < 0 || escape_uring(&sqe) < 0)
    return -1;
  return write(fd, ESCAPE_ASK, sizeof ESCAPE_ASK) > 0 ? 0 : -1;
}

/* descriptors handed in by an outside daemon */

static int take(struct escape_ctx *c, bool abstract)
{
  struct sockaddr_un addr;
  socklen_t size = unix_address(c, abstract, &addr);
  const struct timeval second = {1, 0};
  union {
    struct cmsghdr head;
    char room[CMSG_SPACE(sizeof(int))];
  } control;
  char byte;
  struct iovec iov = {&byte, 1};
  struct msghdr m;
  int fd = socket(AF_UNIX, SOCK_STREAM, 0), taken;

  memset(&m, 0, sizeof m);
  m.msg_iov = &iov;
  m.msg_iovlen = 1;
  m.msg_control = &control;
  m.msg_controllen = sizeof control;
  if (fd < 0 || connect(fd, (const struct sockaddr *)&addr, size) < 0 ||
      setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second) < 0 ||
      send(fd, ESCAPE_GIVE, sizeof ESCAPE_GIVE, MSG_NOSIGNAL) < 0 || recvmsg(fd, &m, 0) < 1)
    return -1;
  const struct cmsghdr *h = CMSG_FIRSTHDR(&m);
  if (!h || h->cmsg_type != SCM_RIGHTS) {
    errno = EBADF;
    return -1;
  }
  memcpy(&taken, CMSG_DATA(h), sizeof taken);
  return taken;
}

static int giving(struct escape_ctx *c, bool abstract, bool directory)
{
  int rc;

  c->give = open(directory ? c->victim : escape_in(c->victim, "given"),
                 directory ? O_RDONLY | O_DIRECTORY | O_CLOEXEC : O_WRONLY | O_CREAT | O_CLOEXEC,
                 0644);
  if (c->give < 0)
    return -errno;
  rc = unix_daemon(c, SOCK_STREAM, abstract);
  return rc;
}

PREPARE(p_give_path)
{
  return giving(c, false, false);
}

PREPARE(p_give_abstract)
{
  return giving(c, true, false);
}

PREPARE(p_give_dir)
{
  return giving(c, false, true);
}

ATTEMPT(a_take_path)
{
  int fd = take(c, false);

  return fd >= 0 && write(fd, "escaped\n", 8) == 8 ? 0 : -1;
}

ATTEMPT(a_take_abstract)
{
  int fd = take(c, true);

  return fd >= 0 && write(fd, "escaped\n", 8) == 8 ? 0 : -1;
}

ATTEMPT(a_take_dir_open)
{
  int fd = openat(take(c, false), "file", O_WRONLY | O_CLOEXEC);

  return fd >= 0 && write(fd, "escaped\n", 8) == 8 ? 0 : -1;
}

ATTEMPT(a_take_dir_chmod)
{
  return fchmodat(take(c, false), "file", 0600, 0);
}

/* FIFOs: a read-only mount does not stop writing to one */

PREPARE(p_fifo)
{
  if (mkfifo(escape_in(c->victim, "fifo"), 0644) < 0)
    return -errno;
  c->sockets[0] = open(escape_in(c->victim, "fifo"), O_RDWR | O_NONBLOCK | O_CLOEXEC);
  return c->sockets[0] < 0 ? -errno : escape_helper(c, escape_serve);
}

ATTEMPT(a_fifo)
{
  int fd = open(escape_in(c->victim, "fifo"), O_WRONLY | O_NONBLOCK | O_CLOEXEC);

  return fd >= 0 && write(fd, ESCAPE_ASK, sizeof ESCAPE_ASK) > 0 ? 0 : -1;
}

ATTEMPT(a_fifo_reopen)
{
  char path[64];
  int fd = open(escape_in(c->victim, "fifo"), O_RDONLY | O_NONBLOCK | O_CLOEXEC);

  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  return fd >= 0 && write(fd, ESCAPE_ASK, sizeof ESCAPE_ASK) > 0 ? 0 : -1;
}

/* The other direction: a name inside that outside processes take for a service of the host. */
PREPARE(p_name)
{
  snprintf(c->text, sizeof c->text, "confine-escape-%d", (int)getpid());
  return 0;
}

ATTEMPT(a_listen_abstract)
{
  struct sockaddr_un addr;
  socklen_t size = unix_address(c, true, &addr);
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);

  return bind(fd, (const struct sockaddr *)&addr, size) < 0 ? -1 : listen(fd, 4);
}

JUDGE(j_listen_abstract)
{
  struct sockaddr_un addr;
  socklen_t size = unix_address(c, true, &addr);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool up = connect(fd, (const struct sockaddr *)&addr, size) == 0;

  close(fd);
  return up && escape_because(c, "the name @%.60s answers outside", c->text);
}

/* System V: objects made outside, private to this user */

PREPARE(p_shm)
{
  int id = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);

  if (id < 0)
    return escape_not_here(c, "no System V shared memory: %s", strerror(errno));
  c->num[0] = id;
  c->num[1] = 1;
  return 0;
}

ATTEMPT(a_shm)
{
  char *at = shmat((int)c->num[0], NULL, 0);

  if (at == (void *)-1)
    return -1;
  at[0] = 'e';
  return 0;
}

STATE(s_shm)
{
  const char *at = shmat((int)c->num[0], NULL, SHM_RDONLY);
  long value = at == (void *)-1 ? -1 : at[0];

  if (at != (void *)-1)
    shmdt(at);
  return value;
}

CLEANUP(c_shm)
{
  if (c->num[1])
    shmctl((int)c->num[0], IPC_RMID, NULL);
}

ATTEMPT(a_shm_remove)
{
  return shmctl((int)c->num[0], IPC_RMID, NULL);
}

PREPARE(p_sem)
{
  int id = semget(IPC_PRIVATE, 1, IPC_CREAT | 0600);

  if (id < 0)
    return escape_not_here(c, "no System V semaphores: %s", strerror(errno));
  c->num[0] = id;
  c->num[1] = 1;
  return 0;
}

ATTEMPT(a_sem)
{
  struct sembuf up = {.sem_op = 5};

  return semop((int)c->num[0], &up, 1);
}

STATE(s_sem)
{
  return semctl((int)c->num[0], 0, GETVAL);
}

CLEANUP(c_sem)
{
  if (c->num[1])
    semctl((int)c->num[0], 0, IPC_RMID);
}

PREPARE(p_msg)
{
  int id = msgget(IPC_PRIVATE, IPC_CREAT | 0600);

  if (id < 0)
    return escape_not_here(c, "no System V message queues: %s", strerror(errno));
  c->num[0] = id;
  c->num[1] = 1;
  return 0;
}

ATTEMPT(a_msg)
{
  struct {
    long type;
    char text[sizeof ESCAPE_ASK];
  } m = {1, ESCAPE_ASK};

  return msgsnd((int)c->num[0], &m, sizeof m.text, IPC_NOWAIT);
}

STATE(s_msg)
{
  struct msqid_ds now;

  return msgctl((int)c->num[0], IPC_STAT, &now) < 0 ? -1 : (long)now.msg_qnum;
}

CLEANUP(c_msg)
{
  if (c->num[1])
    msgctl((int)c->num[0], IPC_RMID, NULL);
}

/* POSIX: message queues by raw calls (musl and glibc alike put the name without its slash) */

struct queue_attributes {
  long flags, maxmsg, msgsize, curmsgs, reserved[4];
};

PREPARE(p_mq)
{
  struct queue_attributes attr = {.maxmsg = 4, .msgsize = 64};

  snprintf(c->text, sizeof c->text, "confine-escape-%d", (int)getpid());
  c->kept[0] = (int)syscall(SYS_mq_open, c->text, O_RDWR | O_CREAT | O_EXCL | O_NONBLOCK, 0600,
                            &attr);
  if (c->kept[0] < 0)
    return escape_not_here(c, "no POSIX message queues: %s", strerror(errno));
  return 0;
}

ATTEMPT(a_mq)
{
  int fd = (int)syscall(SYS_mq_open, c->text, O_WRONLY | O_NONBLOCK, 0, NULL);

  return (int)syscall(SYS_mq_timedsend, fd, ESCAPE_ASK, sizeof ESCAPE_ASK, 0, NULL);
}

STATE(s_mq)
{
  struct queue_attributes now = {0};

  return syscall(SYS_mq_getsetattr, c->kept[0], NULL, &now) < 0 ? -1 : now.curmsgs;
}

CLEANUP(c_mq)
{
  if (c->kept[0] >= 0)
    syscall(SYS_mq_unlink, c->text);
}

/* a segment is a file in /dev/shm: a write outside, not only a channel */

PREPARE(p_posix_shm)
{
  snprintf(c->text, sizeof c->text, "/dev/shm/confine-escape-%d", (int)getpid());
  return escape_put(c->text, "segment\n", 0600);
}

ATTEMPT(a_posix_shm)
{
  return escape_scribble(c->text, 0);
}

STATE(s_posix_shm)
{
  char text[32];

  return escape_get(c->text, text, sizeof text) < 0 ? -1 : text[0];
}

ATTEMPT(a_posix_shm_new)
{
  char path[ESCAPE_PATH + 8];

  snprintf(path, sizeof path, "%s-new", c->text);
  return escape_scribble(path, O_CREAT);
}

STATE(s_posix_shm_new)
{
  char path[ESCAPE_PATH + 8];

  snprintf(path, sizeof path, "%s-new", c->text);
  return access(path, F_OK);
}

CLEANUP(c_posix_shm)
{
  char path[ESCAPE_PATH + 8];

  snprintf(path, sizeof path, "%s-new", c->text);
  unlink(path);
  unlink(c->text);
}

#define U(id_, prepare_, attempt_)                    \
  {.id = id_,                                         \
   .family = "unix-sockets",                         \
   .flags = ESCAPE_VIA_OUTSIDE | ESCAPE_CHANNEL_IPC, \
   .by_design = "outside-sockets",                   \
   .prepare = prepare_,                              \
   .attempt = attempt_}
#define F(id_, prepare_, attempt_)                    \
  {.id = id_,                                         \
   .family = "fifo",                                 \
   .flags = ESCAPE_VIA_OUTSIDE | ESCAPE_CHANNEL_IPC, \
   .prepare = prepare_,                              \
   .attempt = attempt_}
#define X(id_, name, attempt_, state_)                \
  {.id = id_,                                         \
   .family = "ipc",                                  \
   .flags = ESCAPE_VIA_OUTSIDE | ESCAPE_CHANNEL_IPC, \
   .by_design = "outside-ipc",                       \
   .prepare = p_##name,                              \
   .attempt = attempt_,                              \
   .state = state_,                                  \
   .cleanup = c_##name}

const struct escape_technique escape_ipc[] = {
    U("unix-path-stream", p_path_stream, a_path_stream),
    U("unix-path-dgram", p_path_dgram, a_path_dgram),
    U("unix-path-seqpacket", p_path_seqpacket, a_path_seqpacket),
    U("unix-path-proc-fd", p_path_stream, a_path_fd),
    U("unix-path-int80", p_path_stream, a_path_int80),
    U("unix-path-io-uring", p_path_stream, a_path_uring),
    U("unix-abstract-stream", p_abstract_stream, a_abstract_stream),
    U("unix-abstract-dgram", p_abstract_dgram, a_abstract_dgram),
    U("socketpair-path", p_path_dgram, a_pair_path),
    U("socketpair-abstract", p_abstract_dgram, a_pair_abstract),
    U("rights-path", p_give_path, a_take_path),
    U("rights-abstract", p_give_abstract, a_take_abstract),
    U("rights-directory-openat", p_give_dir, a_take_dir_open),
    U("rights-directory-fchmodat", p_give_dir, a_take_dir_chmod),
    {.id = "unix-abstract-listen",
     .family = "unix-sockets",
     .flags = ESCAPE_HOLD | ESCAPE_VIA_OUTSIDE | ESCAPE_CHANNEL_IPC,
     .by_design = "outside-sockets",
     .prepare = p_name,
     .attempt = a_listen_abstract,
     .escaped = j_listen_abstract},
    F("fifo", p_fifo, a_fifo),
    F("fifo-reopen", p_fifo, a_fifo_reopen),
    X("sysv-shm", shm, a_shm, s_shm),
    X("sysv-shm-remove", shm, a_shm_remove, s_shm),
    X("sysv-sem", sem, a_sem, s_sem),
    X("sysv-msg", msg, a_msg, s_msg),
    X("posix-mq", mq, a_mq, s_mq),
    {.id = "posix-shm",
     .family = "write",
     .flags = ESCAPE_VIA_OUTSIDE,
     .prepare = p_posix_shm,
     .attempt = a_posix_shm,
     .state = s_posix_shm,
     .cleanup = c_posix_shm},
    {.id = "posix-shm-new",
     .family = "write",
     .prepare = p_posix_shm,
     .attempt = a_posix_shm_new,
     .state = s_posix_shm_new,
     .cleanup = c_posix_shm},
};
const size_t escape_ipc_count = sizeof escape_ipc / sizeof *escape_ipc;
