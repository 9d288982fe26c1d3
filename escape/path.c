/* The same file by another name: symlinks, `..`, /proc's links, moved ancestors, hard links. */
#define _GNU_SOURCE
#include "families.h"
#include "inside.h"
#include "outside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

static char *inside(struct escape_ctx *c, const char *name)
{
  return escape_in(c->ws, name);
}

ATTEMPT(a_symlink_file)
{
  return symlink(c->file, inside(c, "link")) < 0 ? -1 : escape_scribble(inside(c, "link"), 0);
}

ATTEMPT(a_symlink_relative)
{
  if (symlink("../victim/file", inside(c, "link")) < 0)
    return -1;
  return escape_scribble(inside(c, "link"), 0);
}

ATTEMPT(a_symlink_dir)
{
  if (symlink(c->victim, inside(c, "link")) < 0)
    return -1;
  return escape_scribble(inside(c, "link/new"), O_CREAT);
}

ATTEMPT(a_symlink_dangling)
{
  if (symlink("../victim/new", inside(c, "link")) < 0)
    return -1;
  return escape_scribble(inside(c, "link"), O_CREAT);
}

ATTEMPT(a_symlink_chain)
{
  if (symlink("../..", inside(c, "sub/up")) < 0 ||
      symlink("sub/up/victim", inside(c, "link")) < 0)
    return -1;
  return escape_scribble(inside(c, "link/dir/../file"), 0);
}

/* Made by somebody before: usual in source trees, and there in read-only mode too. */
PREPARE(p_symlink)
{
  return symlink("../victim", inside(c, "link")) < 0 ? -errno : 0;
}

ATTEMPT(a_symlink_existing)
{
  return escape_scribble(inside(c, "link/file"), 0);
}

ATTEMPT(a_dotdot)
{
  return escape_scribble(inside(c, "sub/../../victim/file"), 0);
}

ATTEMPT(a_dotdot_cwd)
{
  return chdir(c->ws) < 0 ? -1 : escape_scribble("../victim/file", 0);
}

ATTEMPT(a_proc_self_root)
{
  return escape_scribble(escape_in("/proc/self/root", c->file), 0);
}

ATTEMPT(a_proc_thread_root)
{
  return escape_scribble(escape_in("/proc/thread-self/root", c->file), 0);
}

ATTEMPT(a_proc_self_cwd)
{
  return chdir(c->ws) < 0 ? -1 : escape_scribble("/proc/self/cwd/../victim/file", 0);
}

ATTEMPT(a_proc_fd_dir)
{
  char path[ESCAPE_PATH];

  snprintf(path, sizeof path, "/proc/self/fd/%d/file",
           open(c->victim, O_PATH | O_DIRECTORY | O_CLOEXEC));
  return escape_scribble(path, 0);
}

/* Where the system has doubles of directories (/bin -> usr/bin) or files show up twice. */
ATTEMPT(a_double_slash)
{
  char path[ESCAPE_PATH * 2];

  snprintf(path, sizeof path, "//.//%s/./dir/..//file", c->victim);
  return escape_scribble(path, 0);
}

/* Ancestors: the workspace lies deep below the victim, and the attempt moves what is above it. */
PREPARE(p_deep)
{
  if (mkdir(escape_in(c->victim, "above"), 0755) < 0)
    return -errno;
  snprintf(c->ws, sizeof c->ws, "%s", escape_in(c->victim, "above/ws"));
  return mkdir(c->ws, 0755) < 0 ? -errno : 0;
}

ATTEMPT(a_rename_ancestor)
{
  return rename(escape_in(c->victim, "above"), escape_in(c->victim, "moved"));
}

ATTEMPT(a_exchange_ancestor)
{
  return (int)syscall(SYS_renameat2, AT_FDCWD, escape_in(c->victim, "above"), AT_FDCWD,
                      escape_in(c->victim, "dir"), ABI_RENAME_EXCHANGE);
}

ATTEMPT(a_rename_workspace)
{
  return rename(c->ws, escape_in(c->victim, "above/moved"));
}

ATTEMPT(a_rename_workspace_cwd)
{
  return chdir(c->ws) < 0 ? -1 : rename("../ws", "../moved");
}

ATTEMPT(a_rmdir_workspace)
{
  return rmdir(c->ws);
}

ATTEMPT(a_chmod_ancestor)
{
  return chmod(escape_in(c->victim, "above"), 0700);
}

/* The parent of where a link leads is not the workspace, whatever the link's own parent is. */
PREPARE(p_link_parent)
{
  return symlink("../victim/dir", inside(c, "gone")) < 0 ? -errno : 0;
}

ATTEMPT(a_link_parent)
{
  return chdir(inside(c, "gone")) < 0 ? -1 : escape_scribble("../file", 0);
}

/* Hard links to outside inodes. */
PREPARE(p_hardlink)
{
  return link(c->file, inside(c, "link")) < 0 ? -errno : 0;
}

ATTEMPT(a_hardlink_write)
{
  return escape_scribble(inside(c, "link"), 0);
}

ATTEMPT(a_hardlink_chmod)
{
  return chmod(inside(c, "link"), 0600);
}

ATTEMPT(a_hardlink_new)
{
  return link(c->file, inside(c, "link")) < 0 ? -1 : escape_scribble(inside(c, "link"), 0);
}

ATTEMPT(a_hardlink_proc_fd)
{
  char path[64];

  snprintf(path, sizeof path, "/proc/self/fd/%d", open(c->file, O_PATH | O_CLOEXEC));
  if (linkat(AT_FDCWD, path, AT_FDCWD, inside(c, "link"), AT_SYMLINK_FOLLOW) < 0)
    return -1;
  return escape_scribble(inside(c, "link"), 0);
}

ATTEMPT(a_hardlink_empty)
{
  int fd = open(c->file, O_PATH | O_CLOEXEC);

  if (linkat(fd, "", AT_FDCWD, inside(c, "link"), AT_EMPTY_PATH) < 0)
    return -1;
  return escape_scribble(inside(c, "link"), 0);
}

ATTEMPT(a_hardlink_int80)
{
  if (INT80(I386_link, escape_low_str(c->file), escape_low_str(inside(c, "link"))) < 0)
    return -1;
  return escape_scribble(inside(c, "link"), 0);
}

#define P(id_, attempt_) {.id = id_, .family = "path", .attempt = attempt_}
#define PW(id_, attempt_) \
  {.id = id_, .family = "path", .flags = ESCAPE_WORKSPACE_ONLY, .attempt = attempt_}
#define DEEP(id_, attempt_) {.id = id_, .family = "path", .prepare = p_deep, .attempt = attempt_}
#define H(id_, attempt_) \
  {.id = id_, .family = "hard-links", .flags = ESCAPE_WORKSPACE_ONLY, .attempt = attempt_}

const struct escape_technique escape_path[] = {
    PW("symlink-to-file", a_symlink_file),
    PW("symlink-relative", a_symlink_relative),
    PW("symlink-to-directory", a_symlink_dir),
    PW("symlink-dangling", a_symlink_dangling),
    PW("symlink-chain", a_symlink_chain),
    {.id = "symlink-existing",
     .family = "path",
     .prepare = p_symlink,
     .attempt = a_symlink_existing},
    P("dotdot", a_dotdot),
    P("dotdot-cwd", a_dotdot_cwd),
    {.id = "dotdot-of-symlink",
     .family = "path",
     .prepare = p_link_parent,
     .attempt = a_link_parent},
    P("proc-self-root", a_proc_self_root),
    P("proc-thread-self-root", a_proc_thread_root),
    P("proc-self-cwd", a_proc_self_cwd),
    P("proc-fd-directory", a_proc_fd_dir),
    P("double-slash", a_double_slash),
    DEEP("rename-ancestor", a_rename_ancestor),
    DEEP("exchange-ancestor", a_exchange_ancestor),
    DEEP("rename-workspace", a_rename_workspace),
    DEEP("rename-workspace-by-cwd", a_rename_workspace_cwd),
    DEEP("rmdir-workspace", a_rmdir_workspace),
    {.id = "chmod-ancestor",
     .family = "metadata",
     .prepare = p_deep,
     .attempt = a_chmod_ancestor},
    {.id = "hardlink-existing-write",
     .family = "hard-links",
     .flags = ESCAPE_WORKSPACE_ONLY,
     .by_design = "prior-hard-links",
     .prepare = p_hardlink,
     .attempt = a_hardlink_write},
    {.id = "hardlink-existing-chmod",
     .family = "hard-links",
     .flags = ESCAPE_WORKSPACE_ONLY,
     .by_design = "prior-hard-links",
     .prepare = p_hardlink,
     .attempt = a_hardlink_chmod},
    H("hardlink-new", a_hardlink_new),
    H("hardlink-new-proc-fd", a_hardlink_proc_fd),
    H("hardlink-new-empty-path", a_hardlink_empty),
    H("hardlink-new-int80", a_hardlink_int80),
};
const size_t escape_path_count = sizeof escape_path / sizeof *escape_path;
