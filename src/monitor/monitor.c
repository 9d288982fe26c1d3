#include "monitor/monitor.h"
#include "enter/sys.h"
#include "monitor/namespace.h"
#include "monitor/protocol.h"
#include "monitor/supervisor.h"

#include <linux/futex.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#define MONITOR_STACK (64 * 1024)
#define COMMAND_STACK (128 * 1024) /* the shifted arguments of a script are the largest thing on it */
#define INIT_STACK (64 * 1024)
#define SUPERVISOR_STACK (64 * 1024)
#define STACKS (MONITOR_STACK + COMMAND_STACK + INIT_STACK + SUPERVISOR_STACK)
#define AREA (STACKS + sizeof(struct confine__supervisor))
/* How long ending a tree may take; only a process stuck in the kernel needs more than milliseconds. */
#define END_LIMIT_MS 10000
/* How long a launcher inside may take to end its tree once its caller is gone. */
#define INSIDE_LIMIT_MS 1500

static void send_message(const struct confine__monitor *monitor, uint32_t type, int value, int detail,
                         int index) {
  struct confine__message message = {type, value, detail, index};
  sys(__NR_sendto, monitor->channel, &message, sizeof message, MSG_NOSIGNAL, 0, 0);
}

static void tell_stopped(struct confine__monitor *monitor, int status) {
  monitor->told_stopped = 1;
  send_message(monitor, CONFINE__MESSAGE_STOPPED, WSTOPSIG(status), ++monitor->stops, -1);
}

static void return_child_action(const struct confine__monitor *monitor) {
  if (monitor->child_action.handler == (void *)SIG_IGN)
    sys(__NR_rt_sigaction, SIGCHLD, &monitor->child_action, 0, 8);
}

/* The command's side of clone, sharing memory with a suspended monitor until it execs or exits. */
static int become_command(void *arg) {
  struct confine__monitor *monitor = arg;
  /* If the monitor is killed, at least the command itself dies with it at once. */
  sys(__NR_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  return_child_action(monitor);
  confine__enter(monitor->plan, &monitor->outcome);
  return 127;
}

/* The first process of a process namespace, which ends with it: it sets the tree up, starts the command
 * and reaps. It never execs, and sits in the monitor's memory and table of descriptors. */
struct init {
  struct confine__monitor *monitor;
  struct confine__enter_state state;
};

static int become_inner_command(void *arg) {
  struct init *init = arg;
  sys(__NR_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  return_child_action(init->monitor);
  confine__enter_command(&init->state);
  return 127;
}

static void init_ready(struct confine__monitor *monitor) {
  __atomic_store_n(&monitor->init_ready, 1, __ATOMIC_RELEASE);
  sys(__NR_futex, &monitor->init_ready, FUTEX_WAKE, 1, 0, 0, 0);
}

static long start_inner_command(struct init *init) {
  struct confine__monitor *monitor = init->monitor;
  if (confine__enter_tree(&init->state) != 0)
    return -1;
  long pid = confine__clone(SYS_CLONE_VM | SYS_CLONE_VFORK | SYS_CLONE_FILES | SIGCHLD, monitor->command_stack,
                            become_inner_command, init);
  if (pid < 0) {
    confine__fail(&init->state, CONFINE__STEP_CLONE, -1, pid);
    return -1;
  }
  if (monitor->outcome.step != CONFINE__STEP_NONE)
    return -1;
  long descriptor = sys(__NR_pidfd_open, pid, 0);
  if (descriptor < 0) {
    confine__fail(&init->state, CONFINE__STEP_INIT, -1, descriptor);
    return -1;
  }
  monitor->command_descriptor = (int)descriptor;
  return pid;
}

static int become_init(void *arg) {
  struct init init = {.monitor = arg, .state = {.plan = ((struct confine__monitor *)arg)->plan}};
  struct confine__monitor *monitor = init.monitor;
  init.state.outcome = &monitor->outcome;
  sys(__NR_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  long command = start_inner_command(&init);
  init_ready(monitor);
  for (int status; command > 0;) {
    long pid = sys(__NR_wait4, -1, &status, WUNTRACED | __WALL, 0);
    if (pid == command && WIFSTOPPED(status)) {
      tell_stopped(monitor, status);
    } else if (pid == command || pid == -ECHILD) {
      monitor->inner_status = status;
      monitor->inner_ended = pid == command;
      return 0;
    }
  }
  return 127;
}

struct watch {
  struct confine__monitor *monitor;
  int signals;        /* signalfd of SIGCHLD */
  int listener;       /* of the supervisor, or -1 */
  int handed_over;    /* the supervisor's own thread has it */
  int serving_error;  /* of that thread, which has ended with it */
  struct confine__supervisor *supervisor;
  int64_t deadline;   /* 0: none */
  int terminated;     /* the polite signal has been sent */
  int ending;         /* a launcher inside has been told to end */
  int ended, status, timed_out;
  int caller_gone;
  int error; /* what this process cannot do without has failed; how the command ends is not known */
};

/* Until the init process has started the command, or has been killed before it could. */
static void wait_for_init(struct confine__monitor *monitor) {
  struct timespec pause = {.tv_nsec = 50 * 1000000};
  while (!__atomic_load_n(&monitor->init_ready, __ATOMIC_ACQUIRE)) {
    siginfo_t gone = {0};
    sys(__NR_futex, &monitor->init_ready, FUTEX_WAIT, 0, &pause, 0, 0);
    sys(__NR_waitid, P_PID, monitor->command, &gone, WEXITED | WNOHANG | WNOWAIT | __WALL, 0);
    if (gone.si_pid && !__atomic_load_n(&monitor->init_ready, __ATOMIC_ACQUIRE)) {
      monitor->outcome.step = CONFINE__STEP_INIT;
      monitor->outcome.error = ECANCELED;
      return;
    }
  }
}

static int start_command(struct watch *watch) {
  struct confine__monitor *monitor = watch->monitor;
  const struct confine__plan *plan = monitor->plan;
  struct confine__outcome *outcome = &monitor->outcome;
  unsigned long namespaces = confine__plan_namespaces(plan);
  long r = 0;
  /* A mount namespace translates the current directory, so the workspace is entered by descriptor. */
  if ((plan->flags & CONFINE__PLAN_MOUNTS) && plan->root_count)
    r = sys(__NR_fchdir, plan->roots[0].fd);
  if (r < 0) {
    outcome->step = CONFINE__STEP_OPEN_ROOT;
    outcome->index = 0;
    outcome->error = (int32_t)-r;
    return -1;
  }
  int nested = (namespaces & SYS_CLONE_NEWPID) != 0;
  r = confine__clone(SYS_CLONE_VM | (nested ? 0 : SYS_CLONE_VFORK) | SYS_CLONE_FILES | namespaces | SIGCHLD,
                     nested ? monitor->init_stack : monitor->command_stack, nested ? become_init : become_command,
                     monitor);
  if (r < 0) {
    outcome->step = CONFINE__STEP_CLONE;
    outcome->index = -1;
    outcome->error = (int32_t)-r;
    return -1;
  }
  monitor->command = (pid_t)r;
  if (nested)
    wait_for_init(monitor);
  if (outcome->step == CONFINE__STEP_NONE)
    return 0;
  sys(__NR_wait4, monitor->command, 0, __WALL, 0);
  return -1;
}

/* The command's own end, where what ended is the init process above it. */
static int status_of(const struct confine__monitor *monitor, int status) {
  return monitor->inner_ended ? monitor->inner_status : status;
}

static void give_up(struct watch *watch, long error) {
  watch->error = (int)-error;
  watch->ended = 1;
}

/* Returns 0 when no child is left. */
static int reap(struct watch *watch) {
  int status;
  long pid;
  while ((pid = sys(__NR_wait4, -1, &status, WNOHANG | WUNTRACED | __WALL, 0)) > 0) {
    if (pid != watch->monitor->command)
      continue;
    if (WIFSTOPPED(status)) {
      tell_stopped(watch->monitor, status);
    } else {
      watch->ended = 1;
      watch->status = status_of(watch->monitor, status);
    }
  }
  if (pid < 0 && pid != -ECHILD && pid != -EINTR)
    give_up(watch, pid);
  int failed = __atomic_load_n(&watch->serving_error, __ATOMIC_ACQUIRE);
  if (failed)
    give_up(watch, -failed);
  return pid != -ECHILD;
}

static void signal_command(struct watch *watch, int signal) {
  if (watch->ended)
    return;
  if (watch->monitor->command_descriptor >= 0)
    sys(__NR_pidfd_send_signal, watch->monitor->command_descriptor, signal, 0, 0);
  else
    sys(__NR_kill, watch->monitor->command, signal);
}

/* A stopped caller cannot hear that its command has ended, or that it is time to end it. With a launcher
 * inside it may have been told to stop by that one. */
static void wake_caller(struct watch *watch) {
  if ((watch->monitor->told_stopped || watch->monitor->terminate_outside) && !watch->caller_gone)
    sys(__NR_kill, sys(__NR_getppid), SIGCONT);
}

static void end_everything(struct watch *watch) {
  int status = watch->status;
  confine__end_tree(END_LIMIT_MS, watch->ended ? -1 : watch->monitor->command, &status);
  watch->status = status_of(watch->monitor, status);
  watch->ended = 1;
}

/* A launcher inside has been told too and ends its own tree, which it can even while its supervisor is held up. Killed
 * before it has, it would leave its processes to a thread that cannot end. */
static void end_soon(struct watch *watch) {
  if (!watch->monitor->terminate_outside) {
    end_everything(watch);
  } else if (!watch->ending) {
    watch->ending = 1;
    watch->deadline = sys_now_ms() + INSIDE_LIMIT_MS;
  }
}

static void on_deadline(struct watch *watch) {
  if (watch->ending) {
    end_everything(watch);
    return;
  }
  watch->timed_out = 1;
  if (watch->terminated || !watch->monitor->grace_ms) {
    end_soon(watch);
    return;
  }
  watch->terminated = 1;
  watch->deadline = sys_now_ms() + watch->monitor->grace_ms;
  if (watch->monitor->terminate_outside) {
    wake_caller(watch);
  } else {
    signal_command(watch, SIGTERM);
    signal_command(watch, SIGCONT);
  }
}

/* A terminal stops and continues the command itself, faster than the caller can pass anything on: what continues
 * the command after one stop must not undo the next. */
static void pass_signal(struct watch *watch, const struct confine__message *message) {
  if (message->value == SIGCONT) {
    reap(watch);
    if (message->detail < watch->monitor->stops)
      return;
    watch->monitor->told_stopped = 0;
  }
  signal_command(watch, message->value);
}

static void on_channel(struct watch *watch) {
  struct confine__message message;
  long got = sys(__NR_recvfrom, watch->monitor->channel, &message, sizeof message, MSG_DONTWAIT, 0, 0);
  if (got == -EAGAIN || got == -EINTR)
    return;
  if (got != (long)sizeof message) {
    watch->caller_gone = 1;
    end_soon(watch);
  } else if (message.type == CONFINE__MESSAGE_SIGNAL) {
    pass_signal(watch, &message);
  } else if (message.type == CONFINE__MESSAGE_END) {
    end_soon(watch);
  }
}

/* Every process with the filter is past it on its way out: the command's end is all that can come. */
static void wait_for_command(struct watch *watch) {
  int status;
  long pid;
  do
    pid = sys(__NR_wait4, -1, &status, __WALL, 0);
  while (pid == -EINTR || (pid > 0 && pid != watch->monitor->command));
  if (pid < 0) {
    give_up(watch, pid);
    return;
  }
  watch->status = status_of(watch->monitor, status);
  watch->ended = 1;
}

/*
 * The supervisor's own thread, started when the first call comes. A call may wait for what others provide, such as a
 * file system that does not answer; the monitor must go on being the clock and hearing its caller. A thread and not a
 * process, so that to the kernel it is an ancestor of the callers too, which it must be to read their memory
 * (ptrace_scope 1 of the Yama security module); its identity is its own all the same (credentials(7)).
 */
static int run_supervisor(void *arg) {
  struct watch *watch = arg;
  struct pollfd fd = {.fd = watch->listener, .events = POLLIN};
  int r = 0;
  while (r == 0) {
    sys(__NR_ppoll, &fd, 1, 0, 0, 8);
    if (fd.revents & POLLIN)
      r = confine__supervisor_serve(watch->supervisor);
    else if (fd.revents)
      break;
  }
  if (r < 0) {
    __atomic_store_n(&watch->serving_error, -r, __ATOMIC_RELEASE);
    sys(__NR_kill, watch->supervisor->monitor, SIGCHLD); /* wakes the monitor */
  }
  sys(__NR_exit, 0); /* of the thread; returning would end the monitor */
  return 0;
}

/* The thread's stack lies below the monitor's, which lies below the supervisor: with background processes left,
 * *monitor may be gone already. Returns what is still to be polled for. Where no thread can be had, as at a limit that
 * the command has reached, the call is answered here. */
static short serve(struct watch *watch) {
  long r = confine__clone(SYS_CLONE_VM | SYS_CLONE_FS | SYS_CLONE_FILES | SYS_CLONE_SIGHAND | SYS_CLONE_THREAD,
                          (char *)watch->supervisor - MONITOR_STACK, run_supervisor, watch);
  if (r > 0) {
    watch->handed_over = 1;
    return 0;
  }
  r = confine__supervisor_serve(watch->supervisor);
  confine__identity_return(watch->supervisor);
  if (r < 0)
    give_up(watch, r);
  return POLLIN;
}

static void watch_command(struct watch *watch) {
  struct pollfd fds[3] = {{.fd = watch->signals, .events = POLLIN},
                          {.fd = watch->monitor->channel, .events = POLLIN},
                          {.fd = watch->listener, .events = POLLIN}};
  while (!watch->ended) {
    struct timespec left, *timeout = NULL;
    if (watch->deadline) {
      int64_t ms = watch->deadline - sys_now_ms();
      if (ms <= 0) {
        on_deadline(watch);
        continue;
      }
      left.tv_sec = (time_t)(ms / 1000);
      left.tv_nsec = (long)(ms % 1000) * 1000000;
      timeout = &left;
    }
    sys(__NR_ppoll, fds, 3, timeout, 0, 8);
    if (fds[2].revents & POLLIN)
      fds[2].events = serve(watch);
    else if (fds[2].revents)
      wait_for_command(watch);
    if (fds[0].revents) {
      char info[128 * 8];
      sys(__NR_read, watch->signals, info, sizeof info);
      reap(watch);
    }
    if (!watch->ended && fds[1].revents)
      on_channel(watch);
    if (watch->caller_gone)
      fds[1].fd = -1;
  }
}

/* What the command left behind may go on; it stays confined, and this process stays its reaper and
 * supervisor. */
static void wait_for_background(struct watch *watch) {
  struct pollfd fds[2] = {{.fd = watch->signals, .events = POLLIN},
                          {.fd = watch->listener, .events = watch->handed_over ? 0 : POLLIN}};
  char info[128 * 8];
  while (reap(watch) && !watch->error) {
    sys(__NR_ppoll, fds, 2, 0, 0, 8);
    if (fds[1].revents & POLLIN)
      fds[1].events = serve(watch);
    else if (fds[1].revents)
      fds[1].fd = -1;
    sys(__NR_read, watch->signals, info, sizeof info);
  }
  if (watch->error)
    end_everything(watch);
}

#define KEPT_MAX (CONFINE__ROOTS_MAX + 6)

static void keep(int *kept, size_t *count, int fd) {
  size_t i = *count;
  if (fd < 0)
    return;
  for (; i > 0 && kept[i - 1] > fd; i--)
    kept[i] = kept[i - 1];
  kept[i] = fd;
  ++*count;
}

/* Nothing else of the caller's may stay open here, or a reader of its pipes would wait for this process. */
static void keep_only(const struct watch *watch) {
  const struct confine__supervisor *supervisor = watch->supervisor;
  int kept[KEPT_MAX];
  size_t count = 0;
  unsigned next = 0;
  keep(kept, &count, watch->monitor->channel);
  keep(kept, &count, watch->signals);
  keep(kept, &count, watch->listener);
  keep(kept, &count, watch->monitor->command_descriptor);
  if (watch->listener >= 0) {
    for (size_t i = 0; i < supervisor->root_count; i++)
      keep(kept, &count, supervisor->roots[i].fd);
  }
  for (size_t i = 0; i < count; i++) {
    if ((unsigned)kept[i] > next)
      sys(__NR_close_range, next, (unsigned)kept[i] - 1, 0);
    next = (unsigned)kept[i] + 1;
  }
  sys(__NR_close_range, next, ~0u, 0);
}

/* The child has the listener no longer; as long as this process has not either, its trapped calls fail. */
static int start_supervisor(struct watch *watch) {
  struct confine__monitor *monitor = watch->monitor;
  watch->listener = monitor->outcome.listener;
  if (watch->listener < 0)
    return 0;
  int r = confine__supervisor_init(monitor->supervisor, monitor->plan, watch->listener, monitor->denials);
  if (r < 0) {
    monitor->outcome.step = CONFINE__STEP_MONITOR;
    monitor->outcome.error = -r;
    sys(__NR_kill, monitor->command, SIGKILL);
    sys(__NR_wait4, monitor->command, 0, __WALL, 0);
  }
  return r;
}

/* The supervisor's thread may be in a call that nothing ends, and the channel stays open as long as it is there. */
static void close_channel(const struct watch *watch) {
  if (watch->handed_over)
    sys(__NR_shutdown, watch->monitor->channel, SHUT_RDWR);
}

static int run_monitor(void *arg) {
  struct confine__monitor *monitor = arg;
  struct watch watch = {.monitor = monitor, .listener = -1, .supervisor = monitor->supervisor};
  struct confine__namespace held = {.descriptor = -1};
  struct confine__signal_action by_default = {0};
  uint64_t children = 1ull << (SIGCHLD - 1);
  sys(__NR_prctl, PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  /* An ignored SIGCHLD would let children vanish unread; the command gets it back. */
  sys(__NR_rt_sigaction, SIGCHLD, &by_default, &monitor->child_action, 8);
  watch.signals = (int)sys(__NR_signalfd4, -1, &children, 8, SFD_CLOEXEC | SFD_NONBLOCK);
  if (watch.signals < 0) {
    monitor->outcome.step = CONFINE__STEP_MONITOR;
    monitor->outcome.error = -watch.signals;
    return 1;
  }
  if (start_command(&watch) != 0 || start_supervisor(&watch) != 0)
    return 1;
  monitor->started = 1;
  keep_only(&watch);
  if (monitor->announce)
    send_message(monitor, CONFINE__MESSAGE_STARTED, monitor->outcome.cwd_hidden, 0, -1);
  if (monitor->plan->flags & CONFINE__PLAN_MOUNTS)
    confine__namespace_hold(&held, monitor->command);
  if (monitor->timeout_ms)
    watch.deadline = sys_now_ms() + monitor->timeout_ms;
  reap(&watch); /* it may have ended before anybody listened */
  watch_command(&watch);
  int stay = monitor->keep_background && !watch.caller_gone && !watch.timed_out && !watch.error;
  if (!stay)
    end_everything(&watch);
  if (watch.error) {
    monitor->outcome.error = watch.error;
    close_channel(&watch);
    return 1;
  }
  monitor->wait_status = watch.status;
  monitor->timed_out = watch.timed_out;
  monitor->ended = 1;
  wake_caller(&watch);
  if (stay) {
    send_message(monitor, CONFINE__MESSAGE_ENDED, watch.status, 0, -1);
    wait_for_background(&watch);
  }
  confine__namespace_leave(&held);
  close_channel(&watch);
  return 0;
}

int confine__monitor_start(struct confine__monitor *monitor, int *channel, pid_t *pid, void **stack) {
  int pair[2];
  long r = sys(__NR_socketpair, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair);
  if (r < 0)
    return (int)r;
  long map = sys(__NR_mmap, 0, AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (map < 0 && map > -4096) {
    r = map;
    goto close_pair;
  }
  char *base = (char *)map;
  monitor->command_stack = base + COMMAND_STACK;
  monitor->init_stack = base + COMMAND_STACK + INIT_STACK;
  monitor->command_descriptor = -1;
  monitor->supervisor = (struct confine__supervisor *)(base + STACKS);
  monitor->channel = pair[1];
  monitor->outcome.step = CONFINE__STEP_NONE;
  monitor->outcome.listener = -1;
  monitor->outcome.index = -1;
  r = confine__clone(SYS_CLONE_VM, base + STACKS, run_monitor, monitor);
  if (r < 0) {
    sys(__NR_munmap, base, AREA);
    goto close_pair;
  }
  sys_close(pair[1]);
  *channel = pair[0];
  *pid = (pid_t)r;
  *stack = base;
  return 0;
close_pair:
  sys_close(pair[0]);
  sys_close(pair[1]);
  return (int)r;
}

void confine__monitor_release(void *stack) {
  sys(__NR_munmap, stack, AREA);
}
