/*
 * The end of the command's mount namespace, taken off the way from the command's end to the caller.
 *
 * The last process in a mount namespace takes it apart before it counts as ended, and waits for the other
 * processors meanwhile (put_mnt_ns in the kernel's fs/namespace.c). So the monitor holds the namespace while the
 * command runs and has nothing to do, and leaves it at the end to a thread of the kernel's own: the one that collects
 * sockets in flight which nobody can receive any more (net/unix/garbage.c), with all that is in flight with them.
 *
 * Raw system calls only.
 */
#ifndef CONFINE_MONITOR_NAMESPACE_H
#define CONFINE_MONITOR_NAMESPACE_H

#include <sys/types.h>

struct confine__namespace {
  int descriptor; /* of the namespace; -1: it ends with its last process */
  int sender, receiver; /* a socket pair */
};

/* Holds the mount namespace of command, a process that the caller may look into. Where that fails nothing is held. */
void confine__namespace_hold(struct confine__namespace *held, pid_t command);

/* Leaves it to the kernel as soon as the calling process has ended or closed receiver. */
void confine__namespace_leave(const struct confine__namespace *held);

#endif
