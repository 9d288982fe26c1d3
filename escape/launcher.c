/*
 * Attacks on what starts the sandbox: variables that load code into it or loosen it, programs and
 * configuration planted where it may look, odd names, and a workspace whose name comes to mean
 * something else between the decision and the start.
 */
#define _GNU_SOURCE
#include "families.h"
#include "inside.h"
#include "outside.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Loader variables. The shared object makes the file that ESCAPE_MARK names. */

static int has_object(struct escape_ctx *c)
{
  if (!c->object || access(c->object, R_OK) < 0)
    return escape_not_here(c, "the shared object for loader tricks was not built");
  return 0;
}

static int copy_object(struct escape_ctx *c, const char *to)
{
  const char *const *program = c->program;
  const char *const object[] = {c->object, NULL};

  c->program = object;
  int rc = escape_copy_program(c, to, 0755);
  c->program = program;
  return rc;
}

PREPARE(p_object)
{
  int rc = has_object(c);

  return rc ? rc : copy_object(c, escape_in(c->ws, "plant.so"));
}

static int mark_env(struct escape_ctx *c, struct escape_spawn *s)
{
  return escape_env(s, "ESCAPE_MARK=%s/planted", c->victim);
}

SPAWN(s_preload)
{
  int rc = mark_env(c, s);

  return rc ? rc : escape_env(s, "LD_PRELOAD=%s/plant.so", c->ws);
}

SPAWN(s_audit)
{
  int rc = mark_env(c, s);

  return rc ? rc : escape_env(s, "LD_AUDIT=%s/plant.so", c->ws);
}

/* Any dynamic program will do for the control. */
ATTEMPT(a_run_dynamic)
{
  const char *const argv[] = {"/bin/true", NULL};

  (void)c;
  return escape_exec_wait(argv);
}

static const char *const libraries[] = {"libselinux.so.1", "libcap.so.2", "libseccomp.so.2",
                                        "libjansson.so.4", "libyaml-0.so.2", NULL};

PREPARE(p_libraries)
{
  int rc = has_object(c);

  for (size_t i = 0; rc == 0 && libraries[i]; i++)
    rc = copy_object(c, escape_in(c->ws, libraries[i]));
  return rc;
}

SPAWN(s_library_path)
{
  int rc = mark_env(c, s);

  return rc ? rc : escape_env(s, "LD_LIBRARY_PATH=%s", c->ws);
}

ATTEMPT(a_run_ls)
{
  const char *const argv[] = {"/bin/ls", "/", NULL};

  (void)c;
  return escape_exec_wait(argv);
}

PREPARE(p_gconv)
{
  int rc = p_object(c);

  if (rc == 0)
    rc = escape_put(escape_in(c->ws, "gconv-modules"),
                    "module ESCAPE// INTERNAL plant 1\nmodule INTERNAL ESCAPE// plant 1\n", 0644);
  return rc;
}

SPAWN(s_gconv)
{
  int rc = mark_env(c, s);

  return rc ? rc : escape_env(s, "GCONV_PATH=%s", c->ws);
}

ATTEMPT(a_iconv)
{
  const char *const argv[] = {"iconv", "-f", "ESCAPE", "-t", "UTF-8", "/dev/null", NULL};

  (void)c;
  return escape_exec_wait(argv);
}

/* interpreters' variables */

static bool in_path(const char *name)
{
  static const char *const places[] = {"/usr/bin", "/usr/local/bin", "/bin", NULL};

  for (size_t i = 0; places[i]; i++)
    if (access(escape_in(places[i], name), X_OK) == 0)
      return true;
  return false;
}

PREPARE(p_bash)
{
  char text[ESCAPE_PATH + 32];

  if (!in_path("bash"))
    return escape_not_here(c, "no bash");
  snprintf(text, sizeof text, ": >'%s/planted'\n", c->victim);
  return escape_put(escape_in(c->ws, "plant.sh"), text, 0755);
}

SPAWN(s_bash)
{
  int rc = escape_env(s, "BASH_ENV=%s/plant.sh", c->ws);

  return rc ? rc : escape_env(s, "ENV=%s/plant.sh", c->ws);
}

ATTEMPT(a_bash)
{
  const char *const argv[] = {"bash", "-c", "true", NULL};

  (void)c;
  return escape_exec_wait(argv);
}

PREPARE(p_node)
{
  char text[ESCAPE_PATH + 64];

  if (!in_path("node"))
    return escape_not_here(c, "no node");
  snprintf(text, sizeof text, "require('fs').writeFileSync('%s/planted', '')\n", c->victim);
  return escape_put(escape_in(c->ws, "plant.js"), text, 0644);
}

SPAWN(s_node)
{
  return escape_env(s, "NODE_OPTIONS=--require %s/plant.js", c->ws);
}

ATTEMPT(a_node)
{
  const char *const argv[] = {"node", "-e", "0", NULL};

  (void)c;
  return escape_exec_wait(argv);
}

/* planted programs: scripts under the names of what a launcher may call */

static const char *const tools[] = {"bwrap",     "landlock-run", "namespace-run", "confine",
                                    "newuidmap", "newgidmap",    "sh",            "bash",
                                    "env",       "which",        "socat",         "mount",
                                    "ip",        "true",         NULL};

static int plant(struct escape_ctx *c, const char *below)
{
  char text[ESCAPE_PATH + 32], name[32];
  int rc = 0;

  snprintf(text, sizeof text, "#!/bin/sh\n: >'%s/planted'\n", c->victim);
  for (size_t i = 0; rc == 0 && tools[i]; i++) {
    snprintf(name, sizeof name, "%s%s", below, tools[i]);
    rc = escape_put(escape_in(c->ws, name), text, 0755);
  }
  return rc;
}

PREPARE(p_tools)
{
  if (mkdir(escape_in(c->ws, "bin"), 0755) < 0)
    return -errno;
  int rc = plant(c, "bin/");
  return rc ? rc : plant(c, "");
}

static const char *usual_path(void)
{
  const char *path = getenv("PATH");

  return path ? path : "/usr/bin:/bin";
}

SPAWN(s_path)
{
  return escape_env(s, "PATH=%s/bin:%s", c->ws, usual_path());
}

SPAWN(s_path_dot)
{
  (void)c;
  return escape_env(s, "PATH=.:%s", usual_path());
}

ATTEMPT(a_run_tool)
{
  const char *const argv[] = {"bwrap", NULL};

  (void)c;
  return escape_exec_wait(argv);
}

/* variables and configuration that could loosen the policy; the attempt is a plain write */

SPAWN(s_tmpdir)
{
  static const char *const names[] = {"TMPDIR", "TMP", "TEMP", "XDG_RUNTIME_DIR",
                                      "XDG_CACHE_HOME", NULL};
  int rc = 0;

  for (size_t i = 0; rc == 0 && names[i]; i++)
    rc = escape_env(s, "%s=%s", names[i], c->victim);
  return rc;
}

PREPARE(p_config)
{
  static const char *const names[] = {"confine.yaml", ".confine.yaml", ".confine/config.yaml",
                                      ".config/confine/config.yaml", NULL};
  char text[ESCAPE_PATH + 128];
  int rc = 0;

  snprintf(text, sizeof text, "mode: danger-full-access\nwritableRoots:\n  - %s\n", c->victim);
  if (mkdir(escape_in(c->ws, ".confine"), 0755) < 0 ||
      mkdir(escape_in(c->ws, ".config"), 0755) < 0 ||
      mkdir(escape_in(c->ws, ".config/confine"), 0755) < 0)
    return -errno;
  for (size_t i = 0; rc == 0 && names[i]; i++)
    rc = escape_put(escape_in(c->ws, names[i]), text, 0644);
  return rc;
}

SPAWN(s_config)
{
  int rc = escape_env(s, "XDG_CONFIG_HOME=%s/.config", c->ws);

  return rc ? rc : escape_env(s, "HOME=%s", c->ws);
}

PREPARE(p_loose)
{
  int rc = p_tools(c);

  return rc ? rc : p_config(c);
}

SPAWN(s_loose)
{
  static const char *const words[] = {
      "CONFINE_MODE=danger-full-access", "CONFINE_RUNNER=none",    "CONFINE_DISABLE=1",
      "CONFINE_WORKSPACE=/",             "CONFINE_SANDBOX=0",      "CONFINE_WRITE=/",
      "CONFINE_RUNNER_COMMAND=/usr/bin/env", "CONFINE_ISOLATE=", NULL};
  int rc = 0;

  for (size_t i = 0; rc == 0 && words[i]; i++)
    rc = escape_env(s, "%s", words[i]);
  if (rc == 0)
    rc = escape_env(s, "CONFINE_CONFIG=%s/confine.yaml", c->ws);
  if (rc == 0)
    rc = escape_env(s, "CONFINE_LAUNCHER_DIR=%s/bin", c->ws);
  if (rc == 0)
    rc = escape_env(s, "CONFINE_LIBEXECDIR=%s/bin", c->ws);
  return rc;
}

SPAWN(s_options)
{
  static const char *words[] = {"--",     "--mode", "danger-full-access", "--write", NULL,
                                "--bind", "/",      "/",                  NULL};

  words[4] = c->victim;
  s->more = words;
  return 0;
}

/* odd names of the workspace, which something may take apart */

static int move_victim(struct escape_ctx *c, const char *path)
{
  int rc = rename(c->victim, path) < 0 ? -errno : 0;

  snprintf(c->victim, sizeof c->victim, "%s", path);
  snprintf(c->file, sizeof c->file, "%s", escape_in(path, "file"));
  return rc;
}

static int move_workspace(struct escape_ctx *c, const char *path)
{
  int rc = rename(c->ws, path) < 0 ? -errno : 0;

  snprintf(c->ws, sizeof c->ws, "%s", path);
  return rc;
}

PREPARE(p_glob)
{
  int rc = move_victim(c, escape_in(c->cell, "v"));

  return rc ? rc : move_workspace(c, escape_in(c->cell, "[vx]"));
}

/* CELL/x<separator>CELL/victim as a directory's path: taken apart, it names the victim */
static int separated(struct escape_ctx *c, char separator)
{
  char path[ESCAPE_PATH];
  int n = snprintf(path, sizeof path, "%.200s/x%c%.200s/victim", c->cell, separator, c->cell);

  for (char *p = path + strlen(c->cell) + 1; n > 0 && (p = strchr(p, '/')); p++) {
    *p = '\0';
    if (mkdir(path, 0755) < 0 && errno != EEXIST)
      return -errno;
    *p = '/';
  }
  return move_workspace(c, path);
}

PREPARE(p_colon)
{
  return separated(c, ':');
}

PREPARE(p_comma)
{
  return separated(c, ',');
}

PREPARE(p_space)
{
  return separated(c, ' ');
}

PREPARE(p_newline)
{
  return separated(c, '\n');
}

/*
 * The workspace's name comes to mean the victim. Either it, or its parent, gives way to a symlink;
 * num[0] says which, num[1] whether the link is relative. The name is kept with ".away", the link
 * with ".link".
 */

static char *swapped(struct escape_ctx *c, const char *suffix)
{
  char name[32];

  snprintf(name, sizeof name, "%s%s", c->num[0] ? "p" : "ws", suffix);
  return escape_in(c->cell, name);
}

static int swappable(struct escape_ctx *c, long parent, long relative)
{
  char target[ESCAPE_PATH];
  int rc = 0;

  c->num[0] = parent;
  c->num[1] = relative;
  if (parent) {
    if (mkdir(escape_in(c->cell, "q"), 0755) < 0 || mkdir(escape_in(c->cell, "p"), 0755) < 0)
      return -errno;
    rc = move_victim(c, escape_in(c->cell, "q/ws"));
    if (rc == 0)
      rc = move_workspace(c, escape_in(c->cell, "p/ws"));
  }
  const char *last = parent ? "q" : "victim";
  snprintf(target, sizeof target, "%s", relative ? last : escape_in(c->cell, last));
  if (rc == 0 && symlink(target, swapped(c, ".link")) < 0)
    rc = -errno;
  return rc;
}

PREPARE(p_swap_absolute)
{
  return swappable(c, 0, 0);
}

PREPARE(p_swap_relative)
{
  return swappable(c, 0, 1);
}

PREPARE(p_swap_parent_absolute)
{
  return swappable(c, 1, 0);
}

PREPARE(p_swap_parent_relative)
{
  return swappable(c, 1, 1);
}

static int swap_once(struct escape_ctx *c)
{
  return syscall(SYS_renameat2, AT_FDCWD, swapped(c, ""), AT_FDCWD, swapped(c, ".link"),
                 ABI_RENAME_EXCHANGE) < 0
             ? -errno
             : 0;
}

static void swap_on(struct escape_ctx *c, int stop)
{
  struct pollfd p = {.fd = stop, .events = POLLIN};

  escape_ready();
  while (poll(&p, 1, 0) == 0)
    for (int i = 0; i < 32; i++)
      swap_once(c);
}

static int start_swapping(struct escape_ctx *c)
{
  return escape_helper(c, swap_on);
}

ATTEMPT(a_write_workspace)
{
  int by_name = escape_scribble(escape_in(c->ws, "raced"), O_CREAT);
  int direct = escape_scribble(escape_in(c->victim, "raced"), O_CREAT);
  int here = escape_scribble("raced", O_CREAT);

  return by_name == 0 || direct == 0 || here == 0 ? 0 : -1;
}

/* The racing helper goes on until the last start. */
JUDGE(j_race)
{
  return escape_snapshot_changed(c);
}

#define A(id_, prepare_, spawn_, attempt_) \
  {.id = id_,                               \
   .family = "launcher",                   \
   .flags = ESCAPE_ATTACKS_LAUNCHER,       \
   .prepare = prepare_,                    \
   .spawn = spawn_,                        \
   .attempt = attempt_}
#define SWAP(id_, prepare_)                                            \
  {.id = id_,                                                           \
   .family = "workspace-race",                                         \
   .flags = ESCAPE_ATTACKS_LAUNCHER | ESCAPE_SWAPS_WORKSPACE |         \
            ESCAPE_WORKSPACE_ONLY,                                     \
   .prepare = prepare_,                                                \
   .begin = swap_once,                                                 \
   .attempt = a_write_workspace}
#define RACE(id_, prepare_)                                            \
  {.id = id_,                                                           \
   .family = "workspace-race",                                         \
   .flags = ESCAPE_ATTACKS_LAUNCHER | ESCAPE_SWAPS_WORKSPACE |         \
            ESCAPE_WORKSPACE_ONLY | ESCAPE_REPEAT,                     \
   .prepare = prepare_,                                                \
   .begin = start_swapping,                                            \
   .attempt = a_write_workspace,                                       \
   .escaped = j_race}

const struct escape_technique escape_launcher[] = {
    A("ld-preload", p_object, s_preload, a_run_dynamic),
    A("ld-audit", p_object, s_audit, a_run_dynamic),
    A("ld-library-path", p_libraries, s_library_path, a_run_ls),
    A("gconv-path", p_gconv, s_gconv, a_iconv),
    A("bash-env", p_bash, s_bash, a_bash),
    A("node-options", p_node, s_node, a_node),
    A("path-plant", p_tools, s_path, a_run_tool),
    A("path-dot", p_tools, s_path_dot, a_run_tool),
    A("tmpdir-variable", NULL, s_tmpdir, escape_write_victim),
    A("planted-configuration", p_config, s_config, escape_write_victim),
    A("loosening-variables", p_loose, s_loose, escape_write_victim),
    A("option-injection", NULL, s_options, escape_write_victim),
    A("workspace-glob", p_glob, NULL, escape_write_victim),
    A("workspace-colon", p_colon, NULL, escape_write_victim),
    A("workspace-comma", p_comma, NULL, escape_write_victim),
    A("workspace-space", p_space, NULL, escape_write_victim),
    A("workspace-newline", p_newline, NULL, escape_write_victim),
    SWAP("workspace-becomes-link", p_swap_absolute),
    SWAP("workspace-becomes-relative-link", p_swap_relative),
    SWAP("parent-becomes-link", p_swap_parent_absolute),
    SWAP("parent-becomes-relative-link", p_swap_parent_relative),
    RACE("workspace-race", p_swap_absolute),
    RACE("workspace-race-relative", p_swap_relative),
    RACE("parent-race", p_swap_parent_absolute),
    RACE("parent-race-relative", p_swap_parent_relative),
};
const size_t escape_launcher_count = sizeof escape_launcher / sizeof *escape_launcher;
