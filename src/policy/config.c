#include "policy/config.h"
#include "base/argv.h"
#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml.h>

#define CHAIN_MAX 8

struct confine_config {
  char *path;
  confine_mode mode; /* 0: not given */
  char *workspace;
  struct confine__argv writable, runner_command, signatures;
  unsigned given; /* bits of enum given: which lists are there, perhaps empty */
  confine_runner chain[CHAIN_MAX];
  size_t chain_length;
  double probe_timeout_ms; /* 0: not given */
};

enum given { CHAIN_GIVEN = 1, COMMAND_GIVEN = 2, SIGNATURES_GIVEN = 4 };

struct reader {
  yaml_parser_t parser;
  confine_config *config;
  const char *name, *directory; /* of the file */
  const unsigned char *text;
  size_t length;
  confine_error *error;
};

/* A refusal with its place. */
static int refuse(struct reader *reader, const yaml_mark_t *mark, int code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static int refuse(struct reader *reader, const yaml_mark_t *mark, int code, const char *format, ...) {
  char text[CONFINE_ERROR_TEXT_MAX];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  confine__error(reader->error, code, "%s", text);
  if (reader->error) {
    reader->error->line = (uint32_t)mark->line + 1;
    reader->error->column = (uint32_t)mark->column + 1;
  }
  return code;
}

/* The part of the parser that looks at bytes only knows how far it got. */
static yaml_mark_t mark_of_offset(const struct reader *reader, size_t offset) {
  yaml_mark_t mark = {0};
  for (size_t i = 0; i < offset && i < reader->length; i++) {
    mark.column++;
    if (reader->text[i] == '\n') {
      mark.line++;
      mark.column = 0;
    }
  }
  return mark;
}

static int refuse_syntax(struct reader *reader) {
  const yaml_parser_t *parser = &reader->parser;
  yaml_mark_t mark = parser->problem_mark;
  if (parser->error == YAML_MEMORY_ERROR)
    return confine__error_memory(reader->error);
  if (parser->error == YAML_READER_ERROR)
    mark = mark_of_offset(reader, parser->problem_offset);
  return refuse(reader, &mark, CONFINE_ECONFIG, "%s is not YAML: %s", reader->name,
                parser->problem ? parser->problem : "it cannot be read");
}

static int refuse_type(struct reader *reader, const yaml_event_t *event, const char *key, const char *wanted) {
  return refuse(reader, &event->start_mark, CONFINE_ECONFIG, "%s must be %s", key, wanted);
}

/* Aliases would make a small file large; anchors and tags have no use here. */
static int check_plain(struct reader *reader, const yaml_event_t *event) {
  const yaml_char_t *anchor = NULL, *tag = NULL;
  switch (event->type) {
  case YAML_ALIAS_EVENT:
    anchor = event->data.alias.anchor;
    break;
  case YAML_SCALAR_EVENT:
    anchor = event->data.scalar.anchor;
    tag = event->data.scalar.tag;
    break;
  case YAML_SEQUENCE_START_EVENT:
    anchor = event->data.sequence_start.anchor;
    tag = event->data.sequence_start.tag;
    break;
  case YAML_MAPPING_START_EVENT:
    anchor = event->data.mapping_start.anchor;
    tag = event->data.mapping_start.tag;
    break;
  default:
    break;
  }
  if (!anchor && !tag)
    return 0;
  return refuse(reader, &event->start_mark, CONFINE_ECONFIG, "anchors, aliases and tags are not allowed here");
}

/* On success the event is the caller's to delete. */
static int next(struct reader *reader, yaml_event_t *event) {
  if (!yaml_parser_parse(&reader->parser, event))
    return refuse_syntax(reader);
  int r = check_plain(reader, event);
  if (r < 0)
    yaml_event_delete(event);
  return r;
}

static const char *scalar_text(const yaml_event_t *event) {
  return (const char *)event->data.scalar.value;
}

/* The forms of YAML's core schema that are not strings when nothing quotes them. */
static int is_number(const char *text) {
  const char *c = text + (*text == '-' || *text == '+');
  size_t digits = strspn(c, "0123456789");
  c += digits;
  if (*c == '.') {
    size_t fraction = strspn(++c, "0123456789");
    c += fraction;
    digits += fraction;
  }
  if (!digits)
    return 0;
  if (*c == 'e' || *c == 'E') {
    c++;
    c += *c == '-' || *c == '+';
    size_t exponent = strspn(c, "0123456789");
    return exponent && !c[exponent];
  }
  return !*c;
}

static int is_string(const yaml_event_t *event) {
  static const char *const others[] = {"",     "~",    "null", "Null", "NULL",  "true",  "True",
                                       "TRUE", "false", "False", "FALSE", ".inf", ".nan"};
  if (event->type != YAML_SCALAR_EVENT)
    return 0;
  if (event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
    return 1;
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
    if (strcmp(scalar_text(event), others[i]) == 0)
      return 0;
  return !is_number(scalar_text(event));
}

static int check_string(struct reader *reader, const yaml_event_t *event, const char *key) {
  if (!is_string(event))
    return refuse_type(reader, event, key, "a string");
  if (event->data.scalar.length > CONFINE_CONFIG_STRING_MAX)
    return refuse(reader, &event->start_mark, CONFINE_ELIMIT, "%s: a string of more than %d bytes", key,
                  CONFINE_CONFIG_STRING_MAX);
  if (strlen(scalar_text(event)) != event->data.scalar.length)
    return refuse(reader, &event->start_mark, CONFINE_ECONFIG, "%s: a string with a NUL byte", key);
  return 0;
}

/* Makes *ret_path absolute, malloc'ed. */
static int read_path(struct reader *reader, const yaml_event_t *event, const char *key, char **ret_path) {
  int r = check_string(reader, event, key);
  if (r < 0)
    return r;
  const char *text = scalar_text(event);
  if (!*text)
    return refuse(reader, &event->start_mark, CONFINE_ECONFIG, "%s: the path is empty", key);
  if (text[0] == '~' && (!text[1] || text[1] == '/'))
    return refuse(reader, &event->start_mark, CONFINE_ECONFIG, "%s: ~ is not expanded; write the whole path", key);
  char *path = NULL;
  if (text[0] == '/')
    path = strdup(text);
  else if (asprintf(&path, "%s/%s", reader->directory, text) < 0)
    path = NULL;
  if (!path)
    return confine__error_memory(reader->error);
  *ret_path = path;
  return 0;
}

static int take_mode(struct reader *reader, const yaml_event_t *event, const char *key) {
  int r = check_string(reader, event, key);
  if (r == 0 && confine_mode_parse(scalar_text(event), &reader->config->mode) != 0)
    r = refuse_type(reader, event, key, "read-only, workspace-write or danger-full-access");
  return r;
}

static int take_workspace(struct reader *reader, const yaml_event_t *event, const char *key) {
  return read_path(reader, event, key, &reader->config->workspace);
}

static int take_timeout(struct reader *reader, const yaml_event_t *event, const char *key) {
  (void)key;
  double value = 0;
  if (event->type == YAML_SCALAR_EVENT && event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
      is_number(scalar_text(event))) {
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c)
      return confine__error_memory(reader->error);
    value = strtod_l(scalar_text(event), NULL, c);
    freelocale(c);
  }
  if (!isfinite(value) || value <= 0)
    return refuse(reader, &event->start_mark, CONFINE_ECONFIG, CONFINE__PROBE_TIMEOUT_TEXT);
  reader->config->probe_timeout_ms = value;
  return 0;
}

static int add_runner(struct reader *reader, const yaml_event_t *event, const char *key) {
  confine_config *config = reader->config;
  confine_runner runner;
  int r = check_string(reader, event, key);
  if (r < 0)
    return r;
  if (confine_runner_parse(scalar_text(event), &runner) != 0)
    return refuse(reader, &event->start_mark, CONFINE_ECONFIG, "%s: %s is no runner", key, scalar_text(event));
  for (size_t i = 0; i < config->chain_length; i++)
    if (config->chain[i] == runner)
      return refuse(reader, &event->start_mark, CONFINE_ECONFIG, "%s names %s twice", key, scalar_text(event));
  config->chain[config->chain_length++] = runner;
  return 0;
}

static int add_word(struct reader *reader, const yaml_event_t *event, const char *key, struct confine__argv *out,
                    size_t limit) {
  int r = check_string(reader, event, key);
  if (r < 0)
    return r;
  if (out->count == limit)
    return refuse(reader, &event->start_mark, CONFINE_ELIMIT, "%s has more than %zu entries", key, limit);
  confine__argv_add(out, scalar_text(event));
  return out->failed ? confine__error_memory(reader->error) : 0;
}

static int add_command_word(struct reader *reader, const yaml_event_t *event, const char *key) {
  return add_word(reader, event, key, &reader->config->runner_command, CONFINE_RUNNER_COMMAND_MAX);
}

static int add_signature(struct reader *reader, const yaml_event_t *event, const char *key) {
  return add_word(reader, event, key, &reader->config->signatures, CONFINE_SIGNATURES_MAX);
}

static int add_writable(struct reader *reader, const yaml_event_t *event, const char *key) {
  struct confine__argv *out = &reader->config->writable;
  char *path = NULL;
  int r = read_path(reader, event, key, &path);
  if (r < 0)
    return r;
  if (out->count == CONFINE_ROOTS_MAX - 1)
    r = refuse(reader, &event->start_mark, CONFINE_ELIMIT, "%s has more than %d entries", key, CONFINE_ROOTS_MAX - 1);
  else
    confine__argv_add(out, path);
  free(path);
  if (r == 0 && out->failed)
    r = confine__error_memory(reader->error);
  return r;
}

static const struct key {
  const char *name;
  const char *wanted; /* NULL: one value, which take judges; else a list, and take is called for each entry */
  int (*take)(struct reader *reader, const yaml_event_t *event, const char *key);
  unsigned given;
} keys[] = {
    {"mode", NULL, take_mode, 0},
    {"workspaceRoot", NULL, take_workspace, 0},
    {"writableRoots", "a list", add_writable, 0},
    {"chain", "a list", add_runner, CHAIN_GIVEN},
    {"runnerCommand", "a list", add_command_word, COMMAND_GIVEN},
    {"runnerFailureSignatures", "a list", add_signature, SIGNATURES_GIVEN},
    {"probeTimeoutMs", NULL, take_timeout, 0},
};
#define KEYS (sizeof keys / sizeof keys[0])

static int read_list(struct reader *reader, const struct key *key) {
  for (;;) {
    yaml_event_t event;
    int r = next(reader, &event);
    if (r < 0)
      return r;
    int last = event.type == YAML_SEQUENCE_END_EVENT;
    if (!last)
      r = key->take(reader, &event, key->name);
    yaml_event_delete(&event);
    if (r < 0 || last)
      return r;
  }
}

static int read_value(struct reader *reader, const struct key *key) {
  yaml_event_t event;
  int r = next(reader, &event);
  if (r < 0)
    return r;
  if (!key->wanted)
    r = key->take(reader, &event, key->name);
  else if (event.type != YAML_SEQUENCE_START_EVENT)
    r = refuse_type(reader, &event, key->name, key->wanted);
  yaml_event_delete(&event);
  return r == 0 && key->wanted ? read_list(reader, key) : r;
}

static int find_key(struct reader *reader, const yaml_event_t *event, unsigned *seen, const struct key **ret_key) {
  if (event->type != YAML_SCALAR_EVENT)
    return refuse(reader, &event->start_mark, CONFINE_ECONFIG, "a key must be a word");
  for (size_t i = 0; i < KEYS; i++) {
    if (event->data.scalar.length != strlen(keys[i].name) || strcmp(scalar_text(event), keys[i].name) != 0)
      continue;
    if (*seen & 1u << i)
      return refuse(reader, &event->start_mark, CONFINE_ECONFIG, "the key %s is given twice", keys[i].name);
    *seen |= 1u << i;
    reader->config->given |= keys[i].given;
    *ret_key = &keys[i];
    return 0;
  }
  return refuse(reader, &event->start_mark, CONFINE_ECONFIG,
                "unknown key %.64s; the keys are mode, workspaceRoot, writableRoots, chain, runnerCommand, "
                "runnerFailureSignatures, probeTimeoutMs",
                scalar_text(event));
}

static int read_mapping(struct reader *reader) {
  unsigned seen = 0;
  for (;;) {
    yaml_event_t event;
    const struct key *key = NULL;
    int r = next(reader, &event);
    if (r < 0)
      return r;
    int last = event.type == YAML_MAPPING_END_EVENT;
    if (!last)
      r = find_key(reader, &event, &seen, &key);
    yaml_event_delete(&event);
    if (r == 0 && key)
      r = read_value(reader, key);
    if (r < 0 || last)
      return r;
  }
}

/* Stream start, then documents, then stream end. */
static int read_stream(struct reader *reader) {
  int documents = 0;
  for (;;) {
    yaml_event_t event;
    int r = next(reader, &event), last = 0;
    if (r < 0)
      return r;
    switch (event.type) {
    case YAML_STREAM_END_EVENT:
      last = 1;
      break;
    case YAML_DOCUMENT_START_EVENT:
      if (documents++)
        r = refuse(reader, &event.start_mark, CONFINE_ECONFIG, "only one document is allowed");
      break;
    case YAML_MAPPING_START_EVENT:
      r = read_mapping(reader);
      break;
    case YAML_SCALAR_EVENT: /* an empty document is a scalar without text */
      if (!event.data.scalar.length && event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
        break;
      /* fall through */
    case YAML_SEQUENCE_START_EVENT:
      r = refuse(reader, &event.start_mark, CONFINE_ECONFIG, "the file must be a mapping of keys to values");
      break;
    default:
      break;
    }
    yaml_event_delete(&event);
    if (r < 0 || last)
      return r;
  }
}

int confine__config_parse(const unsigned char *text, size_t length, const char *path, const char *directory,
                          confine_config **ret_config, confine_error *error) {
  struct reader reader = {
      .name = path, .directory = directory, .text = text, .length = length, .error = error};
  if (length > CONFINE_CONFIG_MAX)
    return confine__error(error, CONFINE_ELIMIT, "%s is larger than %d bytes", path, CONFINE_CONFIG_MAX);
  reader.config = calloc(1, sizeof *reader.config);
  if (!reader.config || !(reader.config->path = strdup(path)) || !yaml_parser_initialize(&reader.parser)) {
    confine_config_free(reader.config);
    return confine__error_memory(error);
  }
  yaml_parser_set_input_string(&reader.parser, text, length);
  int r = read_stream(&reader);
  yaml_parser_delete(&reader.parser);
  if (r < 0) {
    confine_config_free(reader.config);
    return r;
  }
  *ret_config = reader.config;
  return 0;
}

/* At most one byte more than is allowed; a file that grows meanwhile is cut there. */
static int read_all(int fd, unsigned char *out, size_t *ret_length) {
  size_t length = 0;
  while (length <= CONFINE_CONFIG_MAX) {
    ssize_t got = read(fd, out + length, CONFINE_CONFIG_MAX + 1 - length);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return -errno;
    if (got == 0)
      break;
    length += (size_t)got;
  }
  *ret_length = length;
  return 0;
}

static int refuse_file(const char *path, int system_errno, confine_error *error) {
  return confine__error_errno(error, system_errno == ENOMEM ? CONFINE_ENOMEM : CONFINE_ECONFIG, system_errno,
                              "configuration file %s", path);
}

/* O_NONBLOCK: a FIFO must not hold us up before it is refused. */
static int read_file(const char *path, unsigned char **ret_text, size_t *ret_length, confine_error *error) {
  struct stat st;
  int r = 0;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0)
    return refuse_file(path, errno, error);
  unsigned char *text = malloc(CONFINE_CONFIG_MAX + 1);
  if (!text)
    r = confine__error_memory(error);
  else if (fstat(fd, &st) != 0)
    r = refuse_file(path, errno, error);
  else if (!S_ISREG(st.st_mode))
    r = confine__error(error, CONFINE_ECONFIG, "configuration file %s: it is not a regular file", path);
  else if ((r = read_all(fd, text, ret_length)) < 0)
    r = refuse_file(path, -r, error);
  close(fd);
  if (r < 0)
    free(text);
  else
    *ret_text = text;
  return r;
}

int confine_config_load(const char *path, confine_config **ret_config, confine_error *error) {
  unsigned char *text = NULL;
  size_t length = 0;
  if (!path || !*path)
    return confine__error(error, CONFINE_EINVAL, "the configuration file has no name");
  int r = read_file(path, &text, &length, error);
  if (r < 0)
    return r;
  char *canonical = realpath(path, NULL), *directory = NULL;
  if (canonical) {
    char *slash = strrchr(canonical, '/');
    directory = strndup(canonical, slash == canonical ? 1 : (size_t)(slash - canonical));
  }
  if (!canonical)
    r = refuse_file(path, errno, error);
  else if (!directory)
    r = confine__error_memory(error);
  else
    r = confine__config_parse(text, length, canonical, directory, ret_config, error);
  free(canonical);
  free(directory);
  free(text);
  return r;
}

void confine_config_free(confine_config *config) {
  if (!config)
    return;
  confine__argv_release(&config->writable);
  confine__argv_release(&config->runner_command);
  confine__argv_release(&config->signatures);
  free(config->workspace);
  free(config->path);
  free(config);
}

const char *confine_config_path(const confine_config *config) {
  return config->path;
}

int confine_config_mode(const confine_config *config, confine_mode *ret_mode) {
  if (!confine_mode_name(config->mode))
    return 0;
  *ret_mode = config->mode;
  return 1;
}

const char *confine_config_workspace(const confine_config *config) {
  return config->workspace;
}

size_t confine_config_writable_count(const confine_config *config) {
  return config->writable.count;
}

const char *confine_config_writable(const confine_config *config, size_t index) {
  return index < config->writable.count ? config->writable.words[index] : NULL;
}

int confine_config_settings(const confine_config *config, confine_settings *settings) {
  static const char *const nothing[] = {NULL};
  if (settings->size != sizeof *settings)
    return CONFINE_EINVAL;
  if (config->given & CHAIN_GIVEN) {
    settings->chain = config->chain;
    settings->chain_length = config->chain_length;
  }
  if (config->given & COMMAND_GIVEN)
    settings->runner_command =
        config->runner_command.words ? (const char *const *)config->runner_command.words : nothing;
  if (config->given & SIGNATURES_GIVEN)
    settings->runner_failure_signatures =
        config->signatures.words ? (const char *const *)config->signatures.words : nothing;
  if (config->probe_timeout_ms > 0)
    settings->probe_timeout_ms = config->probe_timeout_ms;
  return 0;
}
