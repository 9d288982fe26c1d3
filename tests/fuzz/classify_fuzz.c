/*
 * The verdict on a command's outcome. Whatever standard error holds, a signature lies in the line that is pointed at,
 * the case of letters and a harmless line before change nothing, and a runner's own failure outranks all else that
 * the text says.
 */
#include "fuzz.h"

#include "runner/runner.h"

#include <confine/classify.h>

#include <ctype.h>

#define PREFIX "harmless\n"
#define PREFIX_LENGTH (sizeof PREFIX - 1)

struct rules {
  confine_failure_rule rules[CONFINE__RULES_MAX];
  size_t count;
  const char *const *denials;
  char **words; /* of a custom runner, owned */
};

/* A runner's own rules, or any words as those of a custom one. */
static void take_rules(struct fuzz_input *input, struct rules *rules) {
  static const struct confine__runner *const runners[] = {&confine__runner_namespace, &confine__runner_bwrap,
                                                          &confine__runner_landlock, &confine__runner_custom};
  const struct confine__runner *runner = runners[fuzz_byte(input) % 4];
  size_t word_count = fuzz_byte(input) % 4;
  *rules = (struct rules){.denials = runner->denial_signatures};
  for (size_t i = 0; i < runner->rule_count; i++)
    rules->rules[rules->count++] = (confine_failure_rule){
        sizeof(confine_failure_rule), runner->rules[i].exit_codes, runner->rules[i].exit_code_count,
        runner->rules[i].fatal, runner->rules[i].informational};
  rules->words = fuzz_memory((word_count + 1) * sizeof *rules->words);
  for (size_t i = 0; i < word_count; i++)
    rules->words[i] = fuzz_text(input);
  rules->words[word_count] = NULL;
  if (runner->id == CONFINE_RUNNER_CUSTOM)
    rules->rules[rules->count++] = (confine_failure_rule){sizeof(confine_failure_rule), NULL, 0,
                                                          (const char *const *)rules->words, NULL};
}

static void take_records(struct fuzz_input *input, confine_records *records) {
  uint8_t bits = fuzz_byte(input);
  records->has_status = bits & 1;
  records->started = bits >> 1 & 1;
  records->not_found = bits & 4 ? 127 : 0;
  records->has_observer = bits >> 3 & 1;
  records->denials = bits >> 4;
}

static int contains(const char *line, size_t length, const char *word) {
  size_t n = strlen(word);
  for (size_t i = 0; n && i + n <= length; i++) {
    size_t j = 0;
    while (j < n && tolower((unsigned char)line[i + j]) == tolower((unsigned char)word[j]))
      j++;
    if (j == n)
      return 1;
  }
  return 0;
}

static void check_place(const confine_outcome *outcome, const confine_verdict *verdict) {
  if (!verdict->signature) {
    REQUIRE(!verdict->line_offset && !verdict->line_length);
    return;
  }
  const char *text = outcome->stderr_bytes;
  REQUIRE(verdict->line_offset <= outcome->stderr_length);
  REQUIRE(verdict->line_length <= outcome->stderr_length - verdict->line_offset);
  size_t end = verdict->line_offset + verdict->line_length;
  REQUIRE(verdict->line_offset == 0 || text[verdict->line_offset - 1] == '\n');
  REQUIRE(!memchr(text + verdict->line_offset, '\n', verdict->line_length));
  REQUIRE(end == outcome->stderr_length || text[end] == '\n' || text[end] == '\r');
  REQUIRE(contains(text + verdict->line_offset, verdict->line_length, verdict->signature));
}

static void check_kind(const confine_outcome *outcome, const confine_verdict *verdict) {
  const confine_records *records = outcome->records;
  int by_text = verdict->evidence == CONFINE_EVIDENCE_STDERR_RULE ||
                verdict->evidence == CONFINE_EVIDENCE_STDERR_SIGNATURE;
  REQUIRE(confine_verdict_name(verdict->kind) && confine_evidence_name(verdict->evidence));
  REQUIRE(by_text == (verdict->signature != NULL));
  if (by_text)
    REQUIRE(outcome->exit_code > 0 && !outcome->signal);
  if (verdict->evidence == CONFINE_EVIDENCE_STDERR_RULE)
    REQUIRE(verdict->kind == CONFINE_VERDICT_RUNNER_FAILED && !(records && records->has_status));
  if (verdict->evidence == CONFINE_EVIDENCE_STDERR_SIGNATURE)
    REQUIRE(verdict->kind == CONFINE_VERDICT_DENIED && !(records && records->has_observer));
  if (!records && (outcome->signal || outcome->exit_code < 0))
    REQUIRE(verdict->kind == CONFINE_VERDICT_SIGNALED);
  if (!records && !outcome->signal && outcome->exit_code == 0)
    REQUIRE(verdict->kind == CONFINE_VERDICT_OK);
}

static confine_verdict classify(const struct rules *rules, const confine_outcome *outcome) {
  confine_verdict verdict = CONFINE_VERDICT_INIT;
  REQUIRE(confine_classify_by_rules(rules->rules, rules->count, rules->denials, outcome, &verdict) == 0);
  check_place(outcome, &verdict);
  check_kind(outcome, &verdict);
  return verdict;
}

/* Room for the text between two lines of ours. */
static char *framed(const confine_outcome *outcome, size_t extra) {
  char *text = fuzz_memory(PREFIX_LENGTH + outcome->stderr_length + extra);
  memcpy(text, PREFIX, PREFIX_LENGTH);
  memcpy(text + PREFIX_LENGTH, outcome->stderr_bytes, outcome->stderr_length);
  return text;
}

static void in_other_case(const struct rules *rules, confine_outcome outcome, const confine_verdict *expected) {
  char *text = framed(&outcome, 0);
  for (size_t i = 0; i < outcome.stderr_length; i++)
    text[PREFIX_LENGTH + i] = (char)toupper((unsigned char)text[PREFIX_LENGTH + i]);
  outcome.stderr_bytes = text + PREFIX_LENGTH;
  confine_verdict verdict = classify(rules, &outcome);
  REQUIRE(verdict.kind == expected->kind && verdict.evidence == expected->evidence &&
          verdict.signature == expected->signature && verdict.line_offset == expected->line_offset);
  free(text);
}

static void after_a_line(const struct rules *rules, confine_outcome outcome, const confine_verdict *expected) {
  for (char **word = rules->words; *word; word++)
    if (contains(PREFIX, PREFIX_LENGTH - 1, *word))
      return;
  char *text = framed(&outcome, 0);
  outcome.stderr_bytes = text;
  outcome.stderr_length += PREFIX_LENGTH;
  confine_verdict verdict = classify(rules, &outcome);
  REQUIRE(verdict.kind == expected->kind && verdict.evidence == expected->evidence);
  REQUIRE(verdict.signature == expected->signature);
  REQUIRE(!verdict.signature || verdict.line_offset == expected->line_offset + PREFIX_LENGTH);
  free(text);
}

static int allows(const confine_failure_rule *rule, int code) {
  for (size_t i = 0; rule->allowed_exit_codes && i < rule->allowed_exit_code_count; i++)
    if (rule->allowed_exit_codes[i] == code)
      return 1;
  return !rule->allowed_exit_codes;
}

/* Whatever came before, a line by which the runner tells that it failed is believed. */
static void before_a_failure(const struct rules *rules, confine_outcome outcome) {
  const char *word = rules->count ? rules->rules[0].fatal_signatures[0] : NULL;
  if (outcome.records || outcome.signal || outcome.exit_code <= 0 || !word || !*word || strchr(word, '\n') ||
      !allows(&rules->rules[0], outcome.exit_code))
    return;
  size_t length = strlen(word);
  char *text = framed(&outcome, 2 + length);
  size_t end = PREFIX_LENGTH + outcome.stderr_length;
  text[end] = '\n';
  memcpy(text + end + 1, word, length);
  text[end + 1 + length] = '!';
  outcome.stderr_bytes = text;
  outcome.stderr_length = end + 2 + length;
  REQUIRE(classify(rules, &outcome).evidence == CONFINE_EVIDENCE_STDERR_RULE);
  free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fuzz_input input = {data, size};
  struct rules rules;
  confine_records records = CONFINE_RECORDS_INIT;
  confine_outcome outcome = CONFINE_OUTCOME_INIT;
  uint8_t kind = fuzz_byte(&input);
  outcome.exit_code = fuzz_byte(&input);
  if (kind & 1) {
    outcome.signal = outcome.exit_code;
    outcome.exit_code = -1;
  }
  take_records(&input, &records);
  outcome.records = kind & 2 ? &records : NULL;
  take_rules(&input, &rules);
  char *text = fuzz_memory(input.size);
  memcpy(text, input.data, input.size);
  outcome.stderr_bytes = text;
  outcome.stderr_length = input.size;
  confine_verdict verdict = classify(&rules, &outcome);
  in_other_case(&rules, outcome, &verdict);
  after_a_line(&rules, outcome, &verdict);
  before_a_failure(&rules, outcome);
  free(text);
  fuzz_free_words(rules.words);
  return 0;
}
