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
enum { CAPABILITIES = 1, IDS = 2 };

struct identity {
  uint32_t fsuid, fsgid;
  uint64_t effective;
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

/* Asks for the ids (PIDFD_GET_INFO, pidfd_open(2)) and the capabilities, at a fifth of the cost of a status file,
 * which has the groups too. Returns 0, or a negated errno where the kernel does not tell. */
static int ask_identity(const struct confine__supervisor *supervisor, pid_t tid, struct identity *identity) {
  struct pidfd_info info = {.mask = INFO_CREDENTIALS};
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = tid};
  struct __user_cap_data_struct data[2];
  long fd = sys(__NR_pidfd_open, tid, SYS_PIDFD_THREAD);
  if (fd < 0)
    return (int)fd;
  long r = sys(__NR_ioctl, fd, GET_INFO, &info);
  sys_close((int)fd);
  if (r == 0)
    r = info.mask & INFO_CREDENTIALS ? sys(__NR_capget, &header, data) : -ESRCH;
  if (r < 0)
    return (int)r;
  identity->fsuid = info.fsuid;
  identity->fsgid = info.fsgid;
  identity->effective = data[0].effective | (uint64_t)data[1].effective << 32;
  identity->group_count = supervisor->group_count;
  for (int i = 0; i < supervisor->group_count; i++)
    identity->groups[i] = supervisor->groups[i];
  return 0;
}

static int find_identity(struct confine__supervisor *supervisor, pid_t tid, struct identity *identity) {
  if (!supervisor->regrouped && ask_identity(supervisor, tid, identity) == 0)
    return 0;
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
  supervisor->taken = CAPABILITIES;
  if (r == 0 && !has_own_ids(supervisor, &identity)) {
    supervisor->taken |= IDS;
    r = set_ids(identity.fsuid, identity.fsgid, identity.group_count, identity.groups);
  }
  /* Capabilities in a user namespace of the command's own count for nothing outside it. */
  if (r == 0)
    r = set_effective(supervisor, supervisor->flags & CONFINE__PLAN_USERNS ? 0 : identity.effective);
  supervisor->caller.fsuid = identity.fsuid;
  supervisor->caller.effective = identity.effective;
  if (r < 0)
    confine__identity_return(supervisor);
  return r < 0 ? -EPERM : 0;
}

void confine__identity_return(struct confine__supervisor *supervisor) {
  if (!supervisor->taken)
    return;
  set_effective(supervisor, supervisor->capabilities);
  if (supervisor->taken & IDS)
    set_ids(supervisor->uid, supervisor->gid, supervisor->group_count, supervisor->groups);
  supervisor->taken = 0;
}

struct confine__caller confine__identity_of(const struct confine__supervisor *supervisor) {
  return supervisor->caller;
}
