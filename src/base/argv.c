#include "base/argv.h"

#include <confine/error.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Takes ownership of word, which is NULL if it could not be made. */
static void add_owned(struct confine__argv *argv, char *word) {
  if (!word && !argv->failed)
    argv->failed = CONFINE_ENOMEM;
  if (!argv->failed && argv->count + 2 > argv->capacity) {
    size_t capacity = argv->capacity ? argv->capacity * 2 : 32;
    char **words = capacity > CONFINE__ARGV_MAX ? NULL : realloc(argv->words, capacity * sizeof *words);
    if (!words)
      argv->failed = capacity > CONFINE__ARGV_MAX ? CONFINE_ELIMIT : CONFINE_ENOMEM;
    else
      argv->words = words;
    argv->capacity = words ? capacity : argv->capacity;
  }
  if (argv->failed) {
    free(word);
    return;
  }
  argv->words[argv->count++] = word;
  argv->words[argv->count] = NULL;
}

void confine__argv_add(struct confine__argv *argv, const char *word) {
  add_owned(argv, strdup(word));
}

void confine__argv_addf(struct confine__argv *argv, const char *format, ...) {
  char *word = NULL;
  va_list arguments;
  va_start(arguments, format);
  if (vasprintf(&word, format, arguments) < 0)
    word = NULL;
  va_end(arguments);
  add_owned(argv, word);
}

void confine__argv_add_all(struct confine__argv *argv, const char *const *words) {
  for (; *words; words++)
    confine__argv_add(argv, *words);
}

void confine__argv_release(struct confine__argv *argv) {
  for (size_t i = 0; i < argv->count; i++)
    free(argv->words[i]);
  free(argv->words);
  memset(argv, 0, sizeof *argv);
}
