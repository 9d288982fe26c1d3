#include "monitor/supervisor.h"
#include "enter/sys.h"

#include "guard/calls.h"

#include <linux/capability.h>

#define HELD (O_PATH | O_CLOEXEC)

#ifndef SECCOMP_USER_NOTIF_FLAG_CONTINUE
#define SECCOMP_USER_NOTIF_FLAG_CONTINUE 1
#endif


static int note_own_identity(struct confine__supervisor *supervisor) {
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  struct __user_cap_data_struct data[2];
  long r = sys(__NR_capget, &header, data);
  if (r < 0)
    return (int)r;
  supervisor->capabilities = data[0].effective | (uint64_t)data[1].effective << 32;
  supervisor->uid = (uint32_t)sys(__NR_geteuid);
  supervisor->gid = (uint32_t)sys(__NR_getegid);
  supervisor->permitted = data[0].permitted | (uint64_t)data[1].permitted << 32;
  /* Without any nothing in the tree can have become anybody else, or less: no_new_privs is set. */
  if (!supervisor->permitted)
    return 0;
  r = sys(__NR_getgroups, CONFINE__GROUPS_MAX, supervisor->groups);
  supervisor->group_count = (int)r;
  return r < 0 ? (int)r : 0;
}

static int copy_root(struct confine__supervisor *supervisor, const struct confine__root *root, size_t *used) {
  size_t n = sys_strlen(root->path) + 1;
  if (n > sizeof supervisor->root_names - *used)
    return -ENAMETOOLONG;
  char *name = supervisor->root_names + *used;
  for (size_t i = 0; i < n; i++)
    name[i] = root->path[i];
  *used += n;
  supervisor->roots[supervisor->root_count] = *root;
  supervisor->roots[supervisor->root_count++].path = name;
  return 0;
}

/* The host's /tmp, where the plan grants it, is a root as any other. */
static int copy_roots(struct confine__supervisor *supervisor, const struct confine__plan *plan) {
  size_t used = 0;
  int r = 0;
  supervisor->root_count = 0;
  for (size_t i = 0; r == 0 && i < plan->root_count; i++)
    r = copy_root(supervisor, &plan->roots[i], &used);
  if (r < 0 || !(plan->flags & CONFINE__PLAN_HOST_TMP) || plan->flags & CONFINE__PLAN_MOUNTS)
    return r;
  struct stat st;
  long fd = sys_openat(AT_FDCWD, "/tmp", HELD | O_DIRECTORY | O_NOFOLLOW, 0);
  if (fd < 0 || sys(__NR_fstat, fd, &st) < 0)
    return 0;
  const struct confine__root tmp = {"/tmp", (int)fd, st.st_dev, st.st_ino};
  return copy_root(supervisor, &tmp, &used);
}

int confine__supervisor_init(struct confine__supervisor *supervisor, const struct confine__plan *plan,
                             int listener, struct confine__denials *denials) {
  supervisor->flags = plan->flags;
  supervisor->listener = listener;
  supervisor->root = -1;
  supervisor->denials = denials;
  supervisor->monitor = (pid_t)sys(__NR_getpid);
  supervisor->refusal =
      plan->flags & (CONFINE__PLAN_MOUNTS | CONFINE__PLAN_READ_ONLY_TREE) ? EROFS : EACCES;
  int r = copy_roots(supervisor, plan);
  return r < 0 ? r : note_own_identity(supervisor);
}

/* The root of the command's own mount namespace, if it has one. The guard denies chroot(2), so it is that
 * of every caller; the first one tells it, since the command itself may be gone by then. */
static int find_root(struct confine__supervisor *supervisor, pid_t tid) {
  if (supervisor->root >= 0)
    return 0;
  long root = supervisor->flags & CONFINE__PLAN_MOUNTS ? confine__process_open(tid, "/root", O_PATH | O_DIRECTORY)
                                                       : sys_openat(AT_FDCWD, "/", HELD | O_DIRECTORY, 0);
  supervisor->root = root < 0 ? -1 : (int)root;
  return root < 0 ? -EPERM : 0;
}

static int call_of(const struct seccomp_notif *notification) {
  size_t count = sizeof confine__call_numbers / sizeof confine__call_numbers[0];
  for (size_t i = 0; i < count; i++)
    if (confine__call_numbers[i].number == notification->data.nr &&
        confine__call_numbers[i].arch == notification->data.arch)
      return (int)confine__call_numbers[i].call;
  return CONFINE__CALL_none;
}

static long answer(struct confine__supervisor *supervisor, const struct seccomp_notif *notification, int call) {
  switch (call) {
  case CONFINE__CALL_none:
    return -ENOSYS;
  case CONFINE__CALL_setgroups:
  case CONFINE__CALL_setgroups32:
    supervisor->regrouped = 1;
    return CONFINE__LET_KERNEL;
  case CONFINE__CALL_setpriority:
  case CONFINE__CALL_ioprio_set:
  case CONFINE__CALL_prlimit64:
  case CONFINE__CALL_sched_setaffinity:
  case CONFINE__CALL_sched_setattr:
  case CONFINE__CALL_sched_setparam:
  case CONFINE__CALL_sched_setscheduler:
    confine__identity_return(supervisor);
    return confine__limit_call(supervisor, notification, call);
  case CONFINE__CALL_ftruncate:
  case CONFINE__CALL_ftruncate64:
  case CONFINE__CALL_fallocate:
  case CONFINE__CALL_fcntl:
  case CONFINE__CALL_fcntl64:
    confine__identity_return(supervisor);
    return confine__stream_call(supervisor, notification, call);
  case CONFINE__CALL_open:
  case CONFINE__CALL_openat:
  case CONFINE__CALL_openat2:
  case CONFINE__CALL_creat:
  case CONFINE__CALL_truncate:
  case CONFINE__CALL_truncate64:
  case CONFINE__CALL_unlink:
  case CONFINE__CALL_unlinkat:
  case CONFINE__CALL_rmdir:
  case CONFINE__CALL_rename:
  case CONFINE__CALL_renameat:
  case CONFINE__CALL_renameat2:
  case CONFINE__CALL_link:
  case CONFINE__CALL_linkat:
  case CONFINE__CALL_symlink:
  case CONFINE__CALL_symlinkat:
  case CONFINE__CALL_mkdir:
  case CONFINE__CALL_mkdirat:
  case CONFINE__CALL_mknod:
  case CONFINE__CALL_mknodat:
  case CONFINE__CALL_bind:
  case CONFINE__CALL_socketcall:
    /* Judged for the report only: what the policy is, the kernel enforces. */
    confine__identity_return(supervisor);
    confine__observe_call(supervisor, notification, call);
    return CONFINE__LET_KERNEL;
  default:
    return confine__metadata_call(supervisor, notification, call);
  }
}

#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64) /* Linux 6.6 */
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#endif
/* Calls in a row by one thread before it is taken to be the only busy one. */
#define STREAK 8

/* Waking on the caller's own processor saves one busy thread most of the way there and back, and makes
 * several wait for each other. An older kernel does not have it and says so each time. */
static void choose_wake_mode(struct confine__supervisor *supervisor, pid_t caller) {
  supervisor->streak = caller == supervisor->last_caller ? supervisor->streak + 1 : 0;
  supervisor->last_caller = caller;
  int wanted = supervisor->streak >= STREAK;
  if (wanted == supervisor->synchronous)
    return;
  supervisor->synchronous = wanted;
  sys(__NR_ioctl, supervisor->listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS,
      wanted ? SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP : 0);
}

/* The caller was killed meanwhile, or there is none any more. */
static int is_over(long error) {
  return error == -ENOENT || error == -EINTR;
}

int confine__supervisor_serve(struct confine__supervisor *supervisor) {
  /* Room for a kernel whose structures have grown (seccomp_unotify(2)). */
  union {
    struct seccomp_notif notification;
    char room[256];
  } in = {.room = {0}};
  union {
    struct seccomp_notif_resp response;
    char room[128];
  } out = {.room = {0}};
  long r = sys(__NR_ioctl, supervisor->listener, SECCOMP_IOCTL_NOTIF_RECV, &in);
  if (r < 0)
    return is_over(r) ? 0 : (int)r;
  int call = call_of(&in.notification);
  choose_wake_mode(supervisor, (pid_t)in.notification.pid);
  out.response.id = in.notification.id;
  r = find_root(supervisor, (pid_t)in.notification.pid);
  if (r == 0)
    r = answer(supervisor, &in.notification, call);
  if (r == CONFINE__LET_KERNEL)
    out.response.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
  else
    out.response.error = (int32_t)r;
  r = sys(__NR_ioctl, supervisor->listener, SECCOMP_IOCTL_NOTIF_SEND, &out);
  return r == 0 || is_over(r) ? 0 : (int)r;
}
