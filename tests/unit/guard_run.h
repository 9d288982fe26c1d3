/* A small interpreter for the guard's filters. */
#ifndef CONFINE_TESTS_GUARD_RUN_H
#define CONFINE_TESTS_GUARD_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <linux/filter.h>
#include <linux/seccomp.h>

/*
 * Knows what the kernel's seccomp accepts of classic BPF, as far as filters of ours need it, and no more. Returns 0
 * with the filter's answer, and how many instructions it took added to *steps; -1 for anything else, and for a
 * filter that runs past its end.
 */
static inline int guard_run(const struct sock_filter *filter, unsigned length, const struct seccomp_data *call,
                            uint32_t *ret_answer, unsigned *steps) {
  uint32_t accumulator = 0;

  for (unsigned at = 0; at < length; at++) {
    const struct sock_filter *in = &filter[at];
    bool yes;

    (*steps)++;
    switch (in->code) {
    case BPF_LD | BPF_W | BPF_ABS:
      if (in->k % 4 != 0 || in->k >= sizeof *call)
        return -1;
      memcpy(&accumulator, (const char *)call + in->k, 4);
      continue;
    case BPF_ALU | BPF_AND | BPF_K:
      accumulator &= in->k;
      continue;
    case BPF_JMP | BPF_JA:
      if (in->k >= length)
        return -1;
      at += in->k;
      continue;
    case BPF_JMP | BPF_JEQ | BPF_K:
      yes = accumulator == in->k;
      break;
    case BPF_JMP | BPF_JGE | BPF_K:
      yes = accumulator >= in->k;
      break;
    case BPF_JMP | BPF_JSET | BPF_K:
      yes = (accumulator & in->k) != 0;
      break;
    case BPF_RET | BPF_K:
      *ret_answer = in->k;
      return 0;
    default:
      return -1;
    }
    at += yes ? in->jt : in->jf;
  }
  return -1;
}

#endif
