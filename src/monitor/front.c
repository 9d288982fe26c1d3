#include "monitor/front.h"
#include "monitor/monitor.h"
#include "monitor/supervisor.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
#include <fcntl.h>

#define END_LIMIT_MS 10000
/* Between SIGTERM at a timeout and the end of the tree. */
#define GRACE_MS 3000
/* How long a runner's own program may take until the launcher inside it has started the command. */
#define START_LIMIT_MS 15000
/* System calls, so some 20 microseconds, before reaping the monitor is slept for. */
#define LOOKS 100
#define REAP_LIMIT_MS 1000

struct front {
  const struct confine__front_options *options;
  struct confine__front_result *result;
  struct confine__monitor *monitor;
  int channel, signals;
  pid_t monitor_pid;
  int monitor_gone, inner_known;
  int stops; /* of the command, that were told */
  int parent; /* pidfd, or -1 */
  int terminal; /* descriptor of our controlling terminal, or -1 */
  pid_t foreground;
  struct termios settings;
};

/* The system call itself: finding the kernel's faster way costs more than it saves in two calls. */
static double now_ms(void) {
  struct timespec now;
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* The command may leave the terminal raw or give it to a process group that ends with it. */
static void save_terminal(struct front *front) {
  front->terminal = -1;
  for (int fd = 0; fd < 3; fd++) {
    if (tcgetattr(fd, &front->settings) != 0)
      continue;
    front->foreground = tcgetpgrp(fd);
    if (front->foreground == getpgrp())
      front->terminal = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    return;
  }
}

/* If this job has been put into the background meanwhile, the terminal is somebody else's now; if its
 * process group has ended with the command, nobody's. SIGTTOU is blocked, so no call stops us. */
static void restore_terminal(struct front *front) {
  if (front->terminal < 0)
    return;
  pid_t holder = tcgetpgrp(front->terminal);
  if (holder > 0 && holder != front->foreground && kill(-holder, 0) != 0 && errno == ESRCH) {
    tcsetpgrp(front->terminal, front->foreground);
    holder = front->foreground;
  }
  if (holder == front->foreground)
    tcsetattr(front->terminal, TCSADRAIN, &front->settings);
  close(front->terminal);
}

static void send_to(int channel, uint32_t type, int value, int detail) {
  struct confine__message message = {.type = type, .value = value, .detail = detail, .index = -1};
  if (channel >= 0)
    send(channel, &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* A launcher inside ends its own tree; the monitor gives it the time. */
static void end_tree(const struct front *front) {
  send_to(front->options->inside, CONFINE__MESSAGE_END, 0, 0);
  send_to(front->channel, CONFINE__MESSAGE_END, 0, 0);
}

static void forward(const struct front *front, int signal, int stops) {
  send_to(front->options->inside >= 0 ? front->options->inside : front->channel, CONFINE__MESSAGE_SIGNAL, signal,
          stops);
}

/* Returns 1 with a message, 0 when there is none now, -1 when the other end has closed. It may have closed
 * with a message of ours unread (ECONNRESET), and yet have sent some before. */
static int receive(int channel, struct confine__message *message) {
  ssize_t got = recv(channel, message, sizeof *message, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNRESET))
    return 0;
  return got == (ssize_t)sizeof *message ? 1 : -1;
}

static void report(struct front *front, const struct confine__message *message) {
  if (front->options->outside >= 0)
    send(front->options->outside, message, sizeof *message, MSG_NOSIGNAL);
}

/* What the terminal sends, it sends to the command as well: both are of one process group. Only a hang-up
 * goes to the leader of the session alone, which may be this process. */
static int is_for_both(const struct signalfd_siginfo *info) {
  if (info->ssi_code != SI_KERNEL || info->ssi_signo == SIGCONT)
    return 0;
  return info->ssi_signo != SIGHUP || getsid(0) != getpid();
}

static void on_signal(struct front *front) {
  struct signalfd_siginfo info;
  while (read(front->signals, &info, sizeof info) == (ssize_t)sizeof info) {
    if (is_for_both(&info))
      continue;
    forward(front, (int)info.ssi_signo, front->stops);
  }
}

/* What can stop a process (signal(7)). */
static int is_stop(int number) {
  return number == SIGSTOP || number == SIGTSTP || number == SIGTTIN || number == SIGTTOU;
}

/* A shell tells people by which signal its job stopped. One that is ignored here would stop nothing. */
static void stop_like(int number) {
  struct sigaction action;
  if (sigaction(number, NULL, &action) != 0 || action.sa_handler != SIG_DFL)
    number = SIGSTOP;
  uint64_t only = 1ull << (number - 1);
  kill(getpid(), number);
  syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &only, NULL, sizeof only);
  syscall(SYS_rt_sigprocmask, SIG_BLOCK, &only, NULL, sizeof only);
}

/* A terminal that stops the job again before this process has blocked the signal anew stops it by itself. By the time
 * it is told of that stop the whole job has gone on. Of a command that is not the monitor's child one cannot tell. */
static int has_gone_on(const struct front *front) {
  const struct confine__monitor *monitor = front->monitor;
  char state = '\0';
  if (front->options->inside < 0 && monitor->command_descriptor < 0)
    state = confine__process_state(monitor->command);
  return state && state != 'T' && state != 't';
}

/* Our own parent sees a stopped job only if this process stops too. A caller outside is told instead, since
 * a stopped launcher would not hear its answer. */
static void on_stopped(struct front *front, const struct confine__message *message) {
  front->stops = message->detail;
  if (!is_stop(message->value))
    return; /* it would end this process, and no command has stopped by it */
  if (front->options->outside >= 0) {
    report(front, message);
    return;
  }
  if (has_gone_on(front))
    return;
  stop_like(message->value);
  forward(front, SIGCONT, front->stops);
  if (front->options->inside >= 0) /* the runner's own process */
    send_to(front->channel, CONFINE__MESSAGE_SIGNAL, SIGCONT, CONFINE__ANY_STOP);
}

/* A reader or writer at the other end must see when the command lets go, not when this process does. */
static void release_stdio(const struct front *front) {
  if (!front->options->release_stdio || front->result->stdio_released)
    return;
  front->result->stdio_released = 1;
  int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (nothing < 0)
    return;
  dup2(nothing, STDIN_FILENO);
  dup2(nothing, STDOUT_FILENO);
  close(nothing);
}

static void on_started(struct front *front, struct confine__message *message) {
  message->value |= front->options->cwd_hidden;
  front->result->started = 1;
  front->result->cwd_hidden = message->value & 1;
}

static void note_setup(struct confine__front_result *result, const struct confine__message *message) {
  result->step = (enum confine__step)message->value;
  result->error = message->detail;
  result->index = message->index;
}

static void send_denials(struct front *front) {
  const struct confine__denials *denials = front->options->denials;
  struct confine__denial_message message;
  for (size_t i = 0; denials && front->options->outside >= 0 && i < denials->count; i++) {
    const struct confine__denial *denial = &denials->entries[i];
    size_t length = denial->path_length < sizeof message.path ? denial->path_length : sizeof message.path;
    message.head = (struct confine__message){CONFINE__MESSAGE_DENIAL, denial->operation, denial->error, denial->pid};
    message.count = denial->count;
    memcpy(message.comm, denial->comm, sizeof message.comm);
    memcpy(message.path, denials->names + denial->path, length);
    send(front->options->outside, &message, offsetof(struct confine__denial_message, path) + length, MSG_NOSIGNAL);
  }
  if (denials && denials->dropped) {
    struct confine__message dropped = {CONFINE__MESSAGE_DROPPED, (int32_t)(uint32_t)denials->dropped,
                                       (int32_t)(uint32_t)(denials->dropped >> 32), -1};
    report(front, &dropped);
  }
}

static void take_denial(struct front *front, const struct confine__denial_message *message, size_t size) {
  struct confine__denials *denials = front->options->denials;
  size_t offset = offsetof(struct confine__denial_message, path);
  if (!denials || size < offset)
    return;
  if (message->head.value < CONFINE__OPERATION_OPEN || message->head.value > CONFINE__OPERATION_LAST) {
    denials->dropped += message->count; /* without a name for it, it can be counted and not be told */
    return;
  }
  struct confine__denial denial = {.operation = message->head.value,
                                   .error = message->head.detail,
                                   .pid = message->head.index,
                                   .count = message->count};
  memcpy(denial.comm, message->comm, sizeof denial.comm - 1);
  confine__denials_add(denials, &denial, message->path, size - offset);
}

/* What the command's side says in whichever way, to this process's result and to the caller outside. */
static void take(struct front *front, struct confine__message *message) {
  struct confine__front_result *result = front->result;
  switch (message->type) {
  case CONFINE__MESSAGE_STARTED:
    on_started(front, message);
    if (!front->monitor_gone)
      release_stdio(front);
    break;
  case CONFINE__MESSAGE_SETUP_FAILED:
    note_setup(result, message);
    break;
  case CONFINE__MESSAGE_DROPPED:
    if (front->options->denials)
      front->options->denials->dropped += (uint32_t)message->value | (uint64_t)(uint32_t)message->detail << 32;
    return;
  case CONFINE__MESSAGE_ENDED:
    result->ended = 1;
    result->wait_status = message->value;
    send_denials(front);
    break;
  default:
    return;
  }
  report(front, message);
}

/* The channel has closed: what the monitor left in the memory it shares is all there is to know. */
static void take_last_word(struct front *front) {
  const struct confine__monitor *monitor = front->monitor;
  front->monitor_gone = 1;
  front->result->timed_out |= monitor->timed_out;
  if (front->options->inside >= 0 && monitor->started)
    return; /* the runner's own process; of the command the launcher inside it tells */
  struct confine__message message = {.index = -1};
  if (monitor->started && !front->result->started) {
    message.type = CONFINE__MESSAGE_STARTED;
    message.value = monitor->outcome.cwd_hidden;
    take(front, &message);
  }
  if (monitor->ended) {
    message = (struct confine__message){CONFINE__MESSAGE_ENDED, monitor->wait_status, monitor->timed_out, -1};
    take(front, &message);
  } else if (!monitor->started && monitor->outcome.step != CONFINE__STEP_NONE) {
    message = (struct confine__message){CONFINE__MESSAGE_SETUP_FAILED, monitor->outcome.step,
                                        monitor->outcome.error, monitor->outcome.index};
    take(front, &message);
  }
}

static void on_monitor(struct front *front) {
  struct confine__message message;
  int got = receive(front->channel, &message);
  if (got == 0)
    return;
  if (got < 0) {
    take_last_word(front);
  } else if (message.type == CONFINE__MESSAGE_STOPPED && front->options->inside < 0) {
    on_stopped(front, &message);
  } else if (message.type == CONFINE__MESSAGE_ENDED) {
    take_last_word(front);
  } else if (front->options->inside < 0) {
    take(front, &message);
  }
}

/* Messages of the launcher that runs inside the plan's command. */
static void on_inside(struct front *front) {
  struct confine__denial_message message;
  ssize_t got = recv(front->options->inside, &message, sizeof message, MSG_DONTWAIT);
  /* ECONNRESET: it has closed with a message of ours unread, but may have sent some before. */
  if (got < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNRESET))
    return;
  if (got < (ssize_t)sizeof message.head)
    front->inner_known = 1; /* its end is closed: nothing more will come */
  else if (message.head.type == CONFINE__MESSAGE_DENIAL)
    take_denial(front, &message, (size_t)got);
  else if (message.head.type == CONFINE__MESSAGE_STOPPED)
    on_stopped(front, &message.head);
  else
    take(front, &message.head);
}

static void keep_tail(struct confine__tail *tail, const char *bytes, size_t length) {
  if (length > sizeof tail->bytes / 2) {
    bytes += length - sizeof tail->bytes / 2;
    length = sizeof tail->bytes / 2;
  }
  if (tail->length + length > sizeof tail->bytes) {
    size_t kept = sizeof tail->bytes / 2;
    memmove(tail->bytes, tail->bytes + tail->length - kept, kept);
    tail->length = kept;
  }
  memcpy(tail->bytes + tail->length, bytes, length);
  tail->length += length;
}

/* Returns 0 when there is nothing more to come now. */
static int pass_stderr(const struct front *front) {
  char bytes[8192];
  ssize_t got = read(front->options->stderr_pipe, bytes, sizeof bytes);
  if (got <= 0)
    return 0;
  keep_tail(front->options->stderr_tail, bytes, (size_t)got);
  for (ssize_t done = 0, n; done < got; done += n) {
    n = write(STDERR_FILENO, bytes + done, (size_t)(got - done));
    if (n < 0)
      break; /* nobody to pass it on to; it is still read, so that the command is not held up */
  }
  return 1;
}

/* The caller outside sends signals for the command, or vanishes. */
static int on_outside(struct front *front) {
  struct confine__message message;
  int got = receive(front->options->outside, &message);
  if (got > 0)
    send_to(front->channel, message.type, message.value, message.detail);
  return got < 0 ? -1 : 0;
}

/* For poll(2), at least a millisecond; 0 when it is past. */
static int ms_until(double deadline) {
  double left = deadline - now_ms();
  return left <= 0 ? 0 : (int)(left < 1e6 ? left + 1 : 1e6);
}

/* With a launcher inside. Returns the time of the next step, or 0. */
static double on_time_limit(struct front *front) {
  if (front->result->timed_out) {
    end_tree(front);
    return 0;
  }
  front->result->timed_out = 1;
  front->monitor->keep_background = 0; /* the monitor's deadline may not be there before the command's end */
  forward(front, SIGTERM, CONFINE__ANY_STOP);
  forward(front, SIGCONT, CONFINE__ANY_STOP);
  return now_ms() + GRACE_MS;
}

static void watch(struct front *front) {
  const struct confine__front_options *options = front->options;
  /* A runner's program that hangs would keep its caller waiting for ever. */
  double start_limit = options->inside >= 0 ? now_ms() + START_LIMIT_MS : 0;
  double deadline = options->timeout_ms && options->inside >= 0 ? now_ms() + (double)options->timeout_ms : 0;
  struct pollfd fds[6] = {{.fd = front->channel, .events = POLLIN},
                          {.fd = front->signals, .events = POLLIN},
                          {.fd = options->inside, .events = POLLIN},
                          {.fd = options->outside, .events = POLLIN},
                          {.fd = front->parent, .events = POLLIN},
                          {.fd = options->stderr_pipe, .events = POLLIN}};
  while (!front->monitor_gone) {
    int wait = -1;
    if (front->result->started || front->inner_known)
      start_limit = 0;
    if (start_limit > 0 && (wait = ms_until(start_limit)) == 0) {
      end_tree(front);
      start_limit = 0;
      continue;
    }
    if (deadline > 0) {
      int left = ms_until(deadline);
      if (left == 0) {
        deadline = on_time_limit(front);
        continue;
      }
      wait = wait < 0 || left < wait ? left : wait;
    }
    if (poll(fds, 6, wait) < 0)
      continue;
    if (fds[2].revents) {
      on_inside(front);
      if (front->inner_known)
        fds[2].fd = -1;
    }
    if (fds[0].revents)
      on_monitor(front);
    if (fds[1].revents)
      on_signal(front);
    if (fds[3].revents && on_outside(front) != 0) {
      end_tree(front);
      fds[3].fd = -1;
    }
    if (fds[5].revents && !pass_stderr(front))
      fds[5].fd = -1;
    if (fds[4].revents) {
      end_tree(front);
      fds[4].fd = -1;
    }
  }
  struct pollfd rest = {.fd = options->stderr_pipe, .events = POLLIN};
  while (options->stderr_pipe >= 0 && poll(&rest, 1, 0) > 0 && pass_stderr(front))
    ;
  /* What the launcher inside said before it ended. */
  while (options->inside >= 0 && !front->inner_known) {
    struct pollfd last = {.fd = options->inside, .events = POLLIN};
    if (poll(&last, 1, 0) <= 0)
      break;
    on_inside(front);
  }
}

/* Whether somebody at the other end of standard input or output can tell when it is let go. */
static int has_peer(void) {
  struct stat st;
  for (int fd = STDIN_FILENO; fd <= STDOUT_FILENO; fd++)
    if (fstat(fd, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)))
      return 1;
  return 0;
}

static int open_signals(void) {
  sigset_t set;
  sigemptyset(&set);
  static const int watched[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT, SIGTSTP};
  for (size_t i = 0; i < sizeof watched / sizeof watched[0]; i++)
    sigaddset(&set, watched[i]);
  return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* The monitor was killed, or could not go on: this process is a subreaper, the command's processes are its children
 * now. Returns 0 if one of them, or the monitor itself, could not be ended. */
static int after_lost_monitor(struct front *front) {
  int status = 0, none_left = confine__end_tree(END_LIMIT_MS, -1, &status);
  if (front->result->ended)
    return none_left; /* the launcher inside has told of the command */
  front->result->step = CONFINE__STEP_MONITOR;
  front->result->error = front->monitor->outcome.error; /* 0: it was killed */
  return none_left;
}

/* It closed the channel on its way out: it is nearly gone, and sleeping takes longer than looking again. Returns 0 if a
 * call that the supervisor has made for the command keeps it, which not even SIGKILL may end. */
static int reap_monitor(pid_t pid) {
  for (int i = 0; i < LOOKS; i++)
    if (waitpid(pid, NULL, __WALL | WNOHANG) != 0)
      return 1;
  struct pollfd end = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
  poll(&end, 1, REAP_LIMIT_MS);
  close(end.fd);
  return waitpid(pid, NULL, __WALL | WNOHANG) != 0;
}

/* Returns 0 if the monitor lives on, for background processes or in a call that does not end. */
static int finish(struct front *front) {
  const struct confine__monitor *monitor = front->monitor;
  struct confine__front_result *result = front->result;
  int lost = !monitor->ended && monitor->outcome.step == CONFINE__STEP_NONE;
  if (lost)
    return after_lost_monitor(front);
  if (monitor->keep_background && !result->timed_out && result->ended)
    return 0;
  return reap_monitor(front->monitor_pid);
}

int confine__front_run(struct confine__plan *plan, const struct confine__front_options *options,
                       struct confine__front_result *result) {
  struct confine__front_result blank = {.index = -1};
  struct front front = {.options = options, .result = result, .monitor_pid = -1};
  struct confine__monitor monitor = {.plan = plan,
                                     .keep_background = options->keep_background,
                                     .denials = options->denials,
                                     .timeout_ms = options->timeout_ms,
                                     .grace_ms = GRACE_MS,
                                     .terminate_outside = options->inside >= 0};
  uint64_t every = ~0ull; /* sigfillset(3) leaves out what the C library keeps for itself */
  void *stack = NULL;
  *result = blank;
  front.monitor = &monitor;
  monitor.announce = options->outside >= 0 || (options->release_stdio && has_peer());
  syscall(SYS_rt_sigprocmask, SIG_BLOCK, &every, &plan->signal_mask, sizeof every);
  plan->flags |= CONFINE__PLAN_SIGNAL_MASK;
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  save_terminal(&front);
  double start = now_ms();
  front.signals = open_signals();
  front.parent = options->parent;
  if (options->follow_parent && front.parent < 0)
    front.parent = (int)syscall(SYS_pidfd_open, getppid(), 0);
  int r = front.signals < 0 ? -errno
                            : confine__monitor_start(&monitor, &front.channel, &front.monitor_pid, &stack);
  if (options->stderr_pipe >= 0)
    close(options->stderr_writer);
  if (r == 0) {
    watch(&front);
    if (finish(&front) && !options->last_act)
      confine__monitor_release(stack);
    if (!options->last_act)
      close(front.channel);
    result->duration_ms = now_ms() - start;
  }
  restore_terminal(&front);
  if (front.signals >= 0 && !options->last_act)
    close(front.signals);
  if (front.parent >= 0)
    close(front.parent);
  if (!result->started || !options->last_act)
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &plan->signal_mask, NULL, sizeof plan->signal_mask);
  return r;
}

/* The C library keeps some real-time signals for itself, and refuses to touch them. */
_Noreturn void confine__front_mirror(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    int number = WTERMSIG(wait_status);
    struct rlimit none = {0, 0};
    struct {
      void *handler;
      unsigned long flags;
      void *restorer;
      uint64_t mask;
    } by_default = {0};
    uint64_t set = 1ull << (number - 1);
    setrlimit(RLIMIT_CORE, &none);
    syscall(SYS_rt_sigaction, number, &by_default, NULL, sizeof set);
    raise(number);
    syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &set, NULL, sizeof set);
    _exit(128 + number);
  }
  _exit(WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 125);
}
