#include "enter/plan.h"
#include "enter/sys.h"

#include <linux/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

/* A network namespace begins with a loopback interface that is down (network_namespaces(7)). */
int confine__enter_network(struct confine__enter_state *state) {
  struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
  long fd = sys(__NR_socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  long r = fd < 0 ? fd : sys(__NR_ioctl, fd, SIOCSIFFLAGS, &request);
  if (fd >= 0)
    sys_close((int)fd);
  return r < 0 ? confine__fail(state, CONFINE__STEP_NETWORK, -1, r) : 0;
}
