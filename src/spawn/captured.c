#include "spawn/captured.h"
#include "base/error.h"
#include "monitor/monitor.h"
#include "monitor/protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* What a monitor may take, beyond the limit, to end a tree before it is given up. */
#define END_SLACK_MS 11000
/* What it may take to say that the program has started, beyond the limit. */
#define START_SLACK_MS 100
#define READS_MAX 16

struct confine__capture {
  struct confine__plan plan;
  struct confine__monitor monitor;
  pid_t pid;
  void *stack;
  int channel, output;
  int64_t limit; /* on the monotonic clock, in ms */
};

static int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000ll + now.tv_nsec / 1000000;
}

/* A host may have closed its standard streams, but the child makes its own from descriptors above them. */
static int above_stdio(int fd) {
  if (fd < 0 || fd > 2)
    return fd;
  int moved = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  int saved = errno;
  close(fd);
  errno = saved;
  return moved;
}

/* [0] is /dev/null, [1] the reading and [2] the writing end of the pipe. */
static int open_streams(int streams[3]) {
  int ends[2];
  streams[0] = above_stdio(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (streams[0] < 0)
    return -errno;
  if (pipe2(ends, O_CLOEXEC) != 0)
    return -errno;
  streams[1] = above_stdio(ends[0]);
  int r = streams[1] < 0 ? -errno : 0;
  streams[2] = above_stdio(ends[1]);
  if (r == 0 && streams[2] < 0)
    r = -errno;
  if (r == 0 && fcntl(streams[1], F_SETFL, O_NONBLOCK) != 0)
    r = -errno;
  return r;
}

static void close_streams(const int streams[3]) {
  for (int i = 0; i < 3; i++)
    if (streams[i] >= 0)
      close(streams[i]);
}

int confine__capture_start(const char *const *argv, int64_t limit_ms, struct confine__capture **ret_capture,
                           confine_error *error) {
  static const char *const environment[] = {"PATH=/usr/bin:/bin", "LC_ALL=C", NULL};
  int streams[3] = {-1, -1, -1};
  sigset_t every, mask;
  struct confine__capture *capture = calloc(1, sizeof *capture);
  if (!capture)
    return confine__error_memory(error);
  int r = open_streams(streams);
  if (r < 0)
    goto fail;
  capture->plan = (struct confine__plan){
      .cwd.fd = -1,
      .argv = (char *const *)(uintptr_t)argv,
      .envp = (char *const *)(uintptr_t)environment,
      .stdio = {streams[0], streams[2], streams[2]},
      .keep_fd = -1,
  };
  capture->monitor = (struct confine__monitor){.plan = &capture->plan, .timeout_ms = limit_ms, .announce = 1};
  capture->limit = now_ms() + limit_ms;
  /* The child shares this memory until it executes, so no handler of the host may run in it. */
  sigfillset(&every);
  pthread_sigmask(SIG_SETMASK, &every, &mask);
  r = confine__monitor_start(&capture->monitor, &capture->channel, &capture->pid, &capture->stack);
  pthread_sigmask(SIG_SETMASK, &mask, NULL);
  if (r < 0)
    goto fail;
  close(streams[0]);
  close(streams[2]);
  capture->output = streams[1];
  *ret_capture = capture;
  return 0;
fail:
  close_streams(streams);
  free(capture);
  return confine__error_errno(error, r == -ENOMEM ? CONFINE_ENOMEM : CONFINE_ESYSTEM, -r, "%s could not be started",
                              argv[0]);
}

/* Returns 0 when there is nothing more to come. A flood must not keep the clock from being read. */
static int read_output(int fd, struct confine__captured *captured) {
  for (int i = 0; i < READS_MAX; i++) {
    char dropped[4096];
    size_t room = CONFINE__CAPTURE_MAX - captured->length;
    ssize_t got = read(fd, room ? captured->output + captured->length : dropped, room ? room : sizeof dropped);
    if (got <= 0)
      return got < 0 && (errno == EAGAIN || errno == EINTR);
    if (room)
      captured->length += (size_t)got;
  }
  return 1;
}

/* Returns 0 when the monitor will say nothing more: its end of the channel has closed. */
static int on_channel(struct confine__capture *capture, struct confine__captured *captured) {
  const struct confine__monitor *monitor = &capture->monitor;
  struct confine__message message;
  ssize_t got = recv(capture->channel, &message, sizeof message, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR))
    return 1;
  captured->started = monitor->started;
  if (got == (ssize_t)sizeof message)
    return 1;
  captured->timed_out = monitor->timed_out;
  if (monitor->ended)
    captured->wait_status = monitor->wait_status;
  else if (!monitor->started)
    captured->error = monitor->outcome.error;
  return 0;
}

static void watch(struct confine__capture *capture, struct confine__captured *captured) {
  struct pollfd fds[2] = {{.fd = capture->channel, .events = POLLIN}, {.fd = capture->output, .events = POLLIN}};
  for (;;) {
    /* Before the program has started (its file may lie on a server that does not answer) the monitor
     * is suspended and keeps no time. */
    int64_t left = capture->limit + (captured->started ? END_SLACK_MS : START_SLACK_MS) - now_ms();
    if (left <= 0) {
      captured->timed_out = 1;
      return;
    }
    poll(fds, 2, left < 60000 ? (int)left : 60000);
    if (fds[1].revents && !read_output(capture->output, captured))
      fds[1].fd = -1;
    if (fds[0].revents && !on_channel(capture, captured))
      return;
  }
}

void confine__capture_finish(struct confine__capture *capture, struct confine__captured *ret_captured) {
  struct confine__captured *captured = ret_captured;
  captured->started = captured->error = captured->timed_out = 0;
  captured->wait_status = SIGKILL;
  captured->length = 0;
  watch(capture, captured);
  read_output(capture->output, captured);
  captured->output[captured->length] = '\0';
  close(capture->output);
  close(capture->channel);
  /* Harmless after its last message; a monitor that did not get that far takes the program with it. */
  kill(capture->pid, SIGKILL);
  while (wait4(capture->pid, NULL, __WALL, NULL) < 0 && errno == EINTR)
    ;
  confine__monitor_release(capture->stack);
  free(capture);
}
