/*
 * The parts of the metadata supervisor that find, judge and copy what a caller means, with this process as the
 * caller: against the kernel's own answers where it has one.
 */
#include "enter/sys.h"
#include "monitor/supervisor.h"

#include "guard/calls.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char place[64], root_path[96];
static struct confine__supervisor *supervisor;

static pid_t me(void) {
  return (pid_t)syscall(SYS_gettid);
}

static int make_file(const char *name) {
  int fd = open(name, O_CREAT | O_RDWR | O_CLOEXEC, 0644);
  assert_true(fd >= 0);
  return fd;
}

static void add_root(const char *path) {
  struct stat st;
  int fd = open(path, O_PATH | O_CLOEXEC);
  assert_int_equal(fstat(fd, &st), 0);
  supervisor->roots[supervisor->root_count++] = (struct confine__root){path, fd, st.st_dev, st.st_ino};
}

static int make_place(void **state) {
  (void)state;
  snprintf(place, sizeof place, "/var/tmp/confine-target-XXXXXX");
  if (!mkdtemp(place) || chdir(place))
    return -1;
  snprintf(root_path, sizeof root_path, "%s/in", place);
  mkdir("in", 0755);
  mkdir("in/dir", 0755);
  mkdir("outside", 0755);
  close(make_file("in/file"));
  close(make_file("in/dir/file"));
  close(make_file("outside/file"));
  if (symlink("file", "in/link") || symlink("../outside/file", "in/out") || symlink("dir", "in/dirlink") ||
      symlink("loop", "in/loop") || symlink("/proc/self/fd/60", "in/magic"))
    return -1;
  supervisor = mmap(NULL, sizeof *supervisor, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (supervisor == MAP_FAILED)
    return -1;
  supervisor->listener = -1;
  supervisor->root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
  supervisor->monitor = getpid();
  add_root(root_path);
  return 0;
}

static int remove_place(void **state) {
  char *words[] = {(char[]){"rm"}, (char[]){"-rf"}, place, NULL};
  int status = -1;
  (void)state;
  pid_t child = fork();
  if (child == 0) {
    execv("/bin/rm", words);
    _exit(127);
  }
  return waitpid(child, &status, 0) == child ? status : -1;
}

static void check_path(const char *path, int follow) {
  struct stat ours, kernels;
  int expected = open(path, O_PATH | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW));
  long wanted = expected < 0 ? -errno : 0;
  long start = confine__target_start(supervisor, me(), AT_FDCWD, path);
  long fd = confine__target_path(supervisor, me(), start, path, follow);
  if (wanted < 0) {
    if (fd != wanted)
      fail_msg("%s: %ld instead of %ld", path, fd, wanted);
    return;
  }
  if (fd < 0)
    fail_msg("%s: %ld", path, fd);
  assert_int_equal(fstat((int)fd, &ours), 0);
  assert_int_equal(fstat(expected, &kernels), 0);
  assert_int_equal(ours.st_ino, kernels.st_ino);
  assert_int_equal(ours.st_dev, kernels.st_dev);
  close((int)fd);
  close(expected);
}

static void test_paths_lead_where_the_kernel_goes(void **state) {
  static const char *const paths[] = {
    ".", "in", "in/", "in/file", "in/file/", "in/file/.", "in/link", "in/link/", "in/out",
    "in/dirlink", "in/dirlink/", "in/dirlink/..", "in/dirlink/file", "in/loop", "in/none",
    "in/none/", "in/none/x", "./in/../in//file", "/", "//", "/..", "/proc/self/fd/60",
    "/proc/self/fd/60/", "/proc/self/cwd/in/file", "/proc/thread-self/fd/60", "in/magic",
    "in/magic/", "/proc/self/fd/61", "/dev/stdin", "/dev/fd/60", "/proc/self/fd/99999",
    "/proc/self/root/", "/proc/mounts", "/proc/self/exe",
  };
  char path[PATH_MAX];
  (void)state;
  assert_int_equal(dup2(open("in/dir/file", O_RDONLY | O_CLOEXEC), 60), 60);
  assert_int_equal(dup2(open("in/dir", O_RDONLY | O_CLOEXEC), 61), 61);
  for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
    check_path(paths[i], 1);
    /* Of /proc's own links only the kind is the same for both. */
    if (strncmp(paths[i], "/proc/", 6) && strncmp(paths[i], "/dev/", 5))
      check_path(paths[i], 0);
  }
  memset(path, 'n', sizeof path);
  for (int length = 255; length <= 257; length++) {
    path[length] = '\0';
    check_path(path, 1);
    path[length] = 'n';
  }
  snprintf(path, sizeof path, "%s/in/out", place);
  check_path(path, 1);
}

/* Reached by a link before it, so that it is not the kernel who walks. */
static void test_a_link_of_proc_itself(void **state) {
  (void)state;
  assert_int_equal(symlink("/", "in/top"), 0);
  check_path("in/top/proc/self", 0);
  check_path("in/top/proc/thread-self", 0);
  check_path("in/top/proc/self/", 0);
}

static int link_chain(int length) {
  char name[32], target[32];
  for (int i = 0; i < length; i++) {
    snprintf(name, sizeof name, "in/chain%d", i);
    snprintf(target, sizeof target, i ? "chain%d" : "file", i - 1);
    if (symlink(target, name) && errno != EEXIST)
      return -1;
  }
  return 0;
}

static void test_forty_links_and_no_more(void **state) {
  (void)state;
  assert_int_equal(link_chain(41), 0);
  long fd = confine__target_path(supervisor, me(), confine__target_start(supervisor, me(), AT_FDCWD, "in/chain39"),
                                 "in/chain39", 1);
  assert_true(fd >= 0);
  close((int)fd);
  fd = confine__target_path(supervisor, me(), confine__target_start(supervisor, me(), AT_FDCWD, "in/chain40"),
                            "in/chain40", 1);
  assert_int_equal(fd, -ELOOP);
}

/* /proc/self is one, and what it leads to another. */
static void test_links_of_proc_are_counted(void **state) {
  static const char pair[] = "/proc/self/root";
  const size_t length = sizeof pair - 1;
  char path[21 * sizeof pair] = "";
  (void)state;
  for (size_t i = 0; i < 21; i++) {
    memcpy(path + i * length, pair, sizeof pair);
    check_path(path, 1);
  }
}

static void test_a_failed_start_is_handed_on_and_nothing_stays_open(void **state) {
  (void)state;
  int before = dup(0);
  close(before);
  assert_int_equal(confine__target_path(supervisor, me(), -EBADF, "x", 1), -EBADF);
  for (int i = 0; i < 100; i++) {
    check_path("in/none", 1);
    check_path("in/loop", 1);
    check_path("in/file/x", 1);
    check_path("in/out", 1);
    check_path("in/magic/", 1);
  }
  int after = dup(0);
  assert_int_equal(after, before);
  close(after);
}

static int inside(int fd) {
  int target = dup(fd);
  int result = confine__target_inside(supervisor, &target);
  close(target);
  return result;
}

static int inside_path(const char *path, int flags) {
  int fd = open(path, flags | O_CLOEXEC);
  assert_true(fd >= 0);
  int result = inside(fd);
  close(fd);
  return result;
}

static void test_inside_and_outside(void **state) {
  (void)state;
  assert_int_equal(inside_path("in", O_PATH), 1);
  assert_int_equal(inside_path("in/dir/file", O_RDONLY), 1);
  assert_int_equal(inside_path("in/link", O_PATH | O_NOFOLLOW), 1);
  assert_int_equal(inside_path("in/out", O_PATH | O_NOFOLLOW), 1);
  assert_int_equal(inside_path("in/out", O_PATH), 0);
  assert_int_equal(inside_path("outside/file", O_RDONLY), 0);
  assert_int_equal(inside_path(".", O_PATH), 0);
  assert_int_equal(inside_path("/dev/null", O_RDWR), 0);
  assert_int_equal(inside_path("/proc/self/status", O_RDONLY), 0);
  /* A folder whose name only begins as a root's does. */
  assert_int_equal(mkdir("inner", 0755), 0);
  assert_int_equal(inside_path("inner", O_PATH), 0);
}

static void test_objects_without_a_name(void **state) {
  int pair[2];
  (void)state;
  assert_int_equal(pipe(pair), 0);
  assert_int_equal(inside(pair[0]), 1);
  int memory = memfd_create("x", 0), event = eventfd(0, 0);
  assert_int_equal(inside(memory), 1);
  assert_int_equal(inside(event), 1);
  close(pair[0]);
  close(pair[1]);
  close(memory);
  close(event);
}

static void test_removed_objects(void **state) {
  (void)state;
  int file = make_file("in/gone"), linked = make_file("in/one"), far = make_file("outside/gone");
  int far_linked = make_file("outside/one");
  assert_int_equal(link("in/one", "in/two"), 0);
  assert_int_equal(link("outside/one", "outside/two"), 0);
  assert_int_equal(unlink("in/gone") | unlink("in/one") | unlink("outside/gone") | unlink("outside/one"), 0);
  assert_int_equal(inside(file), 1);
  assert_int_equal(inside(linked), 1);
  assert_int_equal(inside(far), 0);
  assert_int_equal(inside(far_linked), 0);
  assert_int_equal(mkdir("in/empty", 0755), 0);
  int directory = open("in/empty", O_RDONLY | O_CLOEXEC);
  assert_int_equal(rmdir("in/empty"), 0);
  assert_int_equal(inside(directory), 1);
  int nameless = open("in", O_TMPFILE | O_RDWR | O_CLOEXEC, 0644);
  assert_int_equal(inside(nameless), 1);
  /* A living file may be called what proc(5) writes behind a dead one's name. */
  int living = make_file("in/x (deleted)");
  assert_int_equal(inside(living), 1);
  int other = make_file("outside/memfd:x (deleted)");
  assert_int_equal(unlink("outside/memfd:x (deleted)"), 0);
  assert_int_equal(inside(other), 0);
  const int opened[] = {file, linked, far, far_linked, directory, nameless, living, other};
  for (size_t i = 0; i < sizeof opened / sizeof opened[0]; i++)
    close(opened[i]);
}

static volatile int over;

static void *rename_around(void *arg) {
  (void)arg;
  while (!over) {
    renameat2(AT_FDCWD, "in/moving", AT_FDCWD, "in/dir/moving", RENAME_NOREPLACE);
    renameat2(AT_FDCWD, "in/dir/moving", AT_FDCWD, "in/moving", RENAME_NOREPLACE);
  }
  return NULL;
}

static void test_an_object_that_is_renamed_meanwhile(void **state) {
  pthread_t thread;
  (void)state;
  int fd = make_file("in/moving");
  over = 0;
  assert_int_equal(pthread_create(&thread, NULL, rename_around, NULL), 0);
  int found = 0;
  for (int i = 0; i < 2000; i++)
    found += inside(fd);
  over = 1;
  pthread_join(thread, NULL);
  close(fd);
  assert_int_equal(found, 2000);
}

static void test_memory_is_copied_up_to_the_edge(void **state) {
  char out[8192];
  (void)state;
  char *pages = mmap(NULL, 12288, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(pages != MAP_FAILED);
  assert_int_equal(munmap(pages + 8192, 4096), 0);
  memset(pages, 'x', 8192);
  uint64_t at = (uint64_t)(uintptr_t)pages;
  assert_int_equal(confine__copy_string(me(), at, out, sizeof out), -ENAMETOOLONG);
  assert_int_equal(confine__copy_string(me(), at + 1, out, sizeof out), -EFAULT);
  assert_int_equal(confine__copy_string(me(), at + 8192, out, sizeof out), -EFAULT);
  assert_int_equal(confine__copy_string(me(), 0, out, sizeof out), -EFAULT);
  assert_int_equal(confine__copy_string(me(), ~0ull, out, sizeof out), -EFAULT);
  pages[8191] = '\0';
  assert_int_equal(confine__copy_string(me(), at + 1, out, sizeof out), 0);
  assert_int_equal(strlen(out), 8190);
  assert_int_equal(confine__copy_string(me(), at + 4092, out, 4100), 0);
  assert_int_equal(confine__copy_string(me(), at + 4092, out, 4099), -ENAMETOOLONG);
  assert_int_equal(confine__copy_in(me(), at + 8191, out, 1), 0);
  assert_int_equal(confine__copy_in(me(), at + 8191, out, 2), -EFAULT);
  munmap(pages, 8192);
}

static void test_descriptors(void **state) {
  (void)state;
  assert_int_equal(confine__target_descriptor(me(), -1), -EBADF);
  assert_int_equal(confine__target_descriptor(me(), 99999), -EBADF);
  assert_int_equal(confine__copy_descriptor(me(), 99999), -EBADF);
  assert_int_equal(confine__copy_descriptor(me(), -1), -EBADF);
  int path_only = open("in/file", O_PATH | O_CLOEXEC);
  long copy = confine__copy_descriptor(me(), path_only);
  assert_true(copy >= 0);
  assert_true(fcntl((int)copy, F_GETFL) & O_PATH);
  close((int)copy);
  close(path_only);
}

struct apart {
  pid_t tid;
  volatile int ready, over;
};

static void *with_own_table(void *arg) {
  struct apart *apart = arg;
  if (unshare(CLONE_FILES) == 0)
    dup2(open("in/dir/file", O_RDONLY | O_CLOEXEC), 70);
  apart->tid = me();
  apart->ready = 1;
  while (!apart->over)
    sched_yield();
  return NULL;
}

/* A thread may have a table of descriptors of its own. */
static void test_the_thread_is_asked_not_its_process(void **state) {
  struct apart apart = {0};
  struct stat mine, theirs, wanted;
  pthread_t thread;
  (void)state;
  assert_int_equal(dup2(open("outside/file", O_RDONLY | O_CLOEXEC), 70), 70);
  assert_int_equal(pthread_create(&thread, NULL, with_own_table, &apart), 0);
  while (!apart.ready)
    sched_yield();
  long target = confine__target_descriptor(apart.tid, 70), copy = confine__copy_descriptor(apart.tid, 70);
  apart.over = 1;
  pthread_join(thread, NULL);
  assert_true(target >= 0 && copy >= 0);
  stat("in/dir/file", &wanted);
  fstat((int)target, &mine);
  fstat((int)copy, &theirs);
  assert_int_equal(mine.st_ino, wanted.st_ino);
  /* Before Linux 6.9 only a whole process can be asked for a copy. */
  if (syscall(SYS_pidfd_open, getpid(), O_EXCL) >= 0)
    assert_int_equal(theirs.st_ino, wanted.st_ino);
  close((int)target);
  close((int)copy);
}

static long limit(pid_t pid) {
  struct seccomp_notif notification = {.pid = (uint32_t)getpid()};
  notification.data.args[0] = (uint64_t)pid;
  return confine__limit_call(supervisor, &notification, CONFINE__CALL_prlimit64);
}

static void test_whose_limits_may_be_changed(void **state) {
  int ready[2], release[2];
  char byte;
  (void)state;
  assert_int_equal(pipe(ready) | pipe(release), 0);
  pid_t child = fork();
  if (child == 0) {
    /* A name that looks like the end of itself and another parent. */
    prctl(PR_SET_NAME, "a) R 1 (b");
    pid_t grandchild = fork();
    if (grandchild == 0) {
      close(release[1]);
      _exit(read(release[0], &byte, 1) != 0);
    }
    if (write(ready[1], &grandchild, sizeof grandchild) < 0)
      _exit(1);
    close(release[1]);
    _exit(waitpid(grandchild, NULL, 0) != grandchild);
  }
  pid_t grandchild;
  assert_int_equal(read(ready[0], &grandchild, sizeof grandchild), sizeof grandchild);
  assert_int_equal(limit(child), CONFINE__LET_KERNEL);
  assert_int_equal(limit(grandchild), CONFINE__LET_KERNEL);
  assert_int_equal(limit(getpid()), -EPERM);
  assert_int_equal(limit(getppid()), -EPERM);
  assert_int_equal(limit(1), -EPERM);
  assert_int_equal(limit(-1), -EPERM);
  assert_int_equal(limit(0x7fffffff), -EPERM);
  close(release[1]);
  close(release[0]);
  close(ready[0]);
  close(ready[1]);
  assert_int_equal(waitpid(child, NULL, 0), child);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_paths_lead_where_the_kernel_goes),
    cmocka_unit_test(test_a_link_of_proc_itself),
    cmocka_unit_test(test_forty_links_and_no_more),
    cmocka_unit_test(test_links_of_proc_are_counted),
    cmocka_unit_test(test_a_failed_start_is_handed_on_and_nothing_stays_open),
    cmocka_unit_test(test_inside_and_outside),
    cmocka_unit_test(test_objects_without_a_name),
    cmocka_unit_test(test_removed_objects),
    cmocka_unit_test(test_an_object_that_is_renamed_meanwhile),
    cmocka_unit_test(test_memory_is_copied_up_to_the_edge),
    cmocka_unit_test(test_descriptors),
    cmocka_unit_test(test_the_thread_is_asked_not_its_process),
    cmocka_unit_test(test_whose_limits_may_be_changed),
  };
  return cmocka_run_group_tests_name("target", tests, make_place, remove_place);
}
