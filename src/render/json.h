#ifndef CONFINE_RENDER_JSON_H
#define CONFINE_RENDER_JSON_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* A JSON string, or {"bytes":"<base64>"} for bytes that are not UTF-8; null for NULL. New reference, or
 * NULL when out of memory. */
json_t *confine__json_bytes(const char *text);

/* An array of the words of a NULL-terminated list. */
json_t *confine__json_words(const char *const *words);

/* An array of the names of the bits that are set, sorted. */
json_t *confine__json_bits(uint32_t bits, const char *(*name)(uint32_t bit));

/* One line of text, malloc'ed, and drops the reference; NULL when value is NULL or out of memory. */
char *confine__json_line(json_t *value);

#endif
