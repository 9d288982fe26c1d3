#include "enter/sys.h"
#include "monitor/supervisor.h"

#include "guard/calls.h"

/* More generations than any real tree has; what is deeper is refused. */
#define GENERATIONS_MAX 4096

/* The parent of a process or thread, from the fourth field of proc(5)'s stat. */
static pid_t parent_of(pid_t pid) {
  char text[512];
  if (confine__process_read(pid, "/stat", text, sizeof text) <= 0)
    return -1;
  const char *at = confine__stat_state(text);
  if (!at || at[1] != ' ')
    return -1;
  pid_t parent = 0;
  for (at += 2; *at >= '0' && *at <= '9'; at++)
    parent = parent * 10 + (*at - '0');
  return parent;
}

static int is_descendant(const struct confine__supervisor *supervisor, pid_t pid) {
  for (int i = 0; i < GENERATIONS_MAX && pid > 1; i++) {
    pid = parent_of(pid);
    if (pid == supervisor->monitor)
      return 1;
  }
  return 0;
}

long confine__limit_call(struct confine__supervisor *supervisor, const struct seccomp_notif *notification, int call) {
  int second = call == CONFINE__CALL_setpriority || call == CONFINE__CALL_ioprio_set;
  pid_t pid = (pid_t)notification->data.args[second ? 1 : 0];
  /* In a process namespace of its own the command can name nobody else. */
  if (supervisor->flags & CONFINE__PLAN_ISOLATE_PROCESS)
    return CONFINE__LET_KERNEL;
  return is_descendant(supervisor, pid) ? CONFINE__LET_KERNEL : -EPERM;
}
