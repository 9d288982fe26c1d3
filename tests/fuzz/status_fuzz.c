/*
 * Messages of any type, length and order on the status channel, as whoever runs a command reads them: from its monitor,
 * from a launcher inside and from a caller outside. The monitor is a stand-in whose channel closes when all has been
 * said. Whatever comes, this process is stopped by stop signals only, the list of denials stays whole, and a record can
 * be written.
 */
#include "fuzz.h"

#include "monitor/monitor.h"
#include "run/result.h"

#include <confine/policy.h>

#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MONITOR_PID 2 /* nobody's that this process knows */

enum { MONITOR, INSIDE, OUTSIDE, CHANNELS };

int fuzz_confine__monitor_start(struct confine__monitor *monitor, int *channel, pid_t *pid, void **stack);
void fuzz_confine__monitor_release(void *stack);
int fuzz_confine__end_tree(int limit_ms, pid_t command, int *command_status);
int fuzz_kill(pid_t pid, int number);
ssize_t fuzz_send(int fd, const void *bytes, size_t length, int flags);
pid_t fuzz_waitpid(pid_t pid, int *status, int options);

static struct fuzz_input input;
/* Read by front.c, and spoken at by the fuzzer; -1: there is no such channel. */
static int ears[CHANNELS], mouths[CHANNELS];
static uint8_t bits;
static struct confine__denials denials;

/* As many messages as there are; what a full buffer does not take is not said. */
static void say_all(void) {
  char bytes[2 * sizeof(struct confine__denial_message)];
  while (input.size) {
    int to = fuzz_byte(&input) % CHANNELS;
    size_t length = fuzz_number(&input, 2) % sizeof bytes;
    size_t given = length < input.size ? length : input.size;
    memset(bytes, 'x', length);
    memcpy(bytes, input.data, given);
    input.data += given;
    input.size -= given;
    if (mouths[to] >= 0)
      send(mouths[to], bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
}

static void open_channel(int which) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
    abort();
  ears[which] = pair[0];
  mouths[which] = pair[1];
}

static void close_mouth(int which) {
  if (mouths[which] >= 0)
    close(mouths[which]);
  mouths[which] = -1;
}

int fuzz_confine__monitor_start(struct confine__monitor *monitor, int *channel, pid_t *pid, void **stack) {
  uint8_t state = fuzz_byte(&input);
  /* All are blocked now; a crash in here would leave no input behind. */
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &monitor->plan->signal_mask, NULL, sizeof monitor->plan->signal_mask);
  monitor->started = state & 1;
  monitor->ended = state >> 1 & 1;
  monitor->timed_out = state >> 2 & 1;
  monitor->outcome.cwd_hidden = state >> 3 & 1;
  monitor->outcome.step = state & 16 ? (int32_t)fuzz_number(&input, 4) : CONFINE__STEP_NONE;
  monitor->outcome.error = fuzz_byte(&input);
  monitor->outcome.index = (int8_t)fuzz_byte(&input);
  monitor->wait_status = (int)fuzz_number(&input, 2);
  open_channel(MONITOR);
  say_all();
  close_mouth(MONITOR);
  if (bits & 1)
    close_mouth(INSIDE);
  if (bits & 2)
    close_mouth(OUTSIDE);
  *channel = ears[MONITOR];
  *pid = MONITOR_PID;
  *stack = NULL;
  return 0;
}

void fuzz_confine__monitor_release(void *stack) {
  REQUIRE(!stack);
}

int fuzz_confine__end_tree(int limit_ms, pid_t command, int *command_status) {
  REQUIRE(limit_ms > 0 && command == -1 && command_status);
  return 1;
}

int fuzz_kill(pid_t pid, int number) {
  REQUIRE(pid == getpid());
  REQUIRE(number == SIGSTOP || number == SIGTSTP || number == SIGTTIN || number == SIGTTOU);
  return 0;
}

pid_t fuzz_waitpid(pid_t pid, int *status, int options) {
  REQUIRE(pid == MONITOR_PID && !status && options);
  return pid;
}

static void check_told(const struct confine__message *message, size_t length) {
  switch (message->type) {
  case CONFINE__MESSAGE_STARTED:
  case CONFINE__MESSAGE_SETUP_FAILED:
  case CONFINE__MESSAGE_STOPPED:
  case CONFINE__MESSAGE_DROPPED:
  case CONFINE__MESSAGE_ENDED:
    REQUIRE(length == sizeof *message);
    break;
  case CONFINE__MESSAGE_DENIAL:
    REQUIRE(length >= offsetof(struct confine__denial_message, path));
    REQUIRE(length <= sizeof(struct confine__denial_message));
    break;
  default:
    REQUIRE(!"a type of message that is known");
  }
}

/* Nobody reads what the front says, so a full buffer would hold it up. */
ssize_t fuzz_send(int fd, const void *bytes, size_t length, int flags) {
  REQUIRE(flags & MSG_NOSIGNAL);
  if (fd == ears[OUTSIDE])
    check_told(bytes, length);
  else
    REQUIRE((fd == ears[MONITOR] || fd == ears[INSIDE]) && length == sizeof(struct confine__message));
  return (ssize_t)length;
}

static void check_denials(void) {
  REQUIRE(denials.count <= CONFINE__DENIALS_MAX && denials.names_used <= sizeof denials.names);
  for (size_t i = 0; i < denials.count; i++) {
    const struct confine__denial *denial = &denials.entries[i];
    size_t end = (size_t)denial->path + denial->path_length;
    REQUIRE(end < denials.names_used && !denials.names[end]);
    REQUIRE(memchr(denial->comm, '\0', sizeof denial->comm));
  }
}

static void check_record(const struct confine__front_result *front) {
  static confine_policy *policy;
  confine_result *result = NULL;
  char *line = NULL;
  if (!policy && confine_policy_new(CONFINE_MODE_READ_ONLY, &policy, NULL) < 0)
    abort();
  if (confine__result_new(policy, &result, NULL) < 0)
    abort();
  result->denials = &denials;
  result->observed = 1;
  REQUIRE(confine__result_fill(result, front, policy, NULL) == 0);
  REQUIRE(confine_result_json(result, &line, NULL) == 0);
  json_t *record = json_loads(line, 0, NULL);
  REQUIRE(json_is_object(record));
  REQUIRE(json_array_size(json_object_get(record, "denials")) == confine_result_denial_count(result));
  int status = confine_result_exit_status(result);
  REQUIRE(status >= 0 && status <= 255);
  json_decref(record);
  free(line);
  result->denials = NULL;
  confine_result_free(result);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct confine__plan plan = {.flags = 0};
  struct confine__front_result result;
  input = (struct fuzz_input){data, size};
  bits = fuzz_byte(&input);
  for (int i = 0; i < CHANNELS; i++)
    ears[i] = mouths[i] = -1;
  if (bits & 4)
    open_channel(INSIDE);
  if (bits & 8)
    open_channel(OUTSIDE);
  denials.count = denials.names_used = denials.dropped = 0;
  struct confine__front_options options = {.parent = -1,
                                           .stderr_pipe = -1,
                                           .denials = bits & 16 ? NULL : &denials,
                                           .keep_background = bits >> 5 & 1,
                                           .cwd_hidden = bits >> 6 & 1,
                                           .timeout_ms = bits & 128 ? 600000 : 0,
                                           .inside = ears[INSIDE],
                                           .outside = ears[OUTSIDE]};
  REQUIRE(confine__front_run(&plan, &options, &result) == 0);
  check_denials();
  check_record(&result);
  for (int i = INSIDE; i < CHANNELS; i++) {
    close_mouth(i);
    if (ears[i] >= 0)
      close(ears[i]);
  }
  return 0;
}
