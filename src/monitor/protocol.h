/*
 * Messages between the process a caller started, the monitor beside its command, and, where one runner
 * is inside another, the caller outside: fixed-size datagrams over a SOCK_SEQPACKET pair whose ends are
 * closed before the command starts. The command never has one, so what they say is evidence.
 */
#ifndef CONFINE_MONITOR_PROTOCOL_H
#define CONFINE_MONITOR_PROTOCOL_H

#include <stdint.h>

enum confine__message_type {
  /* from the side of the command */
  CONFINE__MESSAGE_STARTED = 1,      /* value: bit 0, the current directory was hidden */
  CONFINE__MESSAGE_SETUP_FAILED = 2, /* value: enum confine__step; detail: errno; index: root or -1 */
  CONFINE__MESSAGE_STOPPED = 3,      /* value: signal that stopped the command; detail: how many times it has */
  CONFINE__MESSAGE_DENIAL = 7,       /* a struct confine__denial_message */
  CONFINE__MESSAGE_DROPPED = 8,      /* value, detail: low and high half of the count of denials not kept */
  CONFINE__MESSAGE_ENDED = 4,        /* value: wait status as wait4(2) gives it; detail: 1, timed out */
  /* towards the command */
  CONFINE__MESSAGE_SIGNAL = 5, /* value: signal to deliver to the command; detail: with SIGCONT, the last stop that
                                  the sender knew of, for a later one it is not meant; or CONFINE__ANY_STOP */
  CONFINE__MESSAGE_END = 6,    /* end the whole tree now */
};

#define CONFINE__ANY_STOP INT32_MAX

struct confine__message {
  uint32_t type; /* enum confine__message_type */
  int32_t value, detail, index;
};

/* One entry of the observer's list, sent before ENDED. */
struct confine__denial_message {
  struct confine__message head; /* value: enum confine__operation; detail: errno; index: pid */
  uint64_t count;
  char comm[16];
  char path[4096]; /* as long as the datagram is, without a zero byte */
};

#endif
