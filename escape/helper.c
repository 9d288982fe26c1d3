/* What outside helper processes do. */
#define _GNU_SOURCE
#include "inside.h"
#include "outside.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CONNECTIONS = 8 };

static volatile char mark[16] = "untouched";
static volatile sig_atomic_t signalled;

void escape_told(struct escape_ctx *c)
{
  escape_scribble(escape_in(c->victim, "told"), O_CREAT);
}

static void give(int fd, int given)
{
  char byte = 'g';
  struct iovec iov = {&byte, 1};
  union {
    struct cmsghdr head;
    char room[CMSG_SPACE(sizeof(int))];
  } control;
  struct msghdr m;

  memset(&m, 0, sizeof m);
  memset(&control, 0, sizeof control);
  m.msg_iov = &iov;
  m.msg_iovlen = 1;
  m.msg_control = &control;
  m.msg_controllen = sizeof control;
  struct cmsghdr *h = CMSG_FIRSTHDR(&m);
  h->cmsg_level = SOL_SOCKET;
  h->cmsg_type = SCM_RIGHTS;
  h->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(h), &given, sizeof given);
  sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* One message: its size, 0 at the end, -1 if there is none. Netlink's come with a header, so the
 * request may lie anywhere in it. FIFOs are read like sockets. */
static ssize_t answer(struct escape_ctx *c, int fd)
{
  char text[256];
  ssize_t n = read(fd, text, sizeof text);

  if (n <= 0)
    return n;
  if (memmem(text, (size_t)n, ESCAPE_ASK, strlen(ESCAPE_ASK)))
    escape_told(c);
  if (memmem(text, (size_t)n, ESCAPE_GIVE, strlen(ESCAPE_GIVE)) && c->give >= 0)
    give(fd, c->give);
  return n;
}

static bool is_listening(int fd)
{
  int listening = 0;
  socklen_t size = sizeof listening;

  return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) == 0 && listening;
}

static bool take_connection(int listener, int *connection)
{
  int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

  if (fd < 0)
    return false;
  for (int j = 0; j < CONNECTIONS; j++)
    if (connection[j] < 0) {
      connection[j] = fd;
      return true;
    }
  close(fd);
  return false;
}

static bool serve_once(struct escape_ctx *c, int *connection)
{
  bool busy = false;

  for (int i = 0; i < ESCAPE_SOCKETS; i++)
    if (c->sockets[i] >= 0 && is_listening(c->sockets[i]))
      busy |= take_connection(c->sockets[i], connection);
    else if (c->sockets[i] >= 0)
      busy |= answer(c, c->sockets[i]) > 0;
  for (int j = 0; j < CONNECTIONS; j++) {
    if (connection[j] < 0)
      continue;
    ssize_t n = answer(c, connection[j]);
    busy |= n > 0;
    if (n == 0 || (n < 0 && errno != EAGAIN)) {
      close(connection[j]);
      connection[j] = -1;
    }
  }
  return busy;
}

void escape_serve(struct escape_ctx *c, int stop)
{
  int connection[CONNECTIONS];
  bool ending = false;

  for (int j = 0; j < CONNECTIONS; j++)
    connection[j] = -1;
  for (int i = 0; i < ESCAPE_SOCKETS; i++)
    if (c->sockets[i] >= 0)
      fcntl(c->sockets[i], F_SETFL, O_NONBLOCK);
  escape_ready();
  while (!ending) {
    struct pollfd p[1 + ESCAPE_SOCKETS + CONNECTIONS];
    nfds_t n = 0;
    p[n++] = (struct pollfd){.fd = stop, .events = POLLIN};
    for (int i = 0; i < ESCAPE_SOCKETS; i++)
      p[n++] = (struct pollfd){.fd = c->sockets[i], .events = POLLIN};
    for (int j = 0; j < CONNECTIONS; j++)
      p[n++] = (struct pollfd){.fd = connection[j], .events = POLLIN};
    poll(p, n, -1);
    ending = p[0].revents != 0;
    while (serve_once(c, connection)) {
    }
  }
}

static void note_signal(int number)
{
  (void)number;
  signalled = 1;
}

void escape_bystand(struct escape_ctx *c, int stop)
{
  struct pollfd p = {.fd = stop, .events = POLLIN};
  struct sigaction act;

  memset(&act, 0, sizeof act);
  act.sa_handler = note_signal;
  sigaction(SIGUSR1, &act, NULL);
  sigaction(SIGIO, &act, NULL);
  if (chdir(c->victim) < 0)
    return;
  escape_ready();
  while (poll(&p, 1, -1) <= 0 || p.revents == 0) {
  }
  if (signalled || strcmp((const char *)mark, "untouched") != 0)
    escape_told(c);
}

int escape_with_bystander(struct escape_ctx *c)
{
  int fd = open(c->file, O_RDWR | O_CLOEXEC);

  if (fd < 0)
    return -errno;
  void *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (map == MAP_FAILED)
    return -errno;
  c->num[0] = fd;
  c->num[1] = (long)(uintptr_t)mark;
  c->num[2] = (long)(uintptr_t)map;
  int rc = escape_helper(c, escape_bystand);
  munmap(map, 4096);
  return rc;
}
