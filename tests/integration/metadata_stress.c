/*
 * Calls that change metadata under stress; each form ends with 0 if all went as it must.
 *
 *   metadata-stress race FOLDER OUTSIDE COUNT   COUNT calls while others exchange what they are about
 *   metadata-stress identity FOLDER UID         as root: processes that have given up parts of being root
 *   metadata-stress turns FOLDER UID            as root: one that becomes less and more again, and two in turn
 *   metadata-stress signals FOLDER COUNT        with a signal each 100 microseconds
 *   metadata-stress threads FOLDER COUNT        64 threads, COUNT calls each
 *   metadata-stress processes FOLDER COUNT      200 processes, COUNT calls each
 *   metadata-stress vfork FOLDER COUNT          children that share memory with a suspended parent
 *   metadata-stress hidden FOLDER               a process that may not be looked into
 *   metadata-stress hammer FOLDER               calls without end
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/fs.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>
#include <grp.h>

static _Noreturn void die(const char *what) {
  fprintf(stderr, "metadata-stress: %s: %s\n", what, strerror(errno));
  exit(2);
}

static long number(const char *text) {
  return strtol(text, NULL, 10);
}

static void make_file(const char *name) {
  int fd = open(name, O_CREAT | O_WRONLY, 0644);
  if (fd < 0)
    die(name);
  close(fd);
}

static const struct timespec new_times[2] = {{1100000000, 0}, {1100000000, 0}};

/* race: everything that a call is about is exchanged by others while it is made. */

struct shared {
  volatile int over;
  char path[PATH_MAX];  /* now the one, now the other */
  volatile int fd;
};

static char inside_path[PATH_MAX], outside_path[PATH_MAX];

static void *rewrite_path(void *arg) {
  struct shared *shared = arg;
  while (!shared->over) {
    memcpy(shared->path, outside_path, sizeof shared->path);
    memcpy(shared->path, inside_path, sizeof shared->path);
  }
  return NULL;
}

static void *exchange_names(void *arg) {
  const struct shared *shared = arg;
  while (!shared->over) {
    renameat2(AT_FDCWD, "swap", AT_FDCWD, "swap-outside", RENAME_EXCHANGE);
    renameat2(AT_FDCWD, "dir", AT_FDCWD, "dir-outside", RENAME_EXCHANGE);
    renameat2(AT_FDCWD, "deep/a", AT_FDCWD, "a-outside", RENAME_EXCHANGE);
    renameat2(AT_FDCWD, "entry", AT_FDCWD, "entry-outside", RENAME_EXCHANGE);
  }
  return NULL;
}

static void *exchange_descriptor(void *arg) {
  const struct shared *shared = arg;
  int inside = open(inside_path, O_RDONLY | O_CLOEXEC), outside = open(outside_path, O_RDONLY | O_CLOEXEC);
  while (!shared->over) {
    dup2(outside, shared->fd);
    dup2(inside, shared->fd);
  }
  return NULL;
}

/* One of the calls in turn; the paths are relative ones through what is exchanged, and the shared one. */
static int one_call(struct shared *shared, unsigned i) {
  static const char *const paths[] = {"swap/file", "dir/file", "deep/a/file", "entry", "./dir/../swap/file",
                                      "deep/up/dir/file"};
  enum { PATHS = sizeof paths / sizeof paths[0] };
  static __thread char attribute;
  const char *path = i % 3 ? paths[i / 3 % PATHS] : shared->path;
  attribute++;
  switch (i % 11) {
  case 0:
    return chmod(path, 0600 | (i & 0177));
  case 1:
    return utimensat(AT_FDCWD, path, new_times, 0);
  case 2:
    return setxattr(path, "user.race", &attribute, 1, 0);
  case 3:
    return chown(path, geteuid(), getegid());
  case 4:
    return (int)syscall(SYS_fchmodat, AT_FDCWD, path, 0600 | (i & 0177));
  case 5:
    return utimensat(AT_FDCWD, path, new_times, AT_SYMLINK_NOFOLLOW);
  case 6:
    return fchmod(shared->fd, 0600 | (i & 0177));
  case 7:
    return fsetxattr(shared->fd, "user.race", &attribute, 1, 0);
  case 8:
    return futimens(shared->fd, new_times);
  case 9: {
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", shared->fd);
    return chmod(name, 0600 | (i & 0177));
  }
  default: {
    int flags = FS_EXTENT_FL | (i & 1 ? FS_NODUMP_FL : 0);
    return ioctl(shared->fd, FS_IOC_SETFLAGS, &flags);
  }
  }
}

static int race(const char *outside, long count) {
  char target[PATH_MAX / 2];
  struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED || !getcwd(target, sizeof target))
    die("race");
  snprintf(inside_path, sizeof inside_path, "%s/dir-real/file", target);
  snprintf(outside_path, sizeof outside_path, "%s/file", outside);
  mkdir("dir-real", 0755);
  mkdir("dir", 0755);
  mkdir("deep", 0755);
  mkdir("deep/a", 0755);
  static const char *const names[] = {"dir-real/file", "dir/file", "deep/a/file", "entry", "plain"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    make_file(names[i]);
  if (symlink("dir-real", "swap") || symlink(outside, "swap-outside") || symlink(outside, "dir-outside") ||
      symlink(outside, "a-outside") || symlink(outside_path, "entry-outside") || symlink("..", "deep/up"))
    die("symlink");
  shared->fd = 40;
  if (dup2(open(inside_path, O_RDONLY), shared->fd) < 0)
    die("dup2");
  memcpy(shared->path, inside_path, sizeof shared->path);
  pthread_t threads[4];
  pthread_create(&threads[0], NULL, rewrite_path, shared);
  pthread_create(&threads[1], NULL, exchange_names, shared);
  pthread_create(&threads[2], NULL, exchange_descriptor, shared);
  pid_t other = fork();
  if (other == 0) {
    rewrite_path(shared);
    _exit(0);
  }
  long done = 0, plain = 0;
  for (long i = 0; i < count; i++) {
    done += one_call(shared, (unsigned)i) == 0;
    if (i % 4 == 0 && chmod("plain", 0600 | (i & 0177)) != 0)
      die("plain");
    plain += i % 4 == 0;
  }
  shared->over = 1;
  for (int i = 0; i < 3; i++)
    pthread_join(threads[i], NULL);
  waitpid(other, NULL, 0);
  printf("%ld %ld\n", done, plain);
  return 0;
}

/* identity */

static void say(const char *what, const char *name, long result) {
  struct stat st;
  if (stat(name, &st))
    die(name);
  printf("%s %s: %s, now %o %d:%d %s\n", what, name, result ? strerror(errno) : "done", st.st_mode, st.st_uid,
         st.st_gid, st.st_mtime == 1100000000 ? "new" : "old");
}

static const struct {
  uint32_t version;
  struct {
    uint16_t tag, perm;
    uint32_t id;
  } entry[5];
} acl = {2, {{1, 7, ~0u}, {2, 5, 12}, {4, 5, ~0u}, {16, 5, ~0u}, {32, 4, ~0u}}};

static void try_all(const char *who, const char *name) {
  char what[64];
#define TRY(call) (snprintf(what, sizeof what, "%s %s", who, #call), say(what, name, call))
  int fd = open(name, O_RDONLY | O_CLOEXEC);
  TRY(chmod(name, 0751));
  TRY(chmod(name, 06755));
  TRY(fchmod(fd, 0640));
  TRY(chown(name, 12, -1));
  TRY(chown(name, -1, 34));
  TRY(chown(name, -1, 4321));
  TRY(lchown(name, geteuid(), -1));
  TRY(utimensat(AT_FDCWD, name, new_times, 0));
  TRY(utimensat(AT_FDCWD, name, NULL, 0));
  TRY(setxattr(name, "user.x", "x", 1, 0));
  TRY(fsetxattr(fd, "user.y", "y", 1, 0));
  TRY(removexattr(name, "user.x"));
  TRY(setxattr(name, "system.posix_acl_access", &acl, sizeof acl, 0));
  TRY(removexattr(name, "system.posix_acl_access"));
#undef TRY
  close(fd);
}

static void set_capability(int capability, int effective) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct data[2];
  if (syscall(SYS_capget, &header, data))
    die("capget");
  data[0].effective = (data[0].effective & ~(1u << capability)) | (effective ? 1u << capability : 0);
  if (syscall(SYS_capset, &header, data))
    die("capset");
}

/* Those that change groups come last: from then on the supervisor looks identities up in another way. */
enum { ONLY_FSUID, ONLY_EUID, FSGID, NO_FOWNER, NO_CHOWN, ALL, GROUPS, FORMS };

static void give_up(int form, uid_t uid) {
  const gid_t group = 4321;
  switch (form) {
  case ALL:
    if (setgroups(0, NULL) || setresgid(uid, uid, uid) || setresuid(uid, uid, uid))
      die("setresuid");
    /* It would else count as a process that may not be looked into. */
    prctl(PR_SET_DUMPABLE, 1);
    break;
  case ONLY_FSUID:
    setfsuid(uid);
    break;
  case ONLY_EUID:
    if (setresuid(-1, uid, -1))
      die("seteuid");
    break;
  case GROUPS:
    if (setgroups(1, &group) || setresgid(uid, uid, uid) || setresuid(uid, uid, uid))
      die("setgroups");
    prctl(PR_SET_DUMPABLE, 1);
    break;
  case FSGID:
    setfsgid(uid);
    setfsuid(uid);
    break;
  case NO_FOWNER:
    set_capability(CAP_FOWNER, 0);
    break;
  default:
    set_capability(CAP_CHOWN, 0);
  }
}

static int identity(uid_t uid) {
  static const char *const forms[] = {"fsuid", "euid", "fsgid", "no-fowner", "no-chown", "all", "groups"};
  static const char *const names[] = {"roots", "users", "groups", "strangers"};
  for (int form = 0; form < FORMS; form++) {
    for (int i = 0; i < 4; i++) {
      unlink(names[i]);
      make_file(names[i]);
      const struct timespec old[2] = {{1000000000, 0}, {1000000000, 0}};
      if (chmod(names[i], 0664) || utimensat(AT_FDCWD, names[i], old, 0) ||
          chown(names[i], i == 1 ? uid : i == 3 ? 77 : 0, i == 2 ? 4321 : i == 1 ? uid : 0))
        die(names[i]);
    }
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
      give_up(form, uid);
      for (int i = 0; i < 4; i++)
        try_all(forms[form], names[i]);
      fflush(stdout);
      _exit(0);
    }
    int status;
    if (waitpid(child, &status, 0) != child || status)
      die(forms[form]);
  }
  return 0;
}

/* One call that only an owner may make, on a file of each of three. */
static void try_owners(const char *who) {
  static const char *const names[] = {"roots", "users", "strangers"};
  static mode_t mode;
  for (int i = 0; i < 3; i++) {
    char what[64];
    snprintf(what, sizeof what, "%s chmod", who);
    say(what, names[i], chmod(names[i], 0600 | (++mode & 077)));
  }
}

static void in_turn_with_another(uid_t uid) {
  int there[2], back[2];
  char byte = 0;
  fflush(stdout);
  if (pipe(there) || pipe(back))
    die("pipe");
  pid_t child = fork();
  if (child == 0)
    give_up(ONLY_EUID, uid);
  for (int i = 0; i < 8; i++) {
    if (child == 0 && read(there[0], &byte, 1) != 1)
      die("read");
    try_owners(child ? "parent" : "child");
    fflush(stdout);
    if (write(child ? there[1] : back[1], &byte, 1) != 1 || (child && read(back[0], &byte, 1) != 1))
      die("turn");
  }
  if (child == 0)
    _exit(0);
  if (waitpid(child, NULL, 0) != child)
    die("child");
}

static int turns(uid_t uid) {
  make_file("roots");
  make_file("users");
  make_file("strangers");
  if (chown("users", uid, uid) || chown("strangers", 77, 77))
    die("chown");
  for (int i = 0; i < 3; i++) {
    try_owners("root");
    if (seteuid(uid))
      die("seteuid");
    try_owners("user");
    if (seteuid(0))
      die("seteuid");
    try_owners("root again");
    prctl(PR_SET_DUMPABLE, 0);
    try_owners("hidden");
    set_capability(CAP_FOWNER, 0);
    try_owners("no owner");
    set_capability(CAP_FOWNER, 1);
    try_owners("owner again");
    prctl(PR_SET_DUMPABLE, 1);
  }
  in_turn_with_another(uid);
  return 0;
}

/* Calls whose effect is looked at. */

static int checked_call(const char *name, unsigned i) {
  struct stat st;
  mode_t mode = 0600 | (i & 0177);
  return chmod(name, mode) || stat(name, &st) || (st.st_mode & 07777) != mode;
}

static volatile sig_atomic_t ticks;

static void on_tick(int signal) {
  (void)signal;
  ticks++;
}

/* Before the supervisor has taken a call up, a handler without SA_RESTART ends it, as it ends any slow call: then
 * nothing has been done. */
static void call_under_signals(unsigned i, int flags) {
  struct stat before, after;
  mode_t mode = 0600 | (i & 0177);
  int failed = 0, tries = 0;
  do {
    if (stat("file", &before))
      die("stat");
    failed = chmod("file", mode) ? errno : 0;
    if (stat("file", &after) || (failed == EINTR && after.st_mode != before.st_mode))
      die("interrupted, and yet done");
  } while (failed == EINTR && !flags && ++tries < 1000);
  errno = failed;
  if (failed || (after.st_mode & 07777) != mode)
    die("chmod under signals");
}

static int signals(long count) {
  for (int flags = 0; flags <= SA_RESTART; flags += SA_RESTART) {
    const struct sigaction action = {.sa_handler = on_tick, .sa_flags = flags};
    const struct itimerspec often = {{0, 100000}, {0, 100000}}, never = {{0, 0}, {0, 0}};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    timer_t timer;
    if (sigaction(SIGALRM, &action, NULL) || timer_create(CLOCK_MONOTONIC, &event, &timer) ||
        timer_settime(timer, 0, &often, NULL))
      die("timer");
    for (long i = 0; i < count; i++)
      call_under_signals((unsigned)i, flags);
    timer_settime(timer, 0, &never, NULL);
    timer_delete(timer);
  }
  if (ticks < count / 100)
    die("too few signals");
  return 0;
}

static long calls_each;

static void *call_in_thread(void *arg) {
  char name[32];
  snprintf(name, sizeof name, "thread.%ld", (long)(intptr_t)arg);
  make_file(name);
  for (long i = 0; i < calls_each; i++)
    if (checked_call(name, (unsigned)i))
      die(name);
  return NULL;
}

static int threads(long count) {
  pthread_t all[64];
  calls_each = count;
  for (long i = 0; i < 64; i++)
    if (pthread_create(&all[i], NULL, call_in_thread, (void *)(intptr_t)i))
      die("pthread_create");
  for (int i = 0; i < 64; i++)
    pthread_join(all[i], NULL);
  return 0;
}

static int processes(long count) {
  calls_each = count;
  for (long i = 0; i < 200; i++) {
    pid_t child = fork();
    if (child < 0)
      die("fork");
    if (child == 0) {
      call_in_thread((void *)(intptr_t)i);
      _exit(0);
    }
  }
  int status, failed = 0;
  while (wait(&status) > 0)
    failed |= status;
  return failed != 0;
}

static int vfork_child(void *arg) {
  _exit(checked_call("file", (unsigned)(intptr_t)arg));
}

static int suspended(long count) {
  static char stack[65536];
  for (long i = 0; i < count; i++) {
    int status;
    pid_t child = clone(vfork_child, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, (void *)(intptr_t)i);
    if (child < 0 || waitpid(child, &status, 0) != child || status)
      die("vfork");
  }
  return 0;
}

static int hidden(void) {
  int fd = open("file", O_RDONLY);
  if (chmod("file", 0644) || prctl(PR_SET_DUMPABLE, 0))
    die("prctl");
  int failed[] = {chmod("file", 0600) ? errno : 0, fchmod(fd, 0600) ? errno : 0,
                  utimensat(AT_FDCWD, "file", NULL, 0) ? errno : 0, fsetxattr(fd, "user.x", "x", 1, 0) ? errno : 0};
  for (int i = 0; i < 4; i++)
    printf("%d%c", failed[i], i < 3 ? ' ' : '\n');
  return 0;
}

static _Noreturn void hammer(void) {
  for (int i = 0; i < 3; i++)
    if (fork() == 0)
      break;
  for (unsigned i = 0;; i++)
    if (chmod("file", 0600 | (i & 0177)) != 0)
      usleep(1000);
}

int main(int argc, char **argv) {
  if (argc < 3 || chdir(argv[2]))
    die("usage");
  umask(022);
  const char *form = argv[1];
  if (strcmp(form, "hammer"))
    make_file("file");
  if (!strcmp(form, "race") && argc == 5)
    return race(argv[3], number(argv[4]));
  if (!strcmp(form, "hidden"))
    return hidden();
  if (!strcmp(form, "hammer"))
    hammer();
  long count = argc == 4 ? number(argv[3]) : 0;
  if (!strcmp(form, "identity"))
    return identity((uid_t)count);
  if (!strcmp(form, "turns"))
    return turns((uid_t)count);
  if (!strcmp(form, "signals"))
    return signals(count);
  if (!strcmp(form, "threads"))
    return threads(count);
  if (!strcmp(form, "processes"))
    return processes(count);
  if (!strcmp(form, "vfork"))
    return suspended(count);
  return 2;
}
