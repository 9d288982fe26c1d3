/*
 * The supervisor's own walk along a path against the kernel's: for any path through any symbolic links both must
 * find the same object or the same error. The input makes four links and a path from a small vocabulary, so that
 * most inputs mean something, or gives the path as it is.
 */
#include "enter/sys.h"
#include "monitor/supervisor.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <unistd.h>

enum { LINKS = 4, NOBODY = 65534 };

static char place[] = "/tmp/confine-target-fuzz.XXXXXX";
static char long_name[256], too_long_name[257];
static struct confine__supervisor supervisor;
static int here, held;
static dev_t proc;

static const char *const words[] = {
  "/", "/", "/", "/", ".", "..", "a", "b", "file", "link0", "link1", "link2", "link3", "closed",
  "nothing", "/proc/self/cwd", "/proc/self/fd/100", "/proc/thread-self/fd/101", "/proc/self",
  "self", "fd", "cwd", "root", "/dev/fd/100", "//", place, long_name, too_long_name, "/proc",
  "/tmp", "100", "task", "x",
};
enum { WORDS = sizeof words / sizeof words[0] };

static void fail(const char *what) {
  perror(what);
  abort();
}

static void remove_place(void) {
  static const char *const names[] = {"a/b/file", "a/b",   "a/file", "a",     "closed/file", "closed",
                                      "file",     "link0", "link1",  "link2", "link3",       long_name};
  if (fchdir(here) || chmod("closed", 0700))
    return;
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (unlink(names[i]) && rmdir(names[i]) && errno != ENOENT)
      perror(names[i]);
  rmdir(place);
}

static void make_file(const char *name) {
  int fd = open(name, O_CREAT | O_WRONLY, 0644);
  if (fd < 0)
    fail(name);
  close(fd);
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc;
  (void)argv;
  memset(long_name, 'n', 255);
  memset(too_long_name, 'n', 256);
  if (!mkdtemp(place) || chmod(place, 0755) || chdir(place))
    fail(place);
  if (mkdir("a", 0755) || mkdir("a/b", 0755) || mkdir("closed", 0755))
    fail("mkdir");
  make_file("file");
  make_file("a/file");
  make_file("a/b/file");
  make_file("closed/file");
  make_file(long_name);
  if (chmod("closed", 0))
    fail("closed");
  here = open(".", O_RDONLY | O_DIRECTORY);
  held = dup2(open("a", O_RDONLY), 100);
  if (here < 0 || held < 0 || dup2(open("a/file", O_RDONLY), 101) < 0)
    fail("open");
  struct stat st;
  if (stat("/proc", &st))
    fail("/proc");
  proc = st.st_dev;
  supervisor.root = open("/", O_PATH | O_DIRECTORY);
  supervisor.listener = -1;
  atexit(remove_place);
  return 0;
}

/* Takes words from the input until one that ends the text. */
static size_t spell(const uint8_t *data, size_t size, size_t at, char *out, size_t out_size) {
  size_t n = 0;
  while (at < size && data[at] % 64 < WORDS) {
    const char *word = words[data[at] % 64];
    size_t length = strlen(word);
    if (n + length >= out_size)
      break;
    memcpy(out + n, word, length);
    n += length;
    at++;
  }
  out[n] = '\0';
  return at < size ? at + 1 : at;
}

/* The object's device and inode, or the error. */
static int look_at(long fd, struct stat *st) {
  if (fd < 0)
    return (int)fd;
  if (sys(__NR_fstat, fd, st) != 0)
    fail("fstat");
  sys_close((int)fd);
  return 0;
}

static int same(long ours, long kernels) {
  struct stat a = {0}, b = {0};
  int x = look_at(ours, &a), y = look_at(kernels, &b);
  /* What lies below /proc/self has no inode number for long. */
  return x == y && a.st_dev == b.st_dev && (a.st_ino == b.st_ino || (a.st_dev == proc && a.st_mode == b.st_mode));
}

/* Returns 1 when both went the same way. */
static int compare(const char *text, int from, int follow) {
  pid_t tid = (pid_t)sys(__NR_gettid);
  int flags = O_PATH | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW);
  /* The kernel may count a link twice when it has to write its access time; so ask again. */
  for (int again = 0; again < 3; again++) {
    long start = confine__target_start(&supervisor, tid, from, text);
    long ours = confine__target_path(&supervisor, tid, start, text, follow);
    /* A walk that would spell out more than two paths' length at once is cut off. */
    int cut = ours == -ENAMETOOLONG;
    if (same(ours, sys_openat(from, text, flags, 0)) || cut)
      return 1;
  }
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char text[PATH_MAX], link[8];
  size_t at = 1;
  if (size < 2)
    return 0;
  for (int i = 0; i < LINKS; i++) {
    snprintf(link, sizeof link, "link%d", i);
    unlink(link);
    at = spell(data, size, at, text, 512);
    if (text[0] && symlink(text, link))
      fail(link);
  }
  int follow = data[0] & 1, from = data[0] & 2 ? held : AT_FDCWD;
  if (data[0] & 4) {
    size_t n = size - at < sizeof text - 1 ? size - at : sizeof text - 1;
    memcpy(text, data + at, n);
    text[n] = '\0';
  } else {
    spell(data, size, at, text, sizeof text);
  }
  if (!text[0])
    return 0;
  /* Root may go everywhere; as somebody else errors are part of the answer. */
  uid_t before = (uid_t)setfsuid(NOBODY);
  int agreed = compare(text, from, follow);
  setfsuid(before);
  if (agreed)
    return 0;
  /* By an abort of root's, which may leave the input where it is looked for. */
  fprintf(stderr, "differs: %s (%s)\n", text, follow ? "follow" : "nofollow");
  abort();
}
