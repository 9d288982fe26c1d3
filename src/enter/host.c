#include "enter/plan.h"
#include "enter/sys.h"

#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

/* mount(2) needs CAP_SYS_ADMIN; whoever has it needs no user namespace, in which root would lose its
 * power over other users' files. */
static int may_mount(void) {
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  struct __user_cap_data_struct data[2];
  if (sys(__NR_capget, &header, data) < 0)
    return 0;
  return (data[0].effective & (1u << CAP_SYS_ADMIN)) != 0;
}

static int try_listener(void *arg) {
  struct sock_filter allow = {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW};
  struct sock_fprog program = {1, &allow};
  (void)arg;
  sys(__NR_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  return sys(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program) < 0;
}

static int listener_can_be_had(void) {
  _Alignas(16) char stack[4096];
  int status = 1;
  uint64_t every = ~0ull, mask = 0;
  sys(__NR_rt_sigprocmask, SIG_BLOCK, &every, &mask, 8);
  long pid = confine__clone(SYS_CLONE_VM | SYS_CLONE_VFORK, stack + sizeof stack, try_listener, NULL);
  while (pid > 0 && sys(__NR_wait4, pid, &status, SYS_WALL, 0) == -EINTR)
    ;
  sys(__NR_rt_sigprocmask, SIG_SETMASK, &mask, 0, 8);
  return pid > 0 && status == 0;
}

int confine__listener_available(void) {
  struct seccomp_notif_sizes sizes;
  if (sys(__NR_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) < 0)
    return 0;
  return sys(__NR_prctl, PR_GET_SECCOMP, 0, 0, 0, 0) == 0 || listener_can_be_had();
}

static int writes_to_file(void) {
  struct stat st;
  for (int fd = 0; fd < 3; fd++)
    if (sys(__NR_fstat, fd, &st) == 0 && S_ISREG(st.st_mode) &&
        (sys(__NR_fcntl, fd, F_GETFL, 0) & O_ACCMODE) != O_RDONLY)
      return 1;
  return 0;
}

void confine__plan_host(struct confine__plan *plan) {
  plan->uid = (uint32_t)sys(__NR_geteuid);
  plan->gid = (uint32_t)sys(__NR_getegid);
  plan->landlock_abi = confine__landlock_abi();
  if ((plan->flags & CONFINE__PLAN_MOUNTS) && !may_mount())
    plan->flags |= CONFINE__PLAN_USERNS;
  if ((plan->flags & CONFINE__PLAN_METADATA) && writes_to_file())
    plan->flags |= CONFINE__PLAN_STREAMS;
}
