/*
 * The arguments of the launchers, and the environment that landlock-run carries past bwrap. Both programs run whole,
 * but for what would change this process or replace it: that is handed to the functions below instead. What gets as far
 * as confining must be complete; what does not must end with one line and its exit status; and what is carried must
 * arrive as it was.
 */
#include "fuzz.h"

#include "launcher/environment.h"
#include "launcher/options.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Longest line that launcher_die writes. */
#define LINE_MAX_BYTES 8192
#define BLOCKS_MAX 65536

extern char **environ;

int landlock_run_main(int argc, char **argv);
int namespace_run_main(int argc, char **argv);
_Noreturn void fuzz__exit(int status);
void *fuzz_malloc(size_t size);
void *fuzz_calloc(size_t count, size_t size);
void *fuzz_realloc(void *block, size_t size);
void fuzz_free(void *block);
int fuzz_close(int fd);
int fuzz_dup2(int from, int to);
ssize_t fuzz_write(int fd, const void *bytes, size_t length);
long fuzz_syscall(long number, ...);
int fuzz_execve(const char *path, char *const argv[], char *const envp[]);
int fuzz_confine__landlock_abi(void);
unsigned long fuzz_confine__plan_namespaces(const struct confine__plan *plan);
void fuzz_confine__enter(const struct confine__plan *plan, struct confine__outcome *outcome);
int fuzz_confine__front_run(struct confine__plan *plan, const struct confine__front_options *options,
                            struct confine__front_result *result);
_Noreturn void fuzz_confine__front_mirror(int wait_status);

/* One run of a launcher. */
static struct {
  jmp_buf end;
  const char *name;
  int status, landlock_abi;
  int said;     /* standard error got the line */
  int confined; /* it got as far as that */
  uint64_t mask;
  uint64_t restored_mask;
  char **argv, **environment; /* of execve, or as restored for the command; the memory is among blocks */
} run;

/* The launchers leave their memory to exec or exit, after either of which it is freed here. */
static void *blocks[BLOCKS_MAX];
static size_t block_count;
static int first_fd; /* all from here on were opened by the launcher */

static void *keep(void *block) {
  if (!block || block_count == BLOCKS_MAX)
    abort();
  blocks[block_count++] = block;
  return block;
}

static void forget(const void *block) {
  for (size_t i = block_count; i-- > 0;)
    if (blocks[i] == block) {
      blocks[i] = blocks[--block_count];
      return;
    }
  REQUIRE(!block);
}

void *fuzz_malloc(size_t size) {
  return keep(malloc(size));
}

void *fuzz_calloc(size_t count, size_t size) {
  return keep(calloc(count, size));
}

void *fuzz_realloc(void *block, size_t size) {
  forget(block);
  return keep(realloc(block, size));
}

void fuzz_free(void *block) {
  forget(block);
  free(block);
}

_Noreturn void fuzz__exit(int status) {
  run.status = status;
  longjmp(run.end, 1);
}

int fuzz_close(int fd) {
  return fd < first_fd ? 0 : close(fd);
}

/* The standard streams are the fuzzer's own. */
int fuzz_dup2(int from, int to) {
  (void)from;
  REQUIRE(to >= STDIN_FILENO && to <= STDERR_FILENO);
  return to;
}

ssize_t fuzz_write(int fd, const void *bytes, size_t length) {
  const char *line = bytes;
  size_t name = strlen(run.name);
  REQUIRE(length > 0 && length <= LINE_MAX_BYTES && line[length - 1] == '\n');
  if (fd == STDERR_FILENO) {
    REQUIRE(length > name + 2 && memcmp(line, run.name, name) == 0 && memcmp(line + name, ": ", 2) == 0);
    run.said = 1;
  }
  return (ssize_t)length;
}

/* environment.c: a pidfd of this process, and the signal mask. */
long fuzz_syscall(long number, ...) {
  va_list arguments;
  va_start(arguments, number);
  if (number == SYS_rt_sigprocmask) {
    int how = va_arg(arguments, int);
    const uint64_t *set = va_arg(arguments, const uint64_t *);
    uint64_t *old = va_arg(arguments, uint64_t *);
    if (old)
      *old = run.mask;
    if (how == SIG_SETMASK)
      run.restored_mask = *set;
  } else {
    REQUIRE(number == SYS_pidfd_open);
  }
  va_end(arguments);
  return number == SYS_pidfd_open ? syscall(SYS_pidfd_open, getpid(), 0) : 0;
}

int fuzz_execve(const char *path, char *const argv[], char *const envp[]) {
  REQUIRE(path == argv[0]);
  run.argv = (char **)argv;
  run.environment = (char **)envp;
  fuzz__exit(0);
}

int fuzz_confine__landlock_abi(void) {
  return run.landlock_abi;
}

unsigned long fuzz_confine__plan_namespaces(const struct confine__plan *plan) {
  (void)plan;
  return 0;
}

static void check_roots(const struct confine__root *roots, size_t count) {
  REQUIRE(count <= CONFINE__ROOTS_MAX);
  for (size_t i = 0; i < count; i++)
    REQUIRE(roots[i].path && fcntl(roots[i].fd, F_GETFD) == FD_CLOEXEC);
}

static void check_plan(const struct confine__plan *plan) {
  run.confined = 1;
  REQUIRE(plan->argv && plan->argv[0] && plan->envp);
  check_roots(plan->roots, plan->root_count);
  check_roots(plan->readable, plan->readable_count);
  REQUIRE(plan->flags & (CONFINE__PLAN_LANDLOCK | CONFINE__PLAN_MOUNTS));
  run.argv = (char **)plan->argv;
  run.environment = (char **)plan->envp;
}

void fuzz_confine__enter(const struct confine__plan *plan, struct confine__outcome *outcome) {
  check_plan(plan);
  REQUIRE(!(plan->flags & (CONFINE__PLAN_METADATA | CONFINE__PLAN_OBSERVE)));
  outcome->step = CONFINE__STEP_EXEC;
  outcome->error = ENOENT;
}

int fuzz_confine__front_run(struct confine__plan *plan, const struct confine__front_options *options,
                            struct confine__front_result *result) {
  check_plan(plan);
  if (plan->flags & CONFINE__PLAN_OBSERVE)
    REQUIRE(plan->flags & CONFINE__PLAN_METADATA && options->outside >= 0 && options->denials);
  if (plan->flags & CONFINE__PLAN_METADATA)
    REQUIRE(plan->flags & CONFINE__PLAN_GUARD);
  REQUIRE(options->outside < 0 || fcntl(options->outside, F_GETFD) == FD_CLOEXEC);
  *result = (struct confine__front_result){.started = 1, .ended = 1};
  return 0;
}

_Noreturn void fuzz_confine__front_mirror(int wait_status) {
  REQUIRE(wait_status == 0);
  fuzz__exit(0);
}

static void launch(const char *name, int (*launcher)(int, char **), int argc, char **argv) {
  run.name = name;
  run.argv = run.environment = NULL;
  run.said = run.confined = 0;
  run.status = -1;
  if (!first_fd) {
    first_fd = dup(STDIN_FILENO);
    close(first_fd);
  }
  if (setjmp(run.end) == 0)
    launcher(argc, argv);
  REQUIRE(run.status == 0 || (run.status == LAUNCHER_FAILURE && run.said));
}

static void clean_up(void) {
  while (block_count)
    free(blocks[--block_count]);
  close_range((unsigned)first_fd, ~0u, 0);
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
    fcntl(fd, F_SETFD, 0);
  signal(SIGCHLD, SIG_DFL);
}

static void check_same(char *const *words, char *const *expected) {
  for (; *words && *expected; words++, expected++)
    REQUIRE(strcmp(*words, *expected) == 0);
  REQUIRE(!*words && !*expected);
}

/* Past a program that keeps the environment, and gets no more words than bwrap takes. */
static void carry(char **words, size_t count, struct fuzz_input *input) {
  size_t filler = fuzz_byte(input) == 255 ? ENVIRONMENT_WORDS_MAX : 0, n = 0, variables;
  run.mask = fuzz_number(input, 8);
  char **environment = fuzz_words(input, &variables);
  char **argv = fuzz_memory((count + filler + 8) * sizeof *argv);
  static char launcher[] = "landlock-run", option[] = "--carry-environment", restore[] = "--restore-environment",
              end[] = "--", program[] = "/usr/bin/bwrap", filling[] = "x";
  char *const fixed[] = {launcher, option, end, program, end, launcher, end};
  memcpy(argv, fixed, sizeof fixed);
  n = sizeof fixed / sizeof fixed[0];
  for (size_t i = 0; i < filler; i++)
    argv[n++] = filling;
  size_t command = n - filler;
  memcpy(argv + n, words, count * sizeof *words);
  argv[n + count] = NULL;
  environ = environment;
  /* The words are taken out of the list where they are carried in the environment. */
  char **expected = fuzz_memory((n + count + 1) * sizeof *expected);
  memcpy(expected, argv, (n + count + 1) * sizeof *expected);
  launch(launcher, landlock_run_main, (int)(n + count), argv);
  REQUIRE(run.status == 0 && run.environment);
  check_same(run.argv, filler ? (char *[]){program, end, launcher, end, NULL} : expected + 3);
  environ = run.environment;
  char *inside[] = {launcher, restore, end, filler ? NULL : filling, NULL};
  launch(launcher, landlock_run_main, filler ? 3 : 4, inside);
  REQUIRE(run.confined);
  check_same(run.environment, environment);
  check_same(run.argv, filler ? expected + command : inside + 3);
  REQUIRE(run.restored_mask == run.mask);
  free(expected);
  free(argv);
  fuzz_free_words(environment);
}

/* Words of the input, and perhaps before them as many paths as a launcher takes, or nearly. */
static void launch_words(uint8_t kind, struct fuzz_input *input) {
  static char landlock[] = "landlock-run", namespace[] = "namespace-run", readable[] = "--ro", writable[] = "--rw",
              root[] = "/";
  size_t count, paths = kind & 8 ? CONFINE__ROOTS_MAX - (kind >> 5 & 3u) : 0, argc = 0;
  char **words = fuzz_words(input, &count), **argv = fuzz_memory((2 * paths + count + 2) * sizeof *argv);
  argv[argc++] = kind & 1 ? landlock : namespace;
  for (size_t i = 0; i < paths; i++) {
    argv[argc++] = kind & 16 ? writable : readable;
    argv[argc++] = root;
  }
  memcpy(argv + argc, words, (count + 1) * sizeof *argv);
  launch(argv[0], kind & 1 ? landlock_run_main : namespace_run_main, (int)(argc + count), argv);
  free(argv);
  fuzz_free_words(words);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fuzz_input input = {data, size};
  char **before = environ;
  uint8_t kind = fuzz_byte(&input), count = fuzz_byte(&input) % 16;
  run.landlock_abi = fuzz_byte(&input) % 8;
  char **environment = fuzz_memory((count + 1u) * sizeof *environment);
  for (size_t i = 0; i < count; i++)
    environment[i] = fuzz_text(&input);
  environment[count] = NULL;
  if (kind & 4) {
    run.landlock_abi = 1;
    carry(environment, count, &input);
  } else {
    environ = environment;
    launch_words(kind, &input);
  }
  environ = before;
  clean_up();
  fuzz_free_words(environment);
  return 0;
}
