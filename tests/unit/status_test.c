/*
 * What is believed of a launcher inside: a command that does nothing is run, and the status channel holds messages
 * that no launcher of ours sends.
 */
#include "monitor/front.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

extern char **environ;

static struct confine__denials *denials; /* shared with nobody: each test looks at it in its child */

static void say(int channel, const void *message, size_t length) {
  if (send(channel, message, length, MSG_NOSIGNAL) != (ssize_t)length)
    _exit(1);
}

static void say_denial(int channel, int32_t operation, const char *path) {
  struct confine__denial_message message = {.head = {CONFINE__MESSAGE_DENIAL, operation, 13, 77}, .count = 1};
  memset(message.comm, 'c', sizeof message.comm);
  memcpy(message.path, path, strlen(path));
  say(channel, &message, offsetof(struct confine__denial_message, path) + strlen(path));
}

/* Runs the command in this process with what has been said, and takes it from the channel. */
static void hear(int inside, struct confine__front_result *result) {
  char *argv[] = {(char *)"true", NULL};
  struct confine__plan plan = {.argv = argv, .envp = environ, .cwd = {.fd = -1}, .stdio = {-1, -1, -1}, .keep_fd = -1};
  struct confine__front_options options = {
      .parent = -1, .denials = denials, .stderr_pipe = -1, .outside = -1, .inside = inside};
  if (confine__front_run(&plan, &options, result) != 0)
    _exit(2);
}

/* A child, since a run changes what is process-wide. Returns its wait status after it has, perhaps, been stopped
 * and continued; its monitor may continue it before anybody here has seen the stop. */
static int in_child(void (*test)(int ours, int theirs), bool *ret_stopped) {
  int pair[2], status;
  assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
  pid_t pid = fork();
  if (pid == 0) {
    denials = calloc(1, sizeof *denials);
    test(pair[0], pair[1]);
    _exit(0);
  }
  *ret_stopped = false;
  while (waitpid(pid, &status, WUNTRACED | WCONTINUED) == pid && (WIFSTOPPED(status) || WIFCONTINUED(status))) {
    *ret_stopped = true;
    if (WIFSTOPPED(status))
      kill(pid, SIGCONT);
  }
  close(pair[0]);
  close(pair[1]);
  return status;
}

static void say_stopped(int ours, int theirs, int32_t number) {
  struct confine__message stopped = {CONFINE__MESSAGE_STOPPED, number, 0, -1};
  struct confine__front_result result;
  say(theirs, &stopped, sizeof stopped);
  close(theirs);
  hear(ours, &result);
}

static void stopped_by_stop(int ours, int theirs) {
  say_stopped(ours, theirs, SIGSTOP);
}

static void stopped_by_term(int ours, int theirs) {
  say_stopped(ours, theirs, SIGTERM);
}

static void stopped_by_kill(int ours, int theirs) {
  say_stopped(ours, theirs, SIGKILL);
}

static void stopped_by_nothing(int ours, int theirs) {
  say_stopped(ours, theirs, 0);
}

static void only_stop_signals_stop(void **state) {
  (void)state;
  static void (*const ignored[])(int ours, int theirs) = {stopped_by_term, stopped_by_kill, stopped_by_nothing};
  bool stopped;
  assert_int_equal(in_child(stopped_by_stop, &stopped), 0);
  assert_true(stopped);
  for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++) {
    assert_int_equal(in_child(ignored[i], &stopped), 0);
    assert_false(stopped);
  }
}

static void two_denials(int ours, int theirs) {
  struct confine__front_result result;
  say_denial(theirs, CONFINE__OPERATION_LAST, "/known");
  say_denial(theirs, CONFINE__OPERATION_LAST + 1, "/unknown");
  say_denial(theirs, 0, "/none");
  say_denial(theirs, -1, "/negative");
  close(theirs);
  hear(ours, &result);
  const struct confine__denial *denial = &denials->entries[0];
  if (denials->count != 1 || denials->dropped != 3 || strcmp(denials->names + denial->path, "/known") != 0)
    _exit(3);
  if (strnlen(denial->comm, sizeof denial->comm) != sizeof denial->comm - 1)
    _exit(4);
}

static void denials_can_be_told(void **state) {
  (void)state;
  bool stopped;
  assert_int_equal(in_child(two_denials, &stopped), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(only_stop_signals_stop),
      cmocka_unit_test(denials_can_be_told),
  };
  return cmocka_run_group_tests_name("status", tests, NULL, NULL);
}
