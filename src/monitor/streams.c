#include "enter/sys.h"
#include "monitor/supervisor.h"

#include "guard/calls.h"

#ifndef __NR_pidfd_getfd
#define __NR_pidfd_getfd 438
#endif

/* Before Linux 6.9 pidfd_open(2) takes a process only; the caller may be a thread of one. */
static long process_of(pid_t tid) {
  char text[1024];
  uint64_t pid;
  if (confine__process_read(tid, "/status", text, sizeof text) <= 0 ||
      !confine__status_number(text, "Tgid:", 10, &pid))
    return -EPERM;
  return (long)pid;
}

long confine__copy_descriptor(pid_t tid, int fd) {
  long process = sys(__NR_pidfd_open, tid, SYS_PIDFD_THREAD);
  if (process == -EINVAL) {
    long pid = process_of(tid);
    process = pid < 0 ? pid : sys(__NR_pidfd_open, pid, 0);
  }
  if (process < 0)
    return -EPERM;
  long copy = sys(__NR_pidfd_getfd, process, fd, 0);
  sys_close((int)process);
  return copy;
}

static uint64_t wide(const struct seccomp_notif *notification, int low) {
  const __u64 *a = notification->data.args;
  return (uint32_t)a[low] | a[low + 1] << 32;
}

/* A 32-bit caller passes each offset in two registers. */
static long change(const struct seccomp_notif *notification, int call, int compat, int fd) {
  const __u64 *a = notification->data.args;
  switch (call) {
  case CONFINE__CALL_ftruncate:
    return sys(__NR_ftruncate, fd, compat ? (int32_t)a[1] : (int64_t)a[1]);
  case CONFINE__CALL_ftruncate64:
    return sys(__NR_ftruncate, fd, wide(notification, 1));
  case CONFINE__CALL_fallocate:
    return compat ? sys(__NR_fallocate, fd, a[1], wide(notification, 2), wide(notification, 4))
                  : sys(__NR_fallocate, fd, a[1], a[2], a[3]);
  default:
    return sys(__NR_fcntl, fd, F_SETFL, a[2]);
  }
}

long confine__stream_call(struct confine__supervisor *supervisor, const struct seccomp_notif *notification,
                          int call) {
  int compat = notification->data.arch != CONFINE__NATIVE_ARCH;
  long copy = confine__copy_descriptor((pid_t)notification->pid, (int)notification->data.args[0]);
  if (copy < 0)
    return copy;
  int appending = call == CONFINE__CALL_fcntl || call == CONFINE__CALL_fcntl64;
  /* The judgement may exchange its descriptor for one that names the file; the change needs this one. */
  long judged = sys(__NR_fcntl, copy, F_DUPFD_CLOEXEC, 3);
  int target = (int)judged;
  long r = judged;
  if (judged >= 0) {
    int inside = confine__target_inside(supervisor, &target);
    sys_close(target);
    if (appending)
      inside |= !(sys(__NR_fcntl, copy, F_GETFL, 0) & O_APPEND);
    r = inside ? change(notification, call, compat, (int)copy) : -supervisor->refusal;
  }
  sys_close((int)copy);
  return r;
}
