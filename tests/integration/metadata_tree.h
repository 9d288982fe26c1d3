/*
 * The files that metadata-calls makes its calls on: one of each kind, described, and made as before after a
 * call has changed them.
 */
#ifndef METADATA_TREE_H
#define METADATA_TREE_H

#include <stddef.h>
#include <sys/types.h>

/* Every descriptor has a number of its own, so that objects stay the same when they are made anew. */
enum {
  FD_READ = 40, FD_WRITE, FD_BOTH, FD_PATH, FD_LINK, FD_DIR, FD_DIR_PATH, FD_PIPE, FD_SOCKET, FD_MEMORY,
  FD_UNLINKED, FD_LINKED_STILL, FD_RMDIR, FD_NAMELESS, FD_EVENT, FD_FIFO, FD_NOX, FD_SOCKET_PATH, FD_SEALED,
  FD_PIPE_PATH, FD_REPLACED, FD_END
};

extern const char *tree; /* its absolute path */
extern int tree_fd;
extern int own; /* the tree is this program's to make and repair */

_Noreturn void die(const char *what);
/* Opens the tree and goes there. */
void tree_enter(const char *path);
/* Makes the files; nothing is open yet. */
void tree_make(void);
/* Makes the files anew where they are this program's, opens them and notes how they are. */
void tree_prepare(void);
/* The inode flags of a file, which stays open in *fd. */
int tree_flags(const char *name, int *fd);
/* Gives a file the times that all have. */
void tree_set_old(const char *name);
/* Ends a line with what has changed, and undoes it. */
void tree_changes(void);

#endif
