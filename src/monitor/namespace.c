#include "monitor/namespace.h"
#include "enter/sys.h"
#include "monitor/supervisor.h"

#include <sys/socket.h>
#include <sys/uio.h>

void confine__namespace_hold(struct confine__namespace *held, pid_t command) {
  int pair[2];
  held->descriptor = (int)confine__process_open(command, "/ns/mnt", O_RDONLY);
  if (held->descriptor < 0)
    return;
  if (sys(__NR_socketpair, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair) < 0) {
    sys_close(held->descriptor);
    held->descriptor = -1;
    return;
  }
  held->sender = pair[0];
  held->receiver = pair[1];
}

/* The message waits at the receiver, and has it in it: once this process's own descriptors are closed nothing else
 * refers to either. One that cannot be sent changes nothing. */
void confine__namespace_leave(const struct confine__namespace *held) {
  const int descriptors[] = {held->descriptor, held->receiver};
  char byte = 0;
  struct iovec content = {&byte, sizeof byte};
  union {
    struct cmsghdr header;
    char room[CMSG_SPACE(sizeof descriptors)];
  } rights = {.room = {0}};
  struct msghdr message = {
      .msg_iov = &content, .msg_iovlen = 1, .msg_control = &rights, .msg_controllen = sizeof rights.room};
  if (held->descriptor < 0)
    return;
  rights.header.cmsg_len = CMSG_LEN(sizeof descriptors);
  rights.header.cmsg_level = SOL_SOCKET;
  rights.header.cmsg_type = SCM_RIGHTS;
  __builtin_memcpy(CMSG_DATA(&rights.header), descriptors, sizeof descriptors);
  sys(__NR_sendmsg, held->sender, &message, MSG_NOSIGNAL);
}
