#include "render/json.h"

#include <stdlib.h>
#include <string.h>

/* RFC 4648. */
static char *base64(const unsigned char *bytes, size_t length) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  char *out = malloc((length + 2) / 3 * 4 + 1), *at = out;
  if (!out)
    return NULL;
  for (size_t i = 0; i < length; i += 3) {
    size_t left = length - i;
    unsigned group = (unsigned)bytes[i] << 16;
    if (left > 1)
      group |= (unsigned)bytes[i + 1] << 8;
    if (left > 2)
      group |= bytes[i + 2];
    *at++ = digits[group >> 18];
    *at++ = digits[group >> 12 & 63];
    *at++ = left > 1 ? digits[group >> 6 & 63] : '=';
    *at++ = left > 2 ? digits[group & 63] : '=';
  }
  *at = '\0';
  return out;
}

json_t *confine__json_bytes(const char *text) {
  if (!text)
    return json_null();
  json_t *string = json_string(text); /* refuses what is not UTF-8 */
  if (string)
    return string;
  char *encoded = base64((const unsigned char *)text, strlen(text));
  json_t *object = encoded ? json_pack("{s:s}", "bytes", encoded) : NULL;
  free(encoded);
  return object;
}

json_t *confine__json_words(const char *const *words) {
  json_t *array = json_array();
  for (; array && *words; words++)
    if (json_array_append_new(array, confine__json_bytes(*words)) != 0) {
      json_decref(array);
      return NULL;
    }
  return array;
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

json_t *confine__json_bits(uint32_t bits, const char *(*name)(uint32_t bit)) {
  const char *words[33];
  size_t count = 0;
  for (unsigned i = 0; i < 32; i++)
    if (bits & (1u << i) && name(1u << i))
      words[count++] = name(1u << i);
  words[count] = NULL;
  qsort(words, count, sizeof words[0], by_name);
  return confine__json_words(words);
}

char *confine__json_line(json_t *value) {
  if (!value)
    return NULL;
  char *line = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
  json_decref(value);
  return line;
}
