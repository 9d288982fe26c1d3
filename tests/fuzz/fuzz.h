/* What the fuzz targets share: taking an input apart, and saying what must hold. */
#ifndef CONFINE_FUZZ_FUZZ_H
#define CONFINE_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sanitizer/common_interface_defs.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What is left of an input; past its end everything is zero. */
struct fuzz_input {
  const uint8_t *data;
  size_t size;
};

static inline uint8_t fuzz_byte(struct fuzz_input *input) {
  if (!input->size)
    return 0;
  input->size--;
  return *input->data++;
}

/* The lowest byte comes first. */
static inline uint64_t fuzz_number(struct fuzz_input *input, unsigned bytes) {
  uint64_t number = 0;
  for (unsigned i = 0; i < bytes; i++)
    number |= (uint64_t)fuzz_byte(input) << (8 * i);
  return number;
}

static inline void *fuzz_memory(size_t size) {
  void *memory = malloc(size);
  if (!memory)
    abort();
  return memory;
}

/* Up to the next zero byte, in memory of its own so that a read past its end is seen; free(3) it. */
static inline char *fuzz_text(struct fuzz_input *input) {
  size_t length = strnlen((const char *)input->data, input->size);
  char *text = fuzz_memory(length + 1);
  memcpy(text, input->data, length);
  text[length] = '\0';
  length += length < input->size;
  input->data += length;
  input->size -= length;
  return text;
}

/* All that is left, as a NULL-terminated list; fuzz_free_words it. */
static inline char **fuzz_words(struct fuzz_input *input, size_t *count) {
  char **words = fuzz_memory((input->size + 1) * sizeof *words);
  *count = 0;
  while (input->size)
    words[(*count)++] = fuzz_text(input);
  words[*count] = NULL;
  return words;
}

static inline void fuzz_free_words(char **words) {
  for (char **word = words; *word; word++)
    free(*word);
  free(words);
}

/* By the sanitizer's report, which is shown where standard error is not. */
_Noreturn static inline void fuzz_fail(const char *file, int line, const char *what) {
  char text[512];
  snprintf(text, sizeof text, "%s:%d: does not hold: %s", file, line, what);
  __sanitizer_report_error_summary(text);
  abort();
}

#define REQUIRE(condition) ((condition) ? (void)0 : fuzz_fail(__FILE__, __LINE__, #condition))

#endif
