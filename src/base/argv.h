#ifndef CONFINE_BASE_ARGV_H
#define CONFINE_BASE_ARGV_H

#include <stddef.h>

/* Most words of one argument list; the kernel's own limit is on bytes (execve(2)). */
#define CONFINE__ARGV_MAX (1024 * 1024)

/*
 * A growing, NULL-terminated list of owned strings. The first failure to grow is remembered, so that a
 * builder may add many words and look once. Zero-initialised is empty.
 */
struct confine__argv {
  char **words;
  size_t count, capacity;
  int failed; /* 0, CONFINE_ENOMEM or CONFINE_ELIMIT */
};

void confine__argv_add(struct confine__argv *argv, const char *word);
void confine__argv_addf(struct confine__argv *argv, const char *format, ...) __attribute__((format(printf, 2, 3)));
void confine__argv_add_all(struct confine__argv *argv, const char *const *words);
void confine__argv_release(struct confine__argv *argv);

#endif
