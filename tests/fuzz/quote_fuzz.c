/*
 * Names quoted for somebody else to read. What is quoted for a shell is one word of it and shows no control character
 * to a terminal; what is quoted for YAML is read back by the configuration parser; all say the same bytes.
 */
#include "fuzz.h"

#include "cli/quote.h"
#include "policy/config.h"

#define KEY "workspaceRoot: "

static char *quoted(void (*quote)(FILE *out, const char *text), const char *before, const char *text) {
  char *line = NULL;
  size_t length;
  FILE *memory = open_memstream(&line, &length);
  if (!memory)
    abort();
  fputs(before, memory);
  quote(memory, text);
  fclose(memory);
  return line;
}

/* The inside of $'...': a backslash, then three octal digits or the character itself. */
static char ansi_c(const char **at) {
  if (**at != '\\')
    return *(*at)++;
  const char *c = *at + 1;
  if (*c < '0' || *c > '7') {
    *at += 2;
    return *c;
  }
  *at += 4;
  return (char)((c[0] - '0') << 6 | (c[1] - '0') << 3 | (c[2] - '0'));
}

/* POSIX, Shell Command Language, 2.2: as much of it as is needed. */
static void check_shell(const char *word, const char *text) {
  enum { OUTSIDE, SINGLE, DOLLAR } state = OUTSIDE;
  const char *c = word;
  while (*c) {
    REQUIRE((unsigned char)*c >= ' ' && *c != 0x7f);
    if (state == OUTSIDE && strncmp(c, "$'", 2) == 0) {
      state = DOLLAR;
      c += 2;
    } else if (*c == '\'') {
      state = state == OUTSIDE ? SINGLE : OUTSIDE;
      c++;
    } else if (state == OUTSIDE && *c == '\\') {
      REQUIRE(c[1] == *text++);
      c += 2;
    } else {
      REQUIRE(state != OUTSIDE || !strchr(" \t\n\"$`|&;<>()*?[]#~=!{}", *c));
      char byte = state == DOLLAR ? ansi_c(&c) : *c++;
      REQUIRE(byte == *text++);
    }
  }
  REQUIRE(state == OUTSIDE && !*text);
}

static void check_yaml(const char *line, const char *path) {
  confine_config *config = NULL;
  REQUIRE(confine__config_parse((const unsigned char *)line, strlen(line), "/c.yml", "/", &config, NULL) == 0);
  REQUIRE(strcmp(confine_config_workspace(config), path) == 0);
  confine_config_free(config);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fuzz_input input = {data, size};
  char *name = fuzz_text(&input), *path = fuzz_memory(strlen(name) + 2);
  snprintf(path, strlen(name) + 2, "/%s", name);
  char *word = quoted(quote_shell, "", name);
  check_shell(word, name);
  free(word);
  json_t *string = quote_json(path);
  REQUIRE(json_is_string(string) == quote_is_text(path));
  if (quote_is_text(path)) {
    char *line = quoted(quote_yaml, KEY, path);
    if (strlen(path) <= CONFINE_CONFIG_STRING_MAX)
      check_yaml(line, path);
    free(line);
    REQUIRE(strcmp(json_string_value(string), path) == 0);
  }
  json_decref(string);
  free(path);
  free(name);
  return 0;
}
