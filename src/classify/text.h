#ifndef CONFINE_CLASSIFY_TEXT_H
#define CONFINE_CLASSIFY_TEXT_H

#include <stddef.h>

/* A line of captured output, without its end ("\n" or "\r\n"). Any bytes. */
struct confine__line {
  const char *text;
  size_t length;
};

/* Takes the next line from the length bytes at *at, moving both on; 0 when there is none. */
int confine__line_next(const char **at, size_t *length, struct confine__line *ret_line);

/* Without regard to the case of ASCII letters, whatever the locale. */
int confine__line_equals(const struct confine__line *line, const char *word);
int confine__line_contains(const struct confine__line *line, const char *word);
/* The first word of the NULL-terminated list that the line contains, or NULL. An empty word is in no line. */
const char *confine__line_first_of(const struct confine__line *line, const char *const *words);

#endif
