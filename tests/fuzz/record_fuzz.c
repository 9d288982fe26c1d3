/*
 * What is written as JSON, with any bytes in it: it must be valid, one line, and say the same bytes, as a string where
 * they are UTF-8 and in base64 where they are not.
 */
#include "fuzz.h"

#include "run/result.h"

#include <confine/provider.h>

#include <errno.h>
#include <jansson.h>

/* Denials of one record here; the list holds more. */
#define DENIALS 8

static json_t *parse_line(const char *line) {
  json_error_t error;
  REQUIRE(!strchr(line, '\n'));
  json_t *value = json_loads(line, 0, &error);
  REQUIRE(json_is_object(value));
  return value;
}

static unsigned digit(char c) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const char *at = memchr(digits, c, sizeof digits - 1);
  REQUIRE(at);
  return (unsigned)(at - digits);
}

/* RFC 4648, three bytes at a time. */
static void check_base64(const char *encoded, const char *text) {
  size_t length = strlen(text), groups = (length + 2) / 3;
  REQUIRE(strlen(encoded) == groups * 4);
  for (size_t i = 0; i < groups * 4; i++) {
    size_t bit = i * 6, byte = bit / 8, left = bit % 8;
    if (byte >= length) {
      REQUIRE(encoded[i] == '=');
      continue;
    }
    unsigned pair = (unsigned)(unsigned char)text[byte] << 8;
    if (byte + 1 < length)
      pair |= (unsigned char)text[byte + 1];
    REQUIRE(digit(encoded[i]) == (pair >> (10 - left) & 63));
  }
}

static void check_bytes(const json_t *value, const char *text) {
  json_t *string = json_string(text);
  if (!text)
    REQUIRE(json_is_null(value));
  else if (string)
    REQUIRE(json_is_string(value) && strcmp(json_string_value(value), text) == 0);
  else
    check_base64(json_string_value(json_object_get(value, "bytes")), text);
  json_decref(string);
}

static void check_words(const json_t *array, const char *const *words) {
  size_t count = 0;
  for (; words[count]; count++)
    check_bytes(json_array_get(array, count), words[count]);
  REQUIRE(json_is_array(array) && json_array_size(array) == count);
}

static void take_denials(struct fuzz_input *input, confine_result *result) {
  /* Too large to be made anew for each input. */
  static struct confine__denials denials;
  size_t count = fuzz_byte(input) % DENIALS;
  denials.count = denials.names_used = 0;
  result->denials = &denials;
  for (size_t i = 0; i < count; i++) {
    struct confine__denial denial = {.operation = 1 + fuzz_byte(input) % CONFINE__OPERATION_LAST,
                                     .error = fuzz_byte(input),
                                     .pid = (int32_t)fuzz_number(input, 4),
                                     .count = fuzz_number(input, 4)};
    for (size_t j = 0; j + 1 < sizeof denial.comm; j++)
      denial.comm[j] = (char)fuzz_byte(input);
    char *path = fuzz_text(input);
    confine__denials_add(result->denials, &denial, path, strlen(path));
    free(path);
  }
  result->denials->dropped = fuzz_number(input, 4);
  result->observed = fuzz_byte(input) & 1;
}

static confine_result *take_result(struct fuzz_input *input, const confine_policy *policy) {
  confine_result *result = NULL;
  uint8_t bits = fuzz_byte(input);
  if (confine__result_new(policy, &result, NULL) < 0)
    abort();
  result->runner = (confine_runner)(fuzz_byte(input) % 8);
  result->enforcement = (confine_enforcement)(fuzz_byte(input) % 4);
  result->gaps = (uint32_t)fuzz_number(input, 4);
  result->open_channels = fuzz_byte(input);
  result->started = bits & 1;
  result->timed_out = bits >> 1 & 1;
  result->exit_code = (int)fuzz_byte(input) - 1;
  result->signal = fuzz_byte(input);
  if (bits & 4) {
    result->failed_step = confine__step_name((enum confine__step)(int)fuzz_byte(input));
    result->failure_evidence = "status-channel";
    result->failure_detail = fuzz_text(input);
  }
  take_denials(input, result);
  result->workspace = bits & 8 ? fuzz_text(input) : NULL;
  char *notice = fuzz_text(input);
  for (int i = 0; i < (bits >> 4); i++)
    confine__result_notice(result, "notice", notice);
  free(notice);
  fuzz_free_words(result->roots);
  size_t count;
  result->roots = fuzz_words(input, &count);
  return result;
}

static void check_denials(const json_t *record, const confine_result *result) {
  const json_t *array = json_object_get(record, "denials");
  REQUIRE(json_array_size(array) == confine_result_denial_count(result));
  for (size_t i = 0; i < confine_result_denial_count(result); i++) {
    const json_t *entry = json_array_get(array, i);
    confine_denial denial = {.size = sizeof denial};
    REQUIRE(confine_result_denial(result, i, &denial) == 0);
    check_bytes(json_object_get(entry, "path"), denial.path);
    check_bytes(json_object_get(entry, "comm"), denial.comm);
    REQUIRE(json_integer_value(json_object_get(entry, "count")) == (json_int_t)denial.count);
  }
}

static void check_result(const confine_result *result) {
  char *line = NULL;
  REQUIRE(confine_result_json(result, &line, NULL) == 0);
  json_t *record = parse_line(line);
  check_bytes(json_object_get(record, "workspaceRoot"), result->workspace);
  check_words(json_object_get(record, "writableRoots"), (const char *const *)result->roots);
  check_denials(record, result);
  const json_t *failure = json_object_get(record, "runnerFailure");
  REQUIRE(json_is_object(failure) == (result->failed_step != NULL));
  if (result->failed_step)
    check_bytes(json_object_get(failure, "detail"), result->failure_detail);
  REQUIRE(json_array_size(json_object_get(record, "notices")) == result->notice_count);
  for (size_t i = 0; i < result->notice_count; i++)
    check_bytes(json_object_get(json_array_get(json_object_get(record, "notices"), i), "text"),
                result->notices[i].text);
  json_decref(record);
  free(line);
}

/* The words of a command, as `confine wrap` prints them. */
static void check_wrapped(const char *const *words, const confine_policy *policy) {
  confine_wrapped *wrapped = NULL;
  char *line = NULL;
  if (!words[0])
    return;
  REQUIRE(confine_provider_confine(NULL, words, policy, &wrapped, NULL) == 0);
  REQUIRE(confine_wrapped_json(wrapped, &line, NULL) == 0);
  json_t *record = parse_line(line);
  check_words(json_object_get(record, "argv"), words);
  json_decref(record);
  free(line);
  confine_wrapped_free(wrapped);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fuzz_input input = {data, size};
  static confine_policy *policy; /* without roots, and confining nothing */
  if (!policy && confine_policy_new(CONFINE_MODE_DANGER_FULL_ACCESS, &policy, NULL) < 0)
    abort();
  confine_result *result = take_result(&input, policy);
  check_result(result);
  check_wrapped((const char *const *)result->roots, policy);
  result->denials = NULL;
  confine_result_free(result);
  return 0;
}
