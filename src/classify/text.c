#include "classify/text.h"

#include <string.h>

static char fold(char c) {
  return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

int confine__line_next(const char **at, size_t *length, struct confine__line *ret_line) {
  if (!*length)
    return 0;
  const char *end = memchr(*at, '\n', *length);
  size_t n = end ? (size_t)(end - *at) : *length;
  ret_line->text = *at;
  ret_line->length = n && end && (*at)[n - 1] == '\r' ? n - 1 : n;
  n += end != NULL;
  *at += n;
  *length -= n;
  return 1;
}

static int equal(const char *a, const char *b, size_t length) {
  for (size_t i = 0; i < length; i++)
    if (fold(a[i]) != fold(b[i]))
      return 0;
  return 1;
}

int confine__line_equals(const struct confine__line *line, const char *word) {
  return strlen(word) == line->length && equal(line->text, word, line->length);
}

int confine__line_contains(const struct confine__line *line, const char *word) {
  size_t length = strlen(word);
  for (size_t i = 0; length && i + length <= line->length; i++)
    if (equal(line->text + i, word, length))
      return 1;
  return 0;
}

const char *confine__line_first_of(const struct confine__line *line, const char *const *words) {
  for (; *words; words++)
    if (confine__line_contains(line, *words))
      return *words;
  return NULL;
}
