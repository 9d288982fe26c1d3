/*
 * Shared by the outside halves: victims, helpers, judges. ints are 0 or -errno unless said.
 */
#ifndef ESCAPE_OUTSIDE_H
#define ESCAPE_OUTSIDE_H

#include "technique.h"

#define PREPARE(name) static int name(struct escape_ctx *c)
#define SPAWN(name) static int name(struct escape_ctx *c, struct escape_spawn *s)
#define JUDGE(name) static bool name(struct escape_ctx *c)
#define STATE(name) static long name(struct escape_ctx *c)
#define CLEANUP(name) static void name(struct escape_ctx *c)

/* Sets ctx->why and returns ESCAPE_NOT_HERE. */
int escape_not_here(struct escape_ctx *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Sets ctx->why and returns true. */
bool escape_because(struct escape_ctx *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * The usual victim: file (0644, "victim\n", user xattr where the file system has them), other,
 * setid (06755), link -> file, dir/inner, empty/; all with times long past. The workspace gets
 * inside (a file) and sub/. The driver makes them before prepare.
 */
int escape_usual(struct escape_ctx *c);
/* Sets the victim's times back. */
void escape_age(struct escape_ctx *c);

int escape_put(const char *path, const char *text, mode_t mode);
/* Reads at most size - 1 bytes as a string without its last newline; length or -errno. */
int escape_get(const char *path, char *text, size_t size);
int escape_copy_program(struct escape_ctx *c, const char *to, mode_t mode);
/* The names in a directory, one after the other with their zero bytes; returns the bytes used. What does
 * not fit is left out. */
size_t escape_names(const char *path, char *out, size_t size);
void escape_remove_tree(const char *path);

/* Keeps others that run techniques on the same setting of the host waiting, until this process ends;
 * path is a file that stands for it. */
void escape_lock(const char *path);

/* Takes and compares what is in ctx->victim: names, kinds, modes, owners, times, xattrs, inode
 * flags, links and contents, not access times. The comparison fills ctx->why. */
int escape_snapshot_take(struct escape_ctx *c);
bool escape_snapshot_changed(struct escape_ctx *c);
/* The whole cell, when nothing but the usual is in it; and whether that is still as it was then, now that all
 * else has been taken away. */
void escape_snapshot_take_usual(const struct escape_ctx *c);
bool escape_snapshot_tidy(struct escape_ctx *c);

/*
 * Forks an outside helper which runs work(c, stop) and ends; returns when the helper has called
 * escape_ready. stop becomes readable when the helper shall end. ctx->helper is the last one.
 */
int escape_helper(struct escape_ctx *c, void (*work)(struct escape_ctx *c, int stop));
void escape_ready(void);
/* Lets helpers finish what is queued and waits for their end. */
void escape_finish(struct escape_ctx *c);

/* Work: acts on requests at ctx->sockets (listening, connected or datagram). */
void escape_serve(struct escape_ctx *c, int stop);
/* What an outside daemon does when asked: makes victim/told. */
void escape_told(struct escape_ctx *c);
/* Work: a bystander. It leaves victim/told if it was signalled or its memory was changed.
 * It has victim/file open for writing and mapped, and the victim as its directory. */
void escape_bystand(struct escape_ctx *c, int stop);
/* A bystander; num[0] its open descriptor, num[1] the address of its mark,
 * num[2] that of its shared mapping of victim/file. */
int escape_with_bystander(struct escape_ctx *c);

int escape_pass(struct escape_spawn *s, int from, int to);
int escape_env(struct escape_spawn *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Processes below this one that are neither helpers nor dead. */
int escape_descendants(struct escape_ctx *c);
/* Ends them all, and reaps. */
void escape_sweep(struct escape_ctx *c);

/* Kills everything below a child that is a subreaper and does not answer, then the child. */
void escape_kill_tree(pid_t root);

#endif
