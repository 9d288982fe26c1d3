/*
 * The terminal that the command shares with the shell it was started from: input faked for the
 * shell, and settings that stay changed.
 */
#define _GNU_SOURCE
#include "families.h"
#include "inside.h"
#include "outside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

static const char typed[] = "escaped\n";

static int inject(int fd, unsigned long request)
{
  for (const char *p = typed; *p; p++)
    if (syscall(SYS_ioctl, fd, request, p) < 0)
      return -1;
  return 0;
}

/* Typed input is in the queue, or has been echoed already. */
JUDGE(j_typed)
{
  char seen[512];
  int queued = 0;
  ssize_t n = read(c->ptmx, seen, sizeof seen);

  if (ioctl(c->tty, FIONREAD, &queued) == 0 && queued > 0)
    return escape_because(c, "%d characters wait to be read by the shell", queued);
  if (n > 0 && memmem(seen, (size_t)n, typed, sizeof typed - 2))
    return escape_because(c, "the terminal echoed typed characters");
  return false;
}

ATTEMPT(a_tiocsti)
{
  (void)c;
  return inject(0, ABI_TIOCSTI);
}

ATTEMPT(a_tiocsti_high)
{
  (void)c;
  return inject(0, ABI_TIOCSTI | 0xdeadbeefUL << 32);
}

ATTEMPT(a_tiocsti_stdout)
{
  (void)c;
  return inject(1, ABI_TIOCSTI);
}

ATTEMPT(a_tiocsti_dev_tty)
{
  (void)c;
  return inject(open("/dev/tty", O_RDWR | O_CLOEXEC), ABI_TIOCSTI);
}

ATTEMPT(a_tiocsti_path)
{
  return inject(open(c->text, O_RDWR | O_NOCTTY | O_CLOEXEC), ABI_TIOCSTI);
}

ATTEMPT(a_tiocsti_proc_fd)
{
  (void)c;
  return inject(open("/proc/self/fd/0", O_RDWR | O_NOCTTY | O_CLOEXEC), ABI_TIOCSTI);
}

ATTEMPT(a_tiocsti_int80)
{
  (void)c;
  for (const char *p = typed; *p; p++)
    if (INT80(I386_ioctl, 0, (long)ABI_TIOCSTI, escape_low(p, 1)) < 0)
      return -1;
  return 0;
}

ATTEMPT(a_tiocsti_x32)
{
  (void)c;
#if defined(__x86_64__)
  /* x32's ioctl has a number of its own */
  for (const char *p = typed; *p; p++)
    if (syscall(514 | X32_BIT, 0, ABI_TIOCSTI, p) < 0)
      return -1;
  return 0;
#else
  errno = ENOSYS;
  return -1;
#endif
}

/* In a session of its own the terminal is not the controlling one; it can be made so as root. */
ATTEMPT(a_tiocsti_session)
{
  (void)c;
  pid_t pid = fork();
  if (pid != 0)
    return pid > 0 && waitpid(pid, NULL, 0) == pid ? 0 : -1;
  setsid();
  ioctl(0, TIOCSCTTY, 1);
  inject(0, ABI_TIOCSTI);
  _exit(0);
}

/* A virtual console's selection can be pasted as input. */
PREPARE(p_console)
{
  snprintf(c->text, sizeof c->text, "/dev/tty60");
  c->tty = open(c->text, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  c->ptmx = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (c->tty < 0)
    return escape_not_here(c, "%s: %s", c->text, strerror(errno));
  struct termios t;
  if (tcgetattr(c->tty, &t) < 0)
    return escape_not_here(c, "%s: %s", c->text, strerror(errno));
  t.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
  tcsetattr(c->tty, TCSANOW, &t);
  (void)!write(c->tty, "\033[Hescaped", 10);
  return 0;
}

SPAWN(s_console)
{
  return escape_pass(s, c->tty, 0);
}

ATTEMPT(a_tioclinux)
{
  struct {
    char pad, subcode;
    unsigned short x1, y1, x2, y2, mode;
  } select = {0, 2, 1, 1, 7, 1, 0};
  char paste = 3;

  (void)c;
  if (ioctl(0, ABI_TIOCLINUX, &select.subcode) < 0)
    return -1;
  return ioctl(0, ABI_TIOCLINUX, &paste);
}

CLEANUP(c_console)
{
  if (c->tty >= 0)
    tcflush(c->tty, TCIFLUSH);
}

/* settings */

ATTEMPT(a_settings)
{
  struct termios t;

  (void)c;
  if (tcgetattr(0, &t) < 0)
    return -1;
  t.c_lflag &= ~(tcflag_t)(ECHO | ISIG);
  return tcsetattr(0, TCSANOW, &t);
}

STATE(s_settings)
{
  struct termios t;

  return tcgetattr(c->tty, &t) < 0 ? -1 : (long)t.c_lflag;
}

ATTEMPT(a_winsize)
{
  const struct winsize size = {.ws_row = 3, .ws_col = 7};

  (void)c;
  return ioctl(0, TIOCSWINSZ, &size);
}

STATE(s_winsize)
{
  struct winsize size = {0};

  return ioctl(c->tty, TIOCGWINSZ, &size) < 0 ? -1 : size.ws_row * 1000L + size.ws_col;
}

ATTEMPT(a_discipline)
{
  const int null = ABI_N_NULL;

  (void)c;
  return ioctl(0, ABI_TIOCSETD, &null);
}

STATE(s_discipline)
{
  int number = -1;

  return ioctl(c->tty, ABI_TIOCGETD, &number) < 0 ? -1 : number;
}

CLEANUP(c_discipline)
{
  const int tty = 0;

  if (c->tty >= 0)
    ioctl(c->tty, ABI_TIOCSETD, &tty);
}

ATTEMPT(a_exclusive)
{
  (void)c;
  return ioctl(0, TIOCEXCL);
}

STATE(s_exclusive)
{
  int on = -1;

  return ioctl(c->tty, 0x80045440UL /* TIOCGEXCL */, &on) < 0 ? -1 : on;
}

/* the terminal's node is a file outside */
ATTEMPT(a_tty_fchmod)
{
  (void)c;
  return fchmod(0, 0666);
}

STATE(s_tty_mode)
{
  struct stat st;

  return fstat(c->tty, &st) < 0 ? -1 : (long)st.st_mode;
}

#define T(id_, attempt_)                                   \
  {.id = id_,                                              \
   .family = "terminal-injection",                        \
   .flags = ESCAPE_NEEDS_TTY | ESCAPE_CHANNEL_TERMINAL,   \
   .attempt = attempt_,                                   \
   .escaped = j_typed}
#define SET(id_, attempt_, state_, cleanup_)               \
  {.id = id_,                                              \
   .family = "terminal-settings",                         \
   .flags = ESCAPE_NEEDS_TTY | ESCAPE_CHANNEL_TERMINAL,   \
   .by_design = "terminal-settings",                      \
   .attempt = attempt_,                                   \
   .state = state_,                                       \
   .cleanup = cleanup_}

const struct escape_technique escape_terminal[] = {
    T("tiocsti", a_tiocsti),
    T("tiocsti-high-bits", a_tiocsti_high),
    T("tiocsti-stdout", a_tiocsti_stdout),
    T("tiocsti-dev-tty", a_tiocsti_dev_tty),
    T("tiocsti-path", a_tiocsti_path),
    T("tiocsti-proc-fd", a_tiocsti_proc_fd),
    T("tiocsti-int80", a_tiocsti_int80),
    T("tiocsti-x32", a_tiocsti_x32),
    {.id = "tiocsti-new-session",
     .family = "terminal-injection",
     .flags = ESCAPE_NEEDS_TTY | ESCAPE_CHANNEL_TERMINAL | ESCAPE_ROOT_ONLY,
     .attempt = a_tiocsti_session,
     .escaped = j_typed},
    {.id = "tioclinux-paste",
     .family = "terminal-injection",
     .flags = ESCAPE_CHANNEL_TERMINAL | ESCAPE_ROOT_ONLY,
     .prepare = p_console,
     .spawn = s_console,
     .attempt = a_tioclinux,
     .escaped = j_typed,
     .cleanup = c_console},
    SET("terminal-settings", a_settings, s_settings, NULL),
    SET("terminal-window-size", a_winsize, s_winsize, NULL),
    SET("terminal-discipline", a_discipline, s_discipline, c_discipline),
    SET("terminal-exclusive", a_exclusive, s_exclusive, NULL),
    {.id = "terminal-fchmod",
     .family = "inherited-fd",
     .flags = ESCAPE_NEEDS_TTY | ESCAPE_CHANNEL_TERMINAL,
     .attempt = a_tty_fchmod,
     .state = s_tty_mode},
};
const size_t escape_terminal_count = sizeof escape_terminal / sizeof *escape_terminal;
