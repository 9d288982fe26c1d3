#include "report.h"
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_SIZE 64
#define NAMES_TRIED 100

static int open_descriptor(const char *target, struct report *report) {
  char *end;
  errno = 0;
  long fd = strtol(target + 3, &end, 10);
  if (errno || end == target + 3 || *end || fd < 0 || fd > INT_MAX)
    return cli_refuse("--report %s: fd: takes the number of an open descriptor", target);
  int flags = fcntl((int)fd, F_GETFL);
  if (flags < 0)
    return cli_refuse("--report %s: %s", target, strerror(errno));
  if ((flags & O_ACCMODE) == O_RDONLY)
    return cli_refuse("--report %s: the descriptor is open for reading only", target);
  report->fd = fcntl((int)fd, F_DUPFD_CLOEXEC, 3);
  return report->fd < 0 ? cli_refuse("--report %s: %s", target, strerror(errno)) : 0;
}

/* A device, pipe or socket has no contents to replace: it is written to as it is. */
static int open_special(const char *target, struct report *report) {
  report->fd = open(target, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (report->fd < 0)
    return cli_refuse("--report %s: %s", target, strerror(errno));
  fcntl(report->fd, F_SETFL, O_APPEND);
  return 0;
}

static void temporary_name(char *out, size_t size, unsigned attempt) {
  snprintf(out, size, ".confine-report-%ld-%u", (long)getpid(), attempt);
}

/* Returns a descriptor of a new file in directory, with its name, or -1 and errno. */
static int create_named(int directory, char *name, size_t size) {
  int fd = -1;
  for (unsigned attempt = 0; attempt < NAMES_TRIED; attempt++) {
    temporary_name(name, size, attempt);
    fd = openat(directory, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd >= 0 || errno != EEXIST)
      break;
  }
  return fd;
}

/* Where files without names cannot be had, whether one with a name can is seen by making one. */
static int takes_files(int directory) {
  char name[NAME_SIZE];
  int fd = create_named(directory, name, sizeof name);
  if (fd < 0)
    return 0;
  close(fd);
  unlinkat(directory, name, 0);
  return 1;
}

/*
 * A file without a name, in the directory where the record belongs: nothing the command does there can
 * reach it before it is whole, and if confine is killed nothing is left.
 */
static int open_unnamed(const char *target, struct report *report) {
  char *copy = strdup(target);
  char *slash = copy ? strrchr(copy, '/') : NULL;
  int refused = 0;
  if (!copy)
    return cli_refuse("out of memory");
  report->name = strdup(slash ? slash + 1 : copy);
  if (slash)
    slash[slash == copy] = '\0';
  report->directory = open(slash ? copy : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (!report->name || report->directory < 0)
    refused = cli_refuse("--report %s: %s", target, strerror(errno));
  else if (!*report->name)
    refused = cli_refuse("--report %s: it names a directory; name a file", target);
  else if (faccessat(report->directory, ".", W_OK | X_OK, AT_EACCESS) != 0)
    refused = cli_refuse("--report %s: its directory cannot be written: %s", target, strerror(errno));
  else if ((report->fd = openat(report->directory, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0644)) < 0 &&
           ((errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT) || !takes_files(report->directory)))
    refused = cli_refuse("--report %s: %s", target, strerror(errno));
  free(copy);
  return refused;
}

static int open_file(const char *target, struct report *report) {
  char resolved[PATH_MAX];
  struct stat st;
  if (!*target)
    return cli_refuse("--report: the name is empty; name a file or fd:N");
  if (stat(target, &st) != 0) {
    /* To follow it by hand would do what the kernel may not have done (proc(5), protected_symlinks). */
    int error = errno;
    if (lstat(target, &st) == 0 && S_ISLNK(st.st_mode))
      return cli_refuse("--report %s: a symbolic link that leads to no file: %s; name the file itself", target,
                        strerror(error));
    return open_unnamed(target, report);
  }
  if (S_ISDIR(st.st_mode))
    return cli_refuse("--report %s: it is a directory; name a file", target);
  /* /dev/stdout and its like name an open file, whose name is not to be given to another. */
  if (!S_ISREG(st.st_mode) || strncmp(target, "/dev/", 5) == 0 || strncmp(target, "/proc/", 6) == 0)
    return open_special(target, report);
  /* A symbolic link stays one: what it leads to is replaced. */
  if (!realpath(target, resolved))
    return cli_refuse("--report %s: %s", target, strerror(errno));
  return open_unnamed(resolved, report);
}

int report_open(const char *target, struct report *ret_report) {
  struct report report = {.fd = -1, .directory = -1};
  int r = 0;
  if (target)
    r = strncmp(target, "fd:", 3) == 0 ? open_descriptor(target, &report) : open_file(target, &report);
  if (r != 0)
    report_abandon(&report);
  else
    *ret_report = report;
  return r;
}

void report_abandon(struct report *report) {
  if (report->fd >= 0)
    close(report->fd);
  if (report->directory >= 0)
    close(report->directory);
  free(report->name);
  *report = (struct report){.fd = -1, .directory = -1};
}

/* Gives the file without a name one, as linkat(2) replaces nothing. */
static int link_named(const struct report *report, char *name, size_t size) {
  char link[40];
  int r = -1;
  snprintf(link, sizeof link, "/proc/self/fd/%d", report->fd);
  for (unsigned attempt = 0; attempt < NAMES_TRIED; attempt++) {
    temporary_name(name, size, attempt);
    r = linkat(AT_FDCWD, link, report->directory, name, AT_SYMLINK_FOLLOW);
    if (r == 0 || errno != EEXIST)
      break;
  }
  return r;
}

/* Takes the place of whatever is there at once, or leaves nothing. */
static int publish(struct report *report, const char *record, size_t length) {
  char temporary[NAME_SIZE];
  int named = report->fd < 0;
  if (named)
    report->fd = create_named(report->directory, temporary, sizeof temporary);
  if (report->fd < 0)
    return -1;
  int r = write(report->fd, record, length) == (ssize_t)length ? 0 : -1;
  if (r == 0 && !named)
    named = (r = link_named(report, temporary, sizeof temporary)) == 0;
  if (r == 0)
    r = renameat(report->directory, temporary, report->directory, report->name);
  if (r != 0 && named) {
    int saved = errno;
    unlinkat(report->directory, temporary, 0);
    errno = saved;
  }
  return r;
}

int report_wanted(const struct report *report) {
  return report->fd >= 0 || report->directory >= 0;
}

int report_write(struct report *report, const char *record) {
  int r = 0;
  /* A reader that has gone, or a limit on files, is an error to tell of and no reason to die. */
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  size_t length = strlen(record);
  char *line = malloc(length + 2);
  if (!line) {
    report_abandon(report);
    return cli_refuse("the result record could not be written: out of memory");
  }
  memcpy(line, record, length);
  line[length] = '\n';
  line[length + 1] = '\0';
  if (report->directory >= 0)
    r = publish(report, line, length + 1);
  else
    r = write(report->fd, line, length + 1) == (ssize_t)(length + 1) ? 0 : -1;
  if (r != 0)
    r = cli_refuse("the result record could not be written: %s", strerror(errno));
  free(line);
  report_abandon(report);
  return r;
}
