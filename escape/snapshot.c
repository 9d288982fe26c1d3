#define _GNU_SOURCE
#include "abi.h"
#include "inside.h"
#include "outside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { ENTRIES = 128, DEPTH = 5 };

struct entry {
  char path[ESCAPE_PATH]; /* below the victim; "" is the victim itself */
  struct stat st;
  uint64_t xattrs, content;
  unsigned flags;
};

/* Only the entries in use cost anything; from the allocator all would have to be cleared. */
struct escape_snapshot {
  size_t count;
  struct entry entry[ENTRIES];
};

static struct escape_snapshot before, now, usual;

/* FNV-1a */
static uint64_t mix(uint64_t hash, const void *data, size_t size)
{
  const unsigned char *p = data;

  while (size--) {
    hash ^= *p++;
    hash *= 1099511628211u;
  }
  return hash;
}

static uint64_t hash_xattrs(const char *path)
{
  char names[2048], value[2048];
  uint64_t hash = 1469598103934665603u;
  ssize_t n = llistxattr(path, names, sizeof names);

  for (ssize_t i = 0; i < n; i += (ssize_t)strlen(names + i) + 1) {
    ssize_t size = lgetxattr(path, names + i, value, sizeof value);
    hash = mix(hash, names + i, strlen(names + i) + 1);
    if (size > 0)
      hash = mix(hash, value, (size_t)size);
  }
  return hash;
}

static void read_file(struct entry *e, const char *path)
{
  char block[4096];
  ssize_t n;
  int flags = 0;
  int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

  if (fd < 0)
    return;
  if (ioctl(fd, ABI_FS_IOC_GETFLAGS, &flags) == 0)
    e->flags = (unsigned)flags;
  e->content = 1469598103934665603u;
  while (S_ISREG(e->st.st_mode) && (n = read(fd, block, sizeof block)) > 0)
    e->content = mix(e->content, block, (size_t)n);
  close(fd);
}

static void walk(struct escape_snapshot *s, const char *root, const char *below, int depth)
{
  char path[ESCAPE_PATH * 2];

  snprintf(path, sizeof path, "%s%s%s", root, *below ? "/" : "", below);
  if (s->count == ENTRIES || depth > DEPTH)
    return;
  struct entry *e = &s->entry[s->count];
  memset(e, 0, sizeof *e);
  if (lstat(path, &e->st) < 0)
    return;
  s->count++;
  snprintf(e->path, sizeof e->path, "%s", below);
  e->xattrs = hash_xattrs(path);
  if (S_ISREG(e->st.st_mode) || S_ISDIR(e->st.st_mode))
    read_file(e, path);
  if (S_ISLNK(e->st.st_mode)) {
    char target[ESCAPE_PATH];
    ssize_t n = readlink(path, target, sizeof target);
    if (n > 0)
      e->content = mix(1, target, (size_t)n);
  }
  if (!S_ISDIR(e->st.st_mode))
    return;

  char names[ENTRIES * 64], next[ESCAPE_PATH];
  size_t size = escape_names(path, names, sizeof names);
  for (size_t at = 0; at < size; at += strlen(names + at) + 1)
    if (snprintf(next, sizeof next, "%s%s%s", below, *below ? "/" : "", names + at) <
        (int)sizeof next)
      walk(s, root, next, depth + 1);
}

static size_t take(struct escape_snapshot *s, const char *root)
{
  s->count = 0;
  walk(s, root, "", 0);
  return s->count;
}

int escape_snapshot_take(struct escape_ctx *c)
{
  c->snapshot = &before;
  return take(&before, c->victim) ? 0 : -ENOENT;
}

static const struct entry *find(const struct escape_snapshot *s, const char *path)
{
  for (size_t i = 0; i < s->count; i++)
    if (strcmp(s->entry[i].path, path) == 0)
      return &s->entry[i];
  return NULL;
}

static bool same_time(const struct timespec *a, const struct timespec *b)
{
  return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

/* What differs of the entry itself: not times, nor what a directory's entries make of it. */
static const char *own_difference(const struct entry *a, const struct entry *b)
{
  if ((a->st.st_mode & S_IFMT) != (b->st.st_mode & S_IFMT) || a->st.st_ino != b->st.st_ino)
    return "is another file";
  if (a->st.st_mode != b->st.st_mode)
    return "has another mode";
  if (a->st.st_uid != b->st.st_uid || a->st.st_gid != b->st.st_gid)
    return "has another owner";
  if (a->xattrs != b->xattrs)
    return "has other extended attributes";
  if (a->flags != b->flags)
    return "has other inode flags";
  if (S_ISDIR(a->st.st_mode))
    return NULL;
  if (a->content != b->content || a->st.st_size != b->st.st_size)
    return "has other contents";
  return a->st.st_nlink != b->st.st_nlink ? "has another number of links" : NULL;
}

/* The change times last because they follow from all else. */
static const char *difference(const struct entry *a, const struct entry *b)
{
  const char *own = own_difference(a, b);

  if (own)
    return own;
  if (a->content != b->content || a->st.st_size != b->st.st_size)
    return "has other entries";
  if (a->st.st_nlink != b->st.st_nlink)
    return "has another number of links";
  if (!same_time(&a->st.st_mtim, &b->st.st_mtim))
    return "has another modification time";
  if (!same_time(&a->st.st_ctim, &b->st.st_ctim))
    return "was changed (its change time moved)";
  return NULL;
}

bool escape_snapshot_changed(struct escape_ctx *c)
{
  bool changed = false;

  if (!c->snapshot)
    return false;
  take(&now, c->victim);
  for (size_t i = 0; i < now.count && !changed; i++)
    if (!find(c->snapshot, now.entry[i].path))
      changed = escape_because(c, "victim/%s was made", now.entry[i].path);
  for (size_t i = 0; i < c->snapshot->count && !changed; i++) {
    const struct entry *was = &c->snapshot->entry[i], *is = find(&now, was->path);
    const char *how = is ? difference(was, is) : "is gone";
    if (how)
      changed = escape_because(c, "victim%s%s %s", *was->path ? "/" : "", was->path, how);
  }
  return changed;
}

void escape_snapshot_take_usual(const struct escape_ctx *c)
{
  take(&usual, c->cell);
}

bool escape_snapshot_tidy(struct escape_ctx *c)
{
  struct stat st;

  if (!usual.count || take(&now, c->cell) == ENTRIES)
    return false;
  for (size_t i = 0; i < usual.count; i++) {
    const struct entry *is = find(&now, usual.entry[i].path);
    if (!is || own_difference(&usual.entry[i], is))
      return false;
  }
  for (size_t i = 0; i < now.count; i++)
    if (!find(&usual, now.entry[i].path)) {
      const char *path = escape_in(c->cell, now.entry[i].path);
      escape_remove_tree(path);
      if (lstat(path, &st) == 0)
        return false;
    }
  escape_age(c);
  return true;
}
