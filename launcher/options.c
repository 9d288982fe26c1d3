#include "options.h"
#include "enter/sys.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Noreturn void launcher_die(const struct launcher *launcher, const char *format, ...) {
  char line[8192];
  va_list arguments;
  va_start(arguments, format);
  int n = snprintf(line, sizeof line, "%s: ", launcher->name);
  int m = vsnprintf(line + n, sizeof line - (size_t)n - 1, format, arguments);
  va_end(arguments);
  size_t length = strlen(line);
  if (m >= 0)
    line[length++] = '\n';
  /* One write, so that the line stays whole among other writers. */
  ssize_t ignored = write(STDERR_FILENO, line, length);
  (void)ignored;
  _exit(LAUNCHER_FAILURE);
}

/* A standard stream that is closed stays so for the command, but its number is not for anything else. */
static void hold_streams(void) {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
    if (fcntl(fd, F_GETFD) < 0)
      open("/dev/null", O_RDWR | O_CLOEXEC); /* the lowest free number, which is this one */
}

void launcher_init(struct launcher *launcher, const char *name, char **environment) {
  hold_streams();
  memset(launcher, 0, sizeof *launcher);
  launcher->name = name;
  launcher->plan.roots = launcher->roots;
  launcher->plan.readable = launcher->readable;
  launcher->plan.envp = environment;
  launcher->plan.cwd.fd = -1;
  launcher->plan.keep_fd = -1;
  for (int i = 0; i < 3; i++)
    launcher->plan.stdio[i] = -1;
  launcher->status_fd = -1;
  launcher->workspace = -1;
  launcher->parent = -1;
}

static struct confine__root *next_root(struct launcher *launcher, int writable) {
  size_t *count = writable ? &launcher->plan.root_count : &launcher->plan.readable_count;
  if (*count == CONFINE__ROOTS_MAX)
    launcher_die(launcher, "usage error: more than %d paths", CONFINE__ROOTS_MAX);
  return &(writable ? launcher->roots : launcher->readable)[(*count)++];
}

void launcher_add_path(struct launcher *launcher, const char *path, int writable) {
  struct confine__root *root = next_root(launcher, writable);
  struct stat st;
  root->path = path;
  root->fd = open(path, O_PATH | O_CLOEXEC);
  if (root->fd < 0 || fstat(root->fd, &st) != 0)
    launcher_die(launcher, "cannot open rule path: %s: %s", path, strerror(errno));
  root->device = st.st_dev;
  root->inode = st.st_ino;
}

/* Parses an unsigned decimal number that ends at a colon. */
static int parse_number(const char **text, uint64_t *value) {
  char *end;
  if (**text < '0' || **text > '9')
    return 0;
  errno = 0;
  *value = strtoull(*text, &end, 10);
  if (errno || *end != ':')
    return 0;
  *text = end + 1;
  return 1;
}

static void add_identified_root(struct launcher *launcher, const char *value) {
  struct confine__root *root = next_root(launcher, 1);
  struct stat st;
  const char *path = value;
  if (!parse_number(&path, &root->device) || !parse_number(&path, &root->inode) || *path != '/')
    launcher_die(launcher, "usage error: --root requires DEV:INO:PATH, got %s", value);
  root->path = path;
  /* Canonical when it was chosen: a symbolic link in it now was put there since. */
  long fd = sys_openat2(AT_FDCWD, path, O_PATH | O_CLOEXEC | O_NOFOLLOW, SYS_RESOLVE_NO_SYMLINKS);
  if (fd == -ENOSYS)
    launcher_die(launcher, "writable root %s: this kernel lacks openat2 (Linux 5.6 or newer is needed)", path);
  if (fd < 0)
    launcher_die(launcher, "writable root %s: %s (it was changed after the policy was made)", path,
                 strerror((int)-fd));
  root->fd = (int)fd;
  if (launcher->workspace < 0)
    launcher->workspace = (int)(root - launcher->roots);
  if (fstat(root->fd, &st) != 0 || st.st_dev != root->device || st.st_ino != root->inode)
    launcher_die(launcher, "writable root %s is another object now than when the policy was made", path);
}

static void add_isolation(struct launcher *launcher, const char *list) {
  static const struct {
    const char *word;
    uint32_t flag;
  } words[] = {{"network", CONFINE__PLAN_ISOLATE_NETWORK},
               {"process", CONFINE__PLAN_ISOLATE_PROCESS},
               {"ipc", CONFINE__PLAN_ISOLATE_IPC}};
  for (const char *word = list;;) {
    size_t length = strcspn(word, ","), i = 0;
    while (i < 3 && (strlen(words[i].word) != length || strncmp(words[i].word, word, length) != 0))
      i++;
    if (i == 3)
      launcher_die(launcher, "usage error: --isolate takes network, process, ipc, got %s", list);
    launcher->plan.flags |= words[i].flag;
    if (!word[length])
      return;
    word += length + 1;
  }
}

static const char *value_of(struct launcher *launcher, char **argv, int *index) {
  if (!argv[*index + 1])
    launcher_die(launcher, "usage error: %s requires a value", argv[*index]);
  return argv[++*index];
}

static void set_status_fd(struct launcher *launcher, const char *value) {
  char *end;
  errno = 0;
  long fd = strtol(value, &end, 10);
  if (errno || *end || end == value || fd < 3 || fcntl((int)fd, F_SETFD, FD_CLOEXEC) != 0)
    launcher_die(launcher, "usage error: --status-fd requires an open descriptor above 2, got %s", value);
  launcher->status_fd = (int)fd;
}

int launcher_option(struct launcher *launcher, char **argv, int *index) {
  const char *option = argv[*index];
  if (strcmp(option, "--root") == 0)
    add_identified_root(launcher, value_of(launcher, argv, index));
  else if (strcmp(option, "--monitor") == 0)
    launcher->monitor |= 1;
  else if (strcmp(option, "--keep-background") == 0)
    launcher->monitor |= 2;
  else if (strcmp(option, "--status-fd") == 0)
    set_status_fd(launcher, value_of(launcher, argv, index));
  else if (strcmp(option, "--guard") == 0)
    launcher->plan.flags |= CONFINE__PLAN_CAPABILITIES | CONFINE__PLAN_GUARD;
  else if (strcmp(option, "--supervise") == 0)
    launcher->plan.flags |= CONFINE__PLAN_METADATA;
  else if (strcmp(option, "--observe") == 0)
    launcher->plan.flags |= CONFINE__PLAN_OBSERVE;
  else if (strcmp(option, "--isolate") == 0)
    add_isolation(launcher, value_of(launcher, argv, index));
  else
    return 0;
  return 1;
}

static _Noreturn void die_of(const struct launcher *launcher, enum confine__step step, int error, int index) {
  const char *text = strerror(error);
  if (step == CONFINE__STEP_EXEC)
    launcher_die(launcher, "exec failed: %s", text);
  if (step == CONFINE__STEP_LANDLOCK || step == CONFINE__STEP_RESTRICT)
    launcher_die(launcher, "landlock ruleset error: %s", text);
  if (step == CONFINE__STEP_OPEN_ROOT && index >= 0)
    launcher_die(launcher, "writable root %s was changed after the policy was made%s%s",
                 launcher->roots[index].path, error ? ": " : "", error ? text : "");
  launcher_die(launcher, "%s failed: %s", confine__step_name(step), error ? text : "the monitor was killed");
}

/* Without a monitor: this process itself becomes the command. */
static _Noreturn void become_command(struct launcher *launcher) {
  struct confine__outcome outcome = {.index = -1, .listener = -1};
  struct confine__plan *plan = &launcher->plan;
  unsigned long namespaces = confine__plan_namespaces(plan);
  if ((plan->flags & CONFINE__PLAN_MOUNTS) && plan->root_count && fchdir(plan->roots[0].fd) != 0)
    die_of(launcher, CONFINE__STEP_OPEN_ROOT, errno, 0);
  long r = namespaces ? sys(__NR_unshare, namespaces) : 0;
  if (r < 0)
    die_of(launcher, CONFINE__STEP_CLONE, (int)-r, -1);
  confine__enter(plan, &outcome);
  die_of(launcher, (enum confine__step)outcome.step, outcome.error, outcome.index);
}

static void note_cwd(struct launcher *launcher, char *path, size_t size) {
  struct confine__root *cwd = &launcher->plan.cwd;
  struct stat st;
  if (stat(".", &st) != 0)
    return;
  cwd->device = st.st_dev;
  cwd->inode = st.st_ino;
  cwd->path = getcwd(path, size);
}

_Noreturn void launcher_run(struct launcher *launcher) {
  struct confine__plan *plan = &launcher->plan;
  char cwd[4096];
  confine__plan_host(plan);
  if (launcher->cwd_lost && launcher->workspace >= 0 && fchdir(launcher->roots[launcher->workspace].fd) != 0)
    die_of(launcher, CONFINE__STEP_CHDIR, errno, launcher->workspace);
  if (plan->flags & CONFINE__PLAN_MOUNTS)
    note_cwd(launcher, cwd, sizeof cwd);
  if (plan->flags & CONFINE__PLAN_METADATA && !(plan->flags & CONFINE__PLAN_GUARD && launcher->monitor))
    launcher_die(launcher, "usage error: --supervise needs --guard and --monitor");
  if (plan->flags & CONFINE__PLAN_MOUNTS && plan->flags & CONFINE__PLAN_ISOLATE_PROCESS && launcher->monitor != 1)
    launcher_die(launcher, "usage error: --isolate process needs --monitor, and goes without --keep-background");
  if (plan->flags & CONFINE__PLAN_OBSERVE && !(plan->flags & CONFINE__PLAN_METADATA && launcher->status_fd >= 0))
    launcher_die(launcher, "usage error: --observe needs --supervise and --status-fd");
  if (!launcher->monitor) {
    if (launcher->status_fd >= 0)
      launcher_die(launcher, "usage error: --status-fd needs --monitor");
    become_command(launcher);
  }
  static struct confine__denials denials;
  struct confine__front_options options = {.keep_background = (launcher->monitor & 2) != 0,
                                           .follow_parent = 1,
                                           .parent = launcher->parent,
                                           .denials = plan->flags & CONFINE__PLAN_OBSERVE ? &denials : NULL,
                                           .release_stdio = 1,
                                           .last_act = 1,
                                           .cwd_hidden = launcher->cwd_lost,
                                           .outside = launcher->status_fd,
                                           .stderr_pipe = -1,
                                           .inside = -1};
  struct confine__front_result result;
  int r = confine__front_run(plan, &options, &result);
  if (r < 0)
    die_of(launcher, CONFINE__STEP_MONITOR, -r, -1);
  if (result.ended)
    confine__front_mirror(result.wait_status);
  if (launcher->status_fd >= 0)
    _exit(LAUNCHER_FAILURE); /* the caller has the record; the text is for those who have none */
  die_of(launcher, result.step, result.error, result.index);
}
