/* Messages to an outside daemon that writes a file when asked, over the host's network. */
#define _GNU_SOURCE
#include "families.h"
#include "inside.h"
#include "outside.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { NETLINK_USERSOCK_PROTOCOL = 2, VSOCK_FAMILY = 40, MPTCP = 262 };

struct netlink_address {
  uint16_t family, pad;
  uint32_t pid, groups;
};

struct vsock_address {
  uint16_t family, reserved;
  uint32_t port, cid;
  unsigned char zero[4];
};

static int inet_daemon(struct escape_ctx *c, int family, int type, int protocol)
{
  struct sockaddr_in four = {.sin_family = AF_INET};
  struct sockaddr_in6 six = {.sin6_family = AF_INET6};
  const bool is_six = family == AF_INET6;
  const int fast = 8;

  four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  six.sin6_addr = in6addr_loopback;
  struct sockaddr *addr = is_six ? (void *)&six : (void *)&four;
  socklen_t size = is_six ? sizeof six : sizeof four;
  int fd = socket(family, type | SOCK_CLOEXEC, protocol);
  if (fd < 0 || bind(fd, addr, size) < 0 || (type == SOCK_STREAM && listen(fd, 8) < 0) ||
      getsockname(fd, addr, &size) < 0)
    return escape_not_here(c, "no such socket: %s", strerror(errno));
  setsockopt(fd, IPPROTO_TCP, TCP_FASTOPEN, &fast, sizeof fast);
  c->num[0] = ntohs(is_six ? six.sin6_port : four.sin_port);
  c->sockets[0] = fd;
  return escape_helper(c, escape_serve);
}

static struct sockaddr_in loopback(struct escape_ctx *c)
{
  struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons((uint16_t)c->num[0])};

  addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return addr;
}

PREPARE(p_tcp)
{
  return inet_daemon(c, AF_INET, SOCK_STREAM, 0);
}

PREPARE(p_tcp6)
{
  return inet_daemon(c, AF_INET6, SOCK_STREAM, 0);
}

PREPARE(p_udp)
{
  return inet_daemon(c, AF_INET, SOCK_DGRAM, 0);
}

PREPARE(p_udplite)
{
  return inet_daemon(c, AF_INET, SOCK_DGRAM, 136);
}

PREPARE(p_mptcp)
{
  return inet_daemon(c, AF_INET, SOCK_STREAM, MPTCP);
}

ATTEMPT(a_tcp)
{
  const struct sockaddr_in addr = loopback(c);

  return escape_ask(AF_INET, SOCK_STREAM, 0, &addr, sizeof addr);
}

ATTEMPT(a_tcp_fastopen)
{
  const struct sockaddr_in addr = loopback(c);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  ssize_t n = sendto(fd, ESCAPE_ASK, sizeof ESCAPE_ASK, MSG_FASTOPEN | MSG_NOSIGNAL,
                     (const struct sockaddr *)&addr, sizeof addr);

  return n > 0 ? 0 : -1;
}

ATTEMPT(a_tcp6)
{
  struct sockaddr_in6 addr = {.sin6_family = AF_INET6,
                              .sin6_port = htons((uint16_t)c->num[0]),
                              .sin6_addr = in6addr_loopback};

  return escape_ask(AF_INET6, SOCK_STREAM, 0, &addr, sizeof addr);
}

ATTEMPT(a_mptcp)
{
  const struct sockaddr_in addr = loopback(c);

  return escape_ask(AF_INET, SOCK_STREAM, MPTCP, &addr, sizeof addr);
}

ATTEMPT(a_udp)
{
  const struct sockaddr_in addr = loopback(c);

  return escape_ask(AF_INET, SOCK_DGRAM, 0, &addr, sizeof addr);
}

ATTEMPT(a_udplite)
{
  const struct sockaddr_in addr = loopback(c);

  return escape_ask(AF_INET, SOCK_DGRAM, 136, &addr, sizeof addr);
}

/* a raw packet is a datagram for whoever listens */
ATTEMPT(a_raw)
{
  struct {
    uint16_t from, to, size, sum;
    char text[sizeof ESCAPE_ASK];
  } packet = {htons(9), htons((uint16_t)c->num[0]), htons(sizeof packet), 0, ESCAPE_ASK};
  const struct sockaddr_in addr = loopback(c);
  int fd = socket(AF_INET, SOCK_RAW, IPPROTO_UDP);
  ssize_t n = sendto(fd, &packet, sizeof packet, 0, (const struct sockaddr *)&addr, sizeof addr);

  return n > 0 ? 0 : -1;
}

/* The other direction: something inside that outside processes take for a service of the host. */
PREPARE(p_port)
{
  struct sockaddr_in addr = {.sin_family = AF_INET};
  socklen_t size = sizeof addr;
  int fd = socket(AF_INET, SOCK_STREAM, 0);

  addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (fd < 0 || bind(fd, (const struct sockaddr *)&addr, sizeof addr) < 0 ||
      getsockname(fd, (struct sockaddr *)&addr, &size) < 0)
    return escape_not_here(c, "no port: %s", strerror(errno));
  close(fd);
  c->num[0] = ntohs(addr.sin_port);
  return 0;
}

ATTEMPT(a_listen)
{
  const struct sockaddr_in addr = loopback(c);
  int fd = socket(AF_INET, SOCK_STREAM, 0);

  return bind(fd, (const struct sockaddr *)&addr, sizeof addr) < 0 ? -1 : listen(fd, 4);
}

JUDGE(j_listen)
{
  const struct sockaddr_in addr = loopback(c);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool up = connect(fd, (const struct sockaddr *)&addr, sizeof addr) == 0;

  close(fd);
  return up && escape_because(c, "port %ld answers outside", c->num[0]);
}

PREPARE(p_netlink)
{
  struct netlink_address addr = {.family = AF_NETLINK};
  socklen_t size = sizeof addr;
  int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_USERSOCK_PROTOCOL);

  if (fd < 0 || bind(fd, (const void *)&addr, sizeof addr) < 0 ||
      getsockname(fd, (void *)&addr, &size) < 0)
    return escape_not_here(c, "no netlink socket: %s", strerror(errno));
  c->num[0] = addr.pid;
  c->sockets[0] = fd;
  return escape_helper(c, escape_serve);
}

ATTEMPT(a_netlink)
{
  const struct netlink_address addr = {.family = AF_NETLINK, .pid = (uint32_t)c->num[0]};
  struct {
    uint32_t size;
    uint16_t type, flags;
    uint32_t seq, pid;
    char text[sizeof ESCAPE_ASK];
  } message = {sizeof message, 16, 0, 0, 0, ESCAPE_ASK};
  int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_USERSOCK_PROTOCOL);

  return sendto(fd, &message, sizeof message, 0, (const void *)&addr, sizeof addr) > 0 ? 0 : -1;
}

PREPARE(p_vsock)
{
  struct vsock_address addr = {.family = VSOCK_FAMILY, .port = 0xffffffffu, .cid = 1};
  socklen_t size = sizeof addr;
  int fd = socket(VSOCK_FAMILY, SOCK_STREAM | SOCK_CLOEXEC, 0);

  if (fd < 0 || bind(fd, (const void *)&addr, sizeof addr) < 0 || listen(fd, 4) < 0 ||
      getsockname(fd, (void *)&addr, &size) < 0)
    return escape_not_here(c, "no vsock loopback: %s", strerror(errno));
  c->num[0] = addr.port;
  c->sockets[0] = fd;
  return escape_helper(c, escape_serve);
}

ATTEMPT(a_vsock)
{
  const struct vsock_address addr = {
      .family = VSOCK_FAMILY, .port = (uint32_t)c->num[0], .cid = 1};

  return escape_ask(VSOCK_FAMILY, SOCK_STREAM, 0, &addr, sizeof addr);
}

#define N(id_, flags_, prepare_, attempt_)                           \
  {.id = id_,                                                        \
   .family = "network",                                             \
   .flags = ESCAPE_VIA_OUTSIDE | ESCAPE_CHANNEL_NETWORK | (flags_), \
   .by_design = "outside-network",                                  \
   .prepare = prepare_,                                             \
   .attempt = attempt_}

const struct escape_technique escape_network[] = {
    N("tcp", 0, p_tcp, a_tcp),
    N("tcp-fastopen", 0, p_tcp, a_tcp_fastopen),
    {.id = "tcp-listen",
     .family = "network",
     .flags = ESCAPE_HOLD | ESCAPE_VIA_OUTSIDE | ESCAPE_CHANNEL_NETWORK,
     .by_design = "outside-network",
     .prepare = p_port,
     .attempt = a_listen,
     .escaped = j_listen},
    N("tcp-ipv6", 0, p_tcp6, a_tcp6),
    N("mptcp", 0, p_mptcp, a_mptcp),
    N("udp", 0, p_udp, a_udp),
    N("udplite", 0, p_udplite, a_udplite),
    N("raw-udp", ESCAPE_ROOT_ONLY, p_udp, a_raw),
    N("netlink-usersock", 0, p_netlink, a_netlink),
    N("vsock", 0, p_vsock, a_vsock),
};
const size_t escape_network_count = sizeof escape_network / sizeof *escape_network;
