#include "enter/sys.h"
#include "monitor/monitor.h"

#include <poll.h>
#include <sys/wait.h>
#include <time.h>

#define ROUND_MS 5
/* How long children are killed where the kernel does not tell when none is left. */
#define BLIND_MS 500

/* Kills the processes named in a buffer of decimal pids; returns where an unfinished number begins. */
static size_t kill_listed(const char *text, size_t length) {
  size_t start = 0;
  pid_t pid = 0;
  for (size_t i = 0; i < length; i++) {
    if (text[i] >= '0' && text[i] <= '9') {
      pid = pid * 10 + (text[i] - '0');
      continue;
    }
    if (pid > 1)
      sys(__NR_kill, pid, SIGKILL);
    pid = 0;
    start = i + 1;
  }
  return start;
}

/* proc(5): /proc/PID/task/TID/children. Exact only while children are frozen, so it is read again until
 * there are none. */
static int kill_children(void) {
  char path[64] = "/proc/self/task/";
  size_t n = sys_strlen(path);
  n += sys_decimal((uint64_t)sys(__NR_gettid), path + n);
  const char tail[] = "/children";
  for (size_t i = 0; i < sizeof tail; i++)
    path[n + i] = tail[i];
  long fd = sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0)
    return (int)fd;
  char text[4096];
  size_t kept = 0;
  for (;;) {
    long got = sys(__NR_read, fd, text + kept, sizeof text - kept);
    if (got <= 0)
      break;
    size_t length = kept + (size_t)got, start = kill_listed(text, length);
    kept = length - start;
    for (size_t i = 0; i < kept; i++)
      text[i] = text[start + i];
  }
  kill_listed("\n", 1);
  sys_close((int)fd);
  return 0;
}

int confine__end_tree(int limit_ms, pid_t command, int *command_status) {
  int64_t start = sys_now_ms();
  for (;;) {
    int status;
    long pid;
    while ((pid = sys(__NR_wait4, -1, &status, WNOHANG | __WALL, 0)) > 0)
      if (pid == command)
        *command_status = status;
    if (pid == -ECHILD)
      return 1;
    kill_children();
    if (pid < 0 && limit_ms > BLIND_MS)
      limit_ms = BLIND_MS;
    if (sys_now_ms() > start + limit_ms)
      return 0;
    struct timespec pause = {.tv_nsec = ROUND_MS * 1000000l / 10};
    sys(__NR_nanosleep, &pause, 0);
  }
}
