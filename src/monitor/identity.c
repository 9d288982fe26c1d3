/* Acting as the caller: the file system ids, groups and capabilities it has at this moment. */
#include "enter/sys.h"
#include "monitor/supervisor.h"

#include <linux/capability.h>

/* linux/pidfd.h of Linux 6.13 */
struct pidfd_info {
  uint64_t mask, cgroup;
  uint32_t pid, tgid, ppid, ruid, rgid, euid, egid, suid, sgid, fsuid, fsgid, exit_code;
};
#define GET_INFO _IOWR(0xff, 11, struct pidfd_info)
#define INFO_CREDENTIALS (1u << 1)
_Static_assert(sizeof(struct pidfd_info) == 64, "PIDFD_INFO_SIZE_VER0");

/* Parts of an identity that are in force. */
enum { CAPABILITIES = 1, IDS = 2, KEEP = 4 /* until the next call, if that is by a caller like this one */ };

struct identity {
  uint32_t fsuid, fsgid;
  uint64_t effective;
  int whole; /* nothing that is permitted is not effective */
  uint32_t groups[CONFINE__GROUPS_MAX];
  int group_count;
};

/* Finds `key` at the start of a line; returns what follows it, or NULL. */
static const char *field(const char *text, const char *key) {
  size_t n = sys_strlen(key);
  for (const char *line = text; *line;) {
    size_t i = 0;
    while (i < n && line[i] == key[i])
      i++;
    if (i == n)
      return line + n;
    while (*line && *line != '\n')
      line++;
    if (*line)
      line++;
  }
  return NULL;
}

static const char *take_number(const char *text, uint64_t base, uint64_t *value) {
  while (*text == ' ' || *text == '\t')
    text++;
  const char *start = text;
  *value = 0;
  for (;; text++) {
    unsigned digit = *text >= '0' && *text <= '9'   ? (unsigned)(*text - '0')
                     : *text >= 'a' && *text <= 'f' ? (unsigned)(*text - 'a' + 10)
                                                    : 16;
    if (digit >= base)
      return text == start ? NULL : text;
    *value = *value * base + digit;
  }
}

const char *confine__status_number(const char *text, const char *key, uint64_t base, uint64_t *value) {
  text = field(text, key);
  return text ? take_number(text, base, value) : NULL;
}

/* The fourth id of the line is the file system one (proc(5)). */
static int take_fsid(const char *text, const char *key, uint32_t *id) {
  uint64_t value = 0;
  text = field(text, key);
  for (int i = 0; text && i < 4; i++)
    text = take_number(text, 10, &value);
  *id = (uint32_t)value;
  return text ? 0 : -EPERM;
}

static int parse(const char *text, struct identity *identity) {
  uint64_t value;
  if (take_fsid(text, "Uid:", &identity->fsuid) != 0 || take_fsid(text, "Gid:", &identity->fsgid) != 0)
    return -EPERM;
  if (!confine__status_number(text, "CapEff:", 16, &identity->effective))
    return -EPERM;
  const char *groups = field(text, "Groups:");
  identity->whole = 0;
  identity->group_count = 0;
  while (groups && (groups = take_number(groups, 10, &value)) != NULL) {
    if (identity->group_count == CONFINE__GROUPS_MAX)
      return -EPERM; /* never an identity that is only nearly the caller's */
    identity->groups[identity->group_count++] = (uint32_t)value;
  }
  return 0;
}

static int read_status(struct confine__supervisor *supervisor, pid_t tid, struct identity *identity) {
  char *text = supervisor->rest;
  if (confine__process_read(tid, "/status", text, sizeof supervisor->rest) <= 0)
    return -EPERM;
  return parse(text, identity);
}

static long ids_of(int descriptor, struct pidfd_info *info) {
  info->mask = INFO_CREDENTIALS;
  long r = sys(__NR_ioctl, descriptor, GET_INFO, info);
  return r == 0 && !(info->mask & INFO_CREDENTIALS) ? -ESRCH : r;
}

/* The thread's ids. Its descriptor is kept for the next call, which is mostly the same thread's. A pid that has gone
 * to another thread is not mistaken for the one before: its descriptor names nobody any more. */
static long ask_ids(struct confine__supervisor *supervisor, pid_t tid, struct pidfd_info *info) {
  if (supervisor->asked_tid == tid && ids_of(supervisor->asked_descriptor, info) == 0)
    return 0;
  if (supervisor->asked_tid)
    sys_close(supervisor->asked_descriptor);
  supervisor->asked_tid = 0;
  long fd = sys(__NR_pidfd_open, tid, SYS_PIDFD_THREAD);
  if (fd < 0)
    return fd;
  supervisor->asked_tid = tid;
  supervisor->asked_descriptor = (int)fd;
  return ids_of((int)fd, info);
}

/* Asks for the ids (PIDFD_GET_INFO, pidfd_open(2)) and the capabilities, at a tenth of the cost of a status file,
 * which has the groups too. Returns 0, or a negated errno where the kernel does not tell. */
static int ask_identity(struct confine__supervisor *supervisor, pid_t tid, struct identity *identity) {
  struct pidfd_info info;
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = tid};
  struct __user_cap_data_struct data[2];
  long r = ask_ids(supervisor, tid, &info);
  if (r == 0)
    r = sys(__NR_capget, &header, data);
  if (r < 0)
    return (int)r;
  identity->fsuid = info.fsuid;
  identity->fsgid = info.fsgid;
  identity->effective = data[0].effective | (uint64_t)data[1].effective << 32;
  identity->whole = data[0].effective == data[0].permitted && data[1].effective == data[1].permitted;
  identity->group_count = supervisor->group_count;
  for (int i = 0; i < supervisor->group_count; i++)
    identity->groups[i] = supervisor->groups[i];
  return 0;
}

static int find_identity(struct confine__supervisor *supervisor, pid_t tid, struct identity *identity) {
  if (!supervisor->regrouped && ask_identity(supervisor, tid, identity) == 0)
    return 0;
  confine__identity_return(supervisor);
  return read_status(supervisor, tid, identity);
}

/* setfsuid(2) tells no errors; asking with an impossible id tells the present one. */
static int set_fsid(long number, uint32_t id) {
  sys(number, id);
  return (uint32_t)sys(number, -1l) == id ? 0 : -EPERM;
}

static int set_effective(const struct confine__supervisor *supervisor, uint64_t effective) {
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  struct __user_cap_data_struct data[2] = {{0}, {0}};
  effective &= supervisor->permitted;
  for (int i = 0; i < 2; i++) {
    data[i].permitted = (uint32_t)(supervisor->permitted >> (32 * i));
    data[i].effective = (uint32_t)(effective >> (32 * i));
  }
  return (int)sys(__NR_capset, &header, data);
}

/* The file system ids and groups are the supervisor's own, as they are until a command gives some up. */
static int has_own_ids(const struct confine__supervisor *supervisor, const struct identity *identity) {
  if (identity->fsuid != supervisor->uid || identity->fsgid != supervisor->gid ||
      identity->group_count != supervisor->group_count)
    return 0;
  for (int i = 0; i < identity->group_count; i++)
    if (identity->groups[i] != supervisor->groups[i])
      return 0;
  return 1;
}

static int set_ids(uint32_t fsuid, uint32_t fsgid, int count, const uint32_t *groups) {
  int r = (int)sys(__NR_setgroups, count, groups);
  if (r == 0)
    r = set_fsid(__NR_setfsgid, fsgid);
  return r == 0 ? set_fsid(__NR_setfsuid, fsuid) : r;
}

int confine__identity_take(struct confine__supervisor *supervisor, pid_t tid) {
  struct identity identity;
  if (!supervisor->permitted) {
    supervisor->caller.fsuid = supervisor->uid;
    supervisor->caller.effective = 0;
    return 0;
  }
  int r = find_identity(supervisor, tid, &identity);
  int own_ids = r == 0 && has_own_ids(supervisor, &identity);
  if (own_ids && supervisor->taken & KEEP && supervisor->caller.effective == identity.effective)
    return 0;
  confine__identity_return(supervisor);
  supervisor->taken = CAPABILITIES;
  if (r == 0 && !own_ids) {
    supervisor->taken |= IDS;
    r = set_ids(identity.fsuid, identity.fsgid, identity.group_count, identity.groups);
  }
  /* Capabilities in a user namespace of the command's own count for nothing outside it. */
  if (r == 0)
    r = set_effective(supervisor, supervisor->flags & CONFINE__PLAN_USERNS ? 0 : identity.effective);
  if (r < 0) {
    confine__identity_return(supervisor);
    return -EPERM;
  }
  if (own_ids && identity.whole && !(supervisor->flags & CONFINE__PLAN_USERNS))
    supervisor->taken |= KEEP;
  supervisor->caller.fsuid = identity.fsuid;
  supervisor->caller.effective = identity.effective;
  return 0;
}

void confine__identity_return(struct confine__supervisor *supervisor) {
  if (!supervisor->taken)
    return;
  set_effective(supervisor, supervisor->capabilities);
  if (supervisor->taken & IDS)
    set_ids(supervisor->uid, supervisor->gid, supervisor->group_count, supervisor->groups);
  supervisor->taken = 0;
}

void confine__identity_rest(struct confine__supervisor *supervisor) {
  if (!(supervisor->taken & KEEP))
    confine__identity_return(supervisor);
}

struct confine__caller confine__identity_of(const struct confine__supervisor *supervisor) {
  return supervisor->caller;
}
