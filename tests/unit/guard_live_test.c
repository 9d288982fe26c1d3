/*
 * The guard's filters in the kernel: what a confined process gets, judged by what happened, beside the
 * same attempt without the filter. First argument: the guard_exec program.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <pty.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <ifaddrs.h>
#include <linux/keyctl.h>

#include "guard_install.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define NO_FILTER UINT32_MAX
#define WAIT_MS 10000
/* Results of a child beside an errno (0 is success). */
#define CHILD_BROKEN 200

static const char *guard_exec;

/*
 * Run `attempt` in a child, under the filter `mask` unless it is NO_FILTER. Returns what it returned: 0 or
 * an errno. Fails the test when the child died or the filter was refused.
 */
static int in_child(unsigned mask, int (*attempt)(void *), void *context) {
  pid_t child = fork();

  assert_true(child >= 0);
  if (child == 0) {
    alarm(WAIT_MS / 1000);
    if (mask != NO_FILTER && guard_install(mask, 0) != 0)
      _exit(CHILD_BROKEN);
    _exit(attempt(context));
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_not_equal(WEXITSTATUS(status), CHILD_BROKEN);
  return WEXITSTATUS(status);
}

static int error_of(long result) {
  return result < 0 ? errno : 0;
}

/* --- terminal injection --- */

struct terminal {
  int master;
  int slave;
  unsigned long request;
};

static int push_character(void *context) {
  struct terminal *terminal = context;

  return error_of(syscall(SYS_ioctl, terminal->slave, terminal->request, "x"));
}

#ifdef __x86_64__
/* A call by the 32-bit entry, from a 64-bit program; pointers must lie below 4 GiB. */
static int call32(long number, long a, long b, long c) {
  long result;

  __asm__ volatile("int $0x80"
                   : "=a"(result)
                   : "a"(number), "b"(a), "c"(b), "d"(c)
                   : "memory", "r8", "r9", "r10", "r11");
  return result < 0 ? (int)-result : 0;
}

/* Not every kernel for x86_64 has the 32-bit entry; without it the call ends the process. */
static bool has_entry32(void) {
  int status;
  pid_t child = fork();

  assert_true(child >= 0);
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL); /* the sanitizer's handler would report it */
    _exit(call32(64 /* getppid */, 0, 0, 0) != 0);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFEXITED(status);
}

static char *low_memory(void) {
  void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);

  if (page == MAP_FAILED)
    _exit(CHILD_BROKEN);
  return page;
}

static int push_character32(void *context) {
  struct terminal *terminal = context;
  char *character = low_memory();

  *character = 'x';
  return call32(54, terminal->slave, (long)terminal->request, (long)(uintptr_t)character);
}
#endif

static int waiting_input(const struct terminal *terminal) {
  int waiting = 0;

  assert_int_equal(ioctl(terminal->slave, FIONREAD, &waiting), 0);
  return waiting;
}

static void try_injection(int (*push)(void *), unsigned long request) {
  struct terminal terminal = {-1, -1, request};
  struct termios raw;

  assert_int_equal(openpty(&terminal.master, &terminal.slave, NULL, NULL, NULL), 0);
  assert_int_equal(tcgetattr(terminal.slave, &raw), 0);
  cfmakeraw(&raw);
  assert_int_equal(tcsetattr(terminal.slave, TCSANOW, &raw), 0);
  /* Only root or the terminal's own session may inject, and newer kernels let nobody. */
  if (in_child(NO_FILTER, push, &terminal) == 0)
    assert_int_equal(waiting_input(&terminal), 1);
  else
    print_message("# this kernel refuses injection without a filter too\n");
  int before = waiting_input(&terminal);
  assert_int_equal(in_child(0, push, &terminal), EPERM);
  assert_int_equal(waiting_input(&terminal), before);
  close(terminal.master);
  close(terminal.slave);
}

static void terminal_injection(void **state) {
  (void)state;
  try_injection(push_character, TIOCSTI);
  try_injection(push_character, TIOCSTI | (1UL << 32));
  try_injection(push_character, TIOCSTI | (0xdeadbeefUL << 32));
#ifdef __x86_64__
  if (has_entry32())
    try_injection(push_character32, TIOCSTI);
#endif
}

/* --- one call each --- */

struct call {
  const char *what;
  long number;
  long args[5];
  int confined; /* errno */
};

static int make_call(void *context) {
  const struct call *call = context;

  return error_of(syscall(call->number, call->args[0], call->args[1], call->args[2], call->args[3],
                          call->args[4]));
}

static void calls_are_refused(void **state) {
  (void)state;
  struct call calls[] = {
    {"keyctl", SYS_keyctl, {KEYCTL_GET_KEYRING_ID, KEY_SPEC_PROCESS_KEYRING, 1}, ENOSYS},
    {"add_key", SYS_add_key, {(long)"user", (long)"guard", (long)"x", 1, -2}, ENOSYS},
    {"io_uring_setup", SYS_io_uring_setup, {1, 0}, ENOSYS},
    {"clone3", SYS_clone3, {0, 0}, ENOSYS},
    {"open_by_handle_at", SYS_open_by_handle_at, {AT_FDCWD, 0, 0}, EPERM},
    {"unshare user", SYS_unshare, {CLONE_NEWUSER}, EPERM},
    {"unshare mount", SYS_unshare, {CLONE_NEWNS}, EPERM},
    {"setns", SYS_setns, {-1, 0}, EPERM},
    {"mount", SYS_mount, {0, (long)"/", 0, 0, 0}, EPERM},
    {"umount2", SYS_umount2, {(long)"/nowhere", 0}, EPERM},
    {"open_tree", SYS_open_tree, {AT_FDCWD, (long)"/", 1}, EPERM},
    {"fsopen", SYS_fsopen, {(long)"tmpfs", 0}, EPERM},
    {"mount_setattr", 442, {AT_FDCWD, (long)"/", 0, 0, 0}, EPERM},
    {"open_tree_attr", 467, {AT_FDCWD, (long)"/", 1, 0, 0}, EPERM},
    {"chroot", SYS_chroot, {(long)"/nowhere"}, EPERM},
    {"the newest number and one", 472, {-1, -1, -1, -1, -1}, ENOSYS},
    {"x32 getppid", SYS_getppid | 0x40000000, {0}, ENOSYS},
    /* Ordinary calls. */
    {"unshare files", SYS_unshare, {CLONE_FILES | CLONE_FS}, 0},
    {"getppid", SYS_getppid, {0}, 0},
    {"personality", SYS_personality, {0xffffffff}, 0},
    {"landlock ABI", 444, {0, 0, 1}, 0},
  };

  for (size_t i = 0; i < COUNT(calls); i++) {
    int result = in_child(0, make_call, &calls[i]);

    if (result != calls[i].confined)
      fail_msg("%s: %s, not %s", calls[i].what, strerrordesc_np(result),
               strerrordesc_np(calls[i].confined));
  }
}

#ifdef __x86_64__
static int make_call32(void *context) {
  const struct call *call = context;

  return call32(call->number, call->args[0], call->args[1], call->args[2]);
}

static void calls32_are_refused(void **state) {
  (void)state;
  struct call calls[] = {
    {"keyctl", 288, {0, -2, 1}, ENOSYS},     {"io_uring_setup", 425, {1, 0}, ENOSYS},
    {"clone3", 435, {0, 0}, ENOSYS},         {"clone", 120, {CLONE_NEWUSER | SIGCHLD, 0}, EPERM},
    {"unshare", 310, {CLONE_NEWNS}, EPERM},  {"mount", 21, {0, 0, 0}, EPERM},
    {"umount", 22, {0}, EPERM},              {"open_by_handle_at", 342, {-1, 0, 0}, EPERM},
    {"open_tree_attr", 467, {-1, 0}, EPERM}, {"above the newest", 472, {0}, ENOSYS},
    {"fcntl64 lease", 221, {0, 1024, 1}, EACCES}, {"getppid", 64, {0}, 0},
  };

  if (!has_entry32()) {
    print_message("# this kernel has no 32-bit entry: not tried\n");
    return;
  }
  assert_int_equal(in_child(NO_FILTER, make_call32, &calls[COUNT(calls) - 1]), 0);
  for (size_t i = 0; i < COUNT(calls); i++) {
    int result = in_child(0, make_call32, &calls[i]);

    if (result != calls[i].confined)
      fail_msg("32-bit %s: %s, not %s", calls[i].what, strerrordesc_np(result),
               strerrordesc_np(calls[i].confined));
  }
}
#endif

/* --- leases, device nodes, threads --- */

static int take_lease(void *context) {
  return error_of(fcntl(*(int *)context, F_SETLEASE, F_RDLCK));
}

static void leases(void **state) {
  (void)state;
  char path[] = "/tmp/guard-lease-XXXXXX";
  int made = mkstemp(path);
  assert_true(made >= 0);
  close(made);
  int file = open(path, O_RDONLY | O_CLOEXEC);

  assert_true(file >= 0);
  assert_int_equal(in_child(NO_FILTER, take_lease, &file), 0);
  assert_int_equal(fcntl(file, F_SETLEASE, F_UNLCK), 0);
  assert_int_equal(in_child(0, take_lease, &file), EACCES);
  assert_int_equal(fcntl(file, F_GETLEASE), F_UNLCK);
  close(file);
  unlink(path);
}

static int make_null_device(void *context) {
  return error_of(mknodat(AT_FDCWD, context, S_IFCHR | 0600, 0x103));
}

static int make_fifo(void *context) {
  return error_of(mknodat(AT_FDCWD, context, S_IFIFO | 0600, 0));
}

static void device_nodes(void **state) {
  (void)state;
  char folder[] = "/tmp/guard-node-XXXXXX";
  char path[64];

  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/node", folder);
  assert_int_equal(in_child(0, make_null_device, path), EPERM);
  assert_int_not_equal(access(path, F_OK), 0);
  if (geteuid() == 0) {
    assert_int_equal(in_child(NO_FILTER, make_null_device, path), 0);
    unlink(path);
  }
  assert_int_equal(in_child(0, make_fifo, path), 0);
  unlink(path);
  rmdir(folder);
}

static void *one_thread(void *context) {
  return context;
}

static int start_thread(void *context) {
  pthread_t thread;
  void *result = NULL;
  int error = pthread_create(&thread, NULL, one_thread, context);

  if (error != 0)
    return error;
  pthread_join(thread, &result);
  return result == context ? 0 : CHILD_BROKEN;
}

static void threads_start(void **state) {
  (void)state;
  assert_int_equal(in_child(0, start_thread, &state), 0);
}

static int nest_filter(void *context) {
  (void)context;
  if (guard_install(0, 0) != 0)
    return CHILD_BROKEN;
  return error_of(syscall(SYS_getppid));
}

static void filters_nest(void **state) {
  (void)state;
  assert_int_equal(in_child(CONFINE__GUARD_IPC, nest_filter, NULL), 0);
}

/* --- isolation of ipc --- */

struct daemon {
  struct sockaddr_un address;
  socklen_t size;
  int listener;
  int datagrams;
  struct sockaddr_un datagram_address;
  socklen_t datagram_size;
};

static socklen_t abstract_address(struct sockaddr_un *address, const char *kind) {
  memset(address, 0, sizeof *address);
  address->sun_family = AF_UNIX;
  int length = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "guard-%s-%d", kind,
                        (int)getpid());
  return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static void start_daemon(struct daemon *daemon) {
  daemon->size = abstract_address(&daemon->address, "stream");
  daemon->datagram_size = abstract_address(&daemon->datagram_address, "datagram");
  daemon->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  daemon->datagrams = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(daemon->listener, (void *)&daemon->address, daemon->size), 0);
  assert_int_equal(listen(daemon->listener, 8), 0);
  assert_int_equal(
    bind(daemon->datagrams, (void *)&daemon->datagram_address, daemon->datagram_size), 0);
}

static bool daemon_was_reached(const struct daemon *daemon) {
  char data[16];
  int peer = accept(daemon->listener, NULL, NULL);
  bool reached = peer >= 0 || recv(daemon->datagrams, data, sizeof data, 0) >= 0;

  if (peer >= 0)
    close(peer);
  return reached;
}

static int connect_by_socket(void *context) {
  struct daemon *daemon = context;
  int client = socket(AF_UNIX, SOCK_STREAM, 0);

  if (client < 0)
    return errno;
  return error_of(connect(client, (void *)&daemon->address, daemon->size));
}

static int send_by_pair(void *context) {
  struct daemon *daemon = context;
  int pair[2];

  if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) != 0)
    return errno;
  return error_of(
    sendto(pair[0], "x", 1, 0, (void *)&daemon->datagram_address, daemon->datagram_size));
}

/* Try to point one end of a connected pair somewhere else, in every state it can be in. */
static void redirect(int end, struct daemon *daemon) {
  struct sockaddr unspecified = {.sa_family = AF_UNSPEC};

  for (int round = 0; round < 2; round++) {
    (void)!connect(end, (void *)&daemon->address, daemon->size);
    (void)!connect(end, (void *)&daemon->datagram_address, daemon->datagram_size);
    (void)!sendto(end, "x", 1, MSG_NOSIGNAL, (void *)&daemon->datagram_address,
                  daemon->datagram_size);
    (void)!sendto(end, "x", 1, MSG_NOSIGNAL, (void *)&daemon->address, daemon->size);
    (void)!connect(end, &unspecified, sizeof unspecified);
    (void)!shutdown(end, SHUT_RDWR);
  }
}

static int redirect_pairs(void *context) {
  static const int types[] = {SOCK_STREAM, SOCK_SEQPACKET};
  char data[2];

  for (size_t i = 0; i < COUNT(types); i++) {
    int pair[2];

    if (socketpair(AF_UNIX, types[i], 0, pair) != 0 || write(pair[0], "y", 1) != 1 ||
        read(pair[1], data, 1) != 1)
      return errno;
    redirect(pair[0], context);
    close(pair[0]);
    redirect(pair[1], context);
    (void)!listen(pair[1], 1);
    redirect(pair[1], context);
  }
  return 0;
}

static void ipc_isolation(void **state) {
  (void)state;
  struct daemon daemon;

  start_daemon(&daemon);
  assert_int_equal(in_child(0, connect_by_socket, &daemon), 0);
  assert_true(daemon_was_reached(&daemon));
  assert_int_equal(in_child(0, send_by_pair, &daemon), 0);
  assert_true(daemon_was_reached(&daemon));

  assert_int_equal(in_child(CONFINE__GUARD_IPC, connect_by_socket, &daemon), EACCES);
  assert_int_equal(in_child(CONFINE__GUARD_IPC, send_by_pair, &daemon), EACCES);
  assert_int_equal(in_child(CONFINE__GUARD_IPC, redirect_pairs, &daemon), 0);
  assert_false(daemon_was_reached(&daemon));
  close(daemon.listener);
  close(daemon.datagrams);
}

static void ipc_objects(void **state) {
  (void)state;
  unsigned mask = CONFINE__GUARD_IPC | CONFINE__GUARD_IPC_OBJECTS;
  struct call calls[] = {
    {"shmget", SYS_shmget, {IPC_PRIVATE, 4096, 0600}, EACCES},
    {"shmat", SYS_shmat, {0, 0, 0}, EACCES},
    {"semget", SYS_semget, {IPC_PRIVATE, 1, 0600}, EACCES},
    {"msgget", SYS_msgget, {IPC_PRIVATE, 0600}, EACCES},
    {"mq_open", SYS_mq_open, {(long)"guard", O_RDONLY}, EACCES},
  };

  for (size_t i = 0; i < COUNT(calls); i++)
    assert_int_equal(in_child(mask, make_call, &calls[i]), calls[i].confined);
}

/* --- isolation of the network --- */

static int ask_interfaces(void *context) {
  struct ifaddrs *list = NULL;

  (void)context;
  if (getifaddrs(&list) != 0)
    return errno;
  freeifaddrs(list);
  return 0;
}

static void network_isolation(void **state) {
  (void)state;
  struct call calls[] = {
    {"tcp", SYS_socket, {AF_INET, SOCK_STREAM, 0}, EACCES},
    {"udp", SYS_socket, {AF_INET6, SOCK_DGRAM, 0}, EACCES},
    {"vsock", SYS_socket, {AF_VSOCK, SOCK_STREAM, 0}, EACCES},
    {"audit netlink", SYS_socket, {AF_NETLINK, SOCK_RAW, 9}, EACCES},
    {"unix", SYS_socket, {AF_UNIX, SOCK_STREAM, 0}, 0},
  };

  for (size_t i = 0; i < COUNT(calls); i++)
    assert_int_equal(in_child(CONFINE__GUARD_NETWORK, make_call, &calls[i]), calls[i].confined);
  assert_int_equal(in_child(CONFINE__GUARD_NETWORK, ask_interfaces, NULL), 0);
}

/* --- traps --- */

/* A number no file system gives for these calls, so that it can only be the supervisor's. */
#define SUPERVISOR_ANSWER EXFULL

struct trapped {
  const char *what;
  bool entry32;
  struct call call;
};

static int make_trapped(const struct trapped *trapped) {
#ifdef __x86_64__
  if (trapped->entry32)
    return call32(trapped->call.number, trapped->call.args[0], trapped->call.args[1],
                  trapped->call.args[2]);
#endif
  return make_call((void *)&trapped->call);
}

/* Answer one notification of `listener`; 0, or -1 when none came. */
static int answer_one(int listener) {
  struct pollfd ready = {listener, POLLIN, 0};
  struct seccomp_notif question = {0};

  if (poll(&ready, 1, WAIT_MS) != 1 || ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &question) != 0)
    return -1;
  struct seccomp_notif_resp answer = {question.id, 0, -SUPERVISOR_ANSWER, 0};
  return ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
}

static void *answer_all(void *context) {
  int listener = *(int *)context;

  while (answer_one(listener) == 0) {
  }
  return NULL;
}

struct trap_test {
  unsigned mask;
  bool entry32; /* make those calls too */
  const struct trapped *calls;
  size_t count;
};

/* In the child: install the filter, tell its listener's number, make the calls. Never returns. */
static void make_all(const struct trap_test *test, int tell) {
  int listener = guard_install(test->mask, SECCOMP_FILTER_FLAG_NEW_LISTENER);

  if (listener < 0 || write(tell, &listener, sizeof listener) != sizeof listener)
    _exit(CHILD_BROKEN);
  for (size_t i = 0; i < test->count; i++) {
    if (test->calls[i].entry32 && !test->entry32)
      continue;
    int result = make_trapped(&test->calls[i]);

    if (result != test->calls[i].call.confined) {
      fprintf(stderr, "%s: %s\n", test->calls[i].what, strerrordesc_np(result));
      _exit(1);
    }
  }
  _exit(0);
}

/* A process that is supervisor and parent of the one that makes the calls. 0 when all went well. */
static int under_supervisor(void *context) {
  static int listener;
  pthread_t supervisor;
  int told[2];
  int number;
  int status;

  if (pipe(told) != 0)
    return CHILD_BROKEN;
  pid_t child = fork();
  if (child == 0)
    make_all(context, told[1]);
  close(told[1]);
  if (read(told[0], &number, sizeof number) != sizeof number)
    return CHILD_BROKEN;
  int process = (int)syscall(SYS_pidfd_open, child, 0);
  listener = (int)syscall(SYS_pidfd_getfd, process, number, 0);
  if (listener < 0 || pthread_create(&supervisor, NULL, answer_all, &listener) != 0 ||
      waitpid(child, &status, 0) != child || !WIFEXITED(status))
    return CHILD_BROKEN;
  return WEXITSTATUS(status);
}

static void metadata_is_trapped(void **state) {
  (void)state;
  static const char nowhere[] = "/nowhere/guard";
  long path = (long)nowhere;
  const struct trapped calls[] = {
    {"chmod", false, {NULL, SYS_fchmodat, {AT_FDCWD, path, 0600}, SUPERVISOR_ANSWER}},
    {"fchmod", false, {NULL, SYS_fchmod, {0, 0600}, SUPERVISOR_ANSWER}},
    {"fchmodat2", false, {NULL, 452, {AT_FDCWD, path, 0600, 0}, SUPERVISOR_ANSWER}},
    {"chown", false, {NULL, SYS_fchownat, {AT_FDCWD, path, 0, 0, 0}, SUPERVISOR_ANSWER}},
    {"utimensat", false, {NULL, SYS_utimensat, {AT_FDCWD, path, 0, 0}, SUPERVISOR_ANSWER}},
    {"setxattr", false, {NULL, SYS_setxattr, {path, path, 0, 0, 0}, SUPERVISOR_ANSWER}},
    {"setxattrat", false, {NULL, 463, {AT_FDCWD, path, 0, 0, 0}, SUPERVISOR_ANSWER}},
    {"removexattrat", false, {NULL, 466, {AT_FDCWD, path, 0, 0}, SUPERVISOR_ANSWER}},
    {"file_setattr", false, {NULL, 469, {AT_FDCWD, path, 0, 0, 0}, SUPERVISOR_ANSWER}},
    {"set flags", false, {NULL, SYS_ioctl, {0, 0x40086602, 0}, SUPERVISOR_ANSWER}},
    {"set xflags", false, {NULL, SYS_ioctl, {0, 0x401c5820, 0}, SUPERVISOR_ANSWER}},
    {"open", false, {NULL, SYS_openat, {AT_FDCWD, path, O_WRONLY, 0}, ENOENT}},
    {"getxattr", false, {NULL, SYS_getxattr, {path, path, 0, 0}, ENOENT}},
#ifdef __x86_64__
    {"chmod 32", true, {NULL, 15, {0, 0600, 0}, SUPERVISOR_ANSWER}},
    {"chown32 32", true, {NULL, 212, {0, 0, 0}, SUPERVISOR_ANSWER}},
    {"utime 32", true, {NULL, 30, {0, 0, 0}, SUPERVISOR_ANSWER}},
    {"set flags 32", true, {NULL, 54, {0, 0x40046602, 0}, SUPERVISOR_ANSWER}},
    {"file_setattr 32", true, {NULL, 469, {0, 0, 0}, SUPERVISOR_ANSWER}},
#endif
  };
  struct trap_test test = {CONFINE__GUARD_METADATA, has_entry32(), calls, COUNT(calls)};

  assert_int_equal(in_child(NO_FILTER, under_supervisor, &test), 0);
}

static void write_intent_is_trapped(void **state) {
  (void)state;
  static const char nowhere[] = "/nowhere/guard";
  long path = (long)nowhere;
  const struct trapped calls[] = {
    {"open to write", false, {NULL, SYS_openat, {-100, path, O_WRONLY}, SUPERVISOR_ANSWER}},
    {"open to create", false, {NULL, SYS_openat, {-100, path, O_CREAT, 0600}, SUPERVISOR_ANSWER}},
    {"openat2", false, {NULL, SYS_openat2, {-100, path, 0, 0}, SUPERVISOR_ANSWER}},
    {"unlink", false, {NULL, SYS_unlinkat, {-100, path, 0}, SUPERVISOR_ANSWER}},
    {"rename", false, {NULL, SYS_renameat2, {-100, path, -100, path, 0}, SUPERVISOR_ANSWER}},
    {"link", false, {NULL, SYS_linkat, {-100, path, -100, path, 0}, SUPERVISOR_ANSWER}},
    {"symlink", false, {NULL, SYS_symlinkat, {path, -100, path}, SUPERVISOR_ANSWER}},
    {"mkdir", false, {NULL, SYS_mkdirat, {-100, path, 0700}, SUPERVISOR_ANSWER}},
    {"fifo", false, {NULL, SYS_mknodat, {-100, path, S_IFIFO, 0}, SUPERVISOR_ANSWER}},
    {"device", false, {NULL, SYS_mknodat, {-100, path, S_IFBLK, 0}, EPERM}},
    {"truncate", false, {NULL, SYS_truncate, {path, 0}, SUPERVISOR_ANSWER}},
    {"bind", false, {NULL, SYS_bind, {-1, path, 2}, SUPERVISOR_ANSWER}},
    {"chmod", false, {NULL, SYS_fchmodat, {-100, path, 0600}, SUPERVISOR_ANSWER}},
    {"open to read", false, {NULL, SYS_openat, {-100, path, O_RDONLY}, ENOENT}},
    {"open a path", false, {NULL, SYS_openat, {-100, path, O_PATH | O_RDWR}, ENOENT}},
#ifdef __x86_64__
    {"open 32", true, {NULL, 5, {0, O_RDWR, 0}, SUPERVISOR_ANSWER}},
    {"open to read 32", true, {NULL, 5, {0, O_RDONLY, 0}, EFAULT}},
    {"bind by socketcall 32", true, {NULL, 102, {2, 0, 0}, SUPERVISOR_ANSWER}},
#endif
  };
  struct trap_test test = {CONFINE__GUARD_OBSERVE, has_entry32(), calls, COUNT(calls)};

  assert_int_equal(in_child(NO_FILTER, under_supervisor, &test), 0);
}

/* Without a listener the trapped calls must fail, not pass. */
static int change_mode(void *context) {
  return error_of(fchmodat(AT_FDCWD, context, 0600, 0));
}

static void traps_fail_closed(void **state) {
  (void)state;
  char path[] = "/tmp/guard-mode-XXXXXX";
  int file = mkstemp(path);
  struct stat after;

  assert_true(file >= 0);
  assert_int_equal(fchmod(file, 0640), 0);
  assert_int_equal(in_child(CONFINE__GUARD_METADATA, change_mode, path), ENOSYS);
  assert_int_equal(fstat(file, &after), 0);
  assert_int_equal(after.st_mode & 07777, 0640);
  assert_int_equal(in_child(0, change_mode, path), 0);
  close(file);
  unlink(path);
}

/* --- programs --- */

struct tool {
  const char *needs; /* a program; the row is skipped where it is not installed */
  const char *script;
};

static int run_shell(const char *script, const char *mask, char *output, size_t size) {
  int pipe_ends[2];
  int status;
  size_t length = 0;
  ssize_t got;

  assert_int_equal(pipe2(pipe_ends, O_CLOEXEC), 0);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    dup2(pipe_ends[1], 1);
    if (mask != NULL)
      execl(guard_exec, guard_exec, mask, "sh", "-c", script, (char *)NULL);
    else
      execlp("sh", "sh", "-c", script, (char *)NULL);
    _exit(127);
  }
  close(pipe_ends[1]);
  while (length < size - 1 && (got = read(pipe_ends[0], output + length, size - 1 - length)) > 0)
    length += (size_t)got;
  output[length] = '\0';
  close(pipe_ends[0]);
  assert_int_equal(waitpid(child, &status, 0), child);
  return status;
}

static void programs_run(void **state) {
  (void)state;
  static const struct tool tools[] = {
    {"sh", "echo a | cat; (exit 3); echo $?; ls -d /"},
    {"python3", "python3 -c 'import subprocess,threading,socket,os\n"
                "t=threading.Thread(target=lambda:print(1)); t.start(); t.join()\n"
                "print(subprocess.check_output([\"echo\",\"x\"]))\n"
                "a,b=socket.socketpair(); a.send(b\"q\"); print(b.recv(1))'"},
    {"python3", "python3 -c 'import multiprocessing as m\n"
                "with m.Pool(2) as p: print(p.map(abs,[-1,-2]))'"},
    {"node", "node -e 'const c=require(\"child_process\"),fs=require(\"fs\");"
             "const {Worker}=require(\"worker_threads\");"
             "console.log(c.execSync(\"echo hi\").toString());"
             "fs.promises.stat(\"/\").then(()=>new Worker(\"process.exit(4)\",{eval:true})"
             ".on(\"exit\",e=>console.log(e)))'"},
    {"git", "d=$(mktemp -d) && cd $d && git init -q . && echo a >a && git add a && "
            "git -c user.name=a -c user.email=a@b commit -qm a && git status --short && "
            "git log --format=%s; rm -rf $d"},
    {"gdb", "gdb -nx -batch -ex starti -ex stepi -ex 'print $_siginfo.si_signo' -ex kill "
            "--args sh -c 'exit 5' 2>/dev/null </dev/null | grep '^.1 = 5'"},
    {"strace", "strace -f -e trace=none -o /dev/null sh -c 'echo traced; (exit 2)'; echo $?"},
    {"make", "printf 'a: b c\\n\\t@echo a\\nb:\\n\\t@echo b\\nc:\\n\\t@echo c\\n' | "
             "make -j2 -f - | sort"},
    {"cc", "d=$(mktemp -d) && printf 'int main(void){return 7;}' >$d/a.c && "
           "cc -o $d/a $d/a.c && $d/a; echo $?; rm -rf $d"},
    {"tar", "d=$(mktemp -d) && mkfifo $d/p && chmod 600 $d/p && tar -C $d -c p | tar -t; rm -rf $d"},
    {"getent", "getent passwd root"},
  };
  static const char *const masks[] = {"0", "1", "7"};

  for (size_t i = 0; i < COUNT(tools); i++) {
    char outside[4096];
    char inside[4096];
    char probe[64];

    snprintf(probe, sizeof probe, "command -v %s >/dev/null", tools[i].needs);
    if (run_shell(probe, NULL, outside, sizeof outside) != 0) {
      print_message("# %s is not installed: skipped\n", tools[i].needs);
      continue;
    }
    int expected = run_shell(tools[i].script, NULL, outside, sizeof outside);
    for (size_t m = 0; m < COUNT(masks); m++) {
      int status = run_shell(tools[i].script, masks[m], inside, sizeof inside);

      if (status != expected || strcmp(outside, inside) != 0)
        fail_msg("%s under %s: status %#x, not %#x\n%s\n---\n%s", tools[i].needs, masks[m], status,
                 expected, inside, outside);
    }
  }
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(terminal_injection),
    cmocka_unit_test(calls_are_refused),
#ifdef __x86_64__
    cmocka_unit_test(calls32_are_refused),
#endif
    cmocka_unit_test(leases),
    cmocka_unit_test(device_nodes),
    cmocka_unit_test(threads_start),
    cmocka_unit_test(filters_nest),
    cmocka_unit_test(ipc_isolation),
    cmocka_unit_test(ipc_objects),
    cmocka_unit_test(network_isolation),
    cmocka_unit_test(metadata_is_trapped),
    cmocka_unit_test(write_intent_is_trapped),
    cmocka_unit_test(traps_fail_closed),
    cmocka_unit_test(programs_run),
  };

  if (argc != 2) {
    fprintf(stderr, "usage: guard_live_test GUARD_EXEC\n");
    return 2;
  }
  guard_exec = argv[1];
  return cmocka_run_group_tests(tests, NULL, NULL);
}
