#include "advice.h"
#include "cli.h"
#include "quote.h"
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What all parts of the report draw on. */
struct lesson {
  const struct cli_options *options;
  const confine_policy *policy;
  const confine_result *result;
  struct advice advice;
  int mode_needed; /* no root counts in mode read-only */
};

static const char *why_not_observed(const struct lesson *lesson) {
  if (confine_policy_mode(lesson->policy) == CONFINE_MODE_DANGER_FULL_ACCESS)
    return "nothing is refused in mode danger-full-access";
  if (lesson->options->no_observe)
    return "--no-observe was given";
  if (confine_result_runner(lesson->result) == CONFINE_RUNNER_CUSTOM)
    return "the runner custom has no observer";
  return "no observer can be had here (the kernel gives none, or a sandbox around this one holds it)";
}

static void print_denial(FILE *out, const confine_denial *denial) {
  fprintf(out, "    %-8s ", confine_operation_name(denial->operation));
  quote_shell(out, denial->path);
  if (denial->count > 1)
    fprintf(out, " (%" PRIu64 " times)", denial->count);
}

static void print_root(FILE *out, const struct lesson *lesson, size_t index) {
  const struct advice *advice = &lesson->advice;
  const struct advised_root *root = &advice->roots[index];
  fputs("\n  ", out);
  quote_shell(out, root->path);
  fprintf(out, " (%s%s)\n", root->is_directory ? "directory" : "file",
          root->by_mode ? ", writable in mode workspace-write" : "");
  for (size_t i = 0; i < advice->wanted_count; i++) {
    if (advice->wanted[i].root != index)
      continue;
    print_denial(out, &advice->wanted[i].denial);
    fputc('\n', out);
  }
  if (root->only_mkdir && !root->by_mode)
    fputs("    Less is enough if what is to be made here is made before, and --write names that.\n", out);
}

static void print_unallowable(FILE *out, const struct advice *advice) {
  const char *title = "\nNo option allows:\n";
  for (size_t i = 0; i < advice->wanted_count; i++) {
    if (!advice->wanted[i].why)
      continue;
    fputs(title, out);
    title = "";
    print_denial(out, &advice->wanted[i].denial);
    fprintf(out, "\n      %s\n", advice->wanted[i].why);
  }
}

static void print_options(FILE *out, const struct lesson *lesson) {
  if (lesson->mode_needed)
    fputs(" --mode workspace-write", out);
  for (size_t i = 0; i < lesson->advice.root_count; i++) {
    if (lesson->advice.roots[i].by_mode)
      continue;
    fputs(" --write ", out);
    quote_shell(out, lesson->advice.roots[i].path);
  }
}

static void print_configuration(FILE *out, const struct lesson *lesson, const char *indent) {
  const char *title = "writableRoots:\n";
  size_t unsaid = 0;
  if (lesson->mode_needed)
    fprintf(out, "%smode: workspace-write\n", indent);
  for (size_t i = 0; i < lesson->advice.root_count; i++) {
    const struct advised_root *root = &lesson->advice.roots[i];
    if (root->by_mode)
      continue;
    if (!quote_is_text(root->path)) {
      unsaid++;
      continue;
    }
    fprintf(out, "%s%s%s  - ", *title ? indent : "", title, indent);
    quote_yaml(out, root->path);
    fputc('\n', out);
    title = "";
  }
  if (unsaid)
    fprintf(out, "%s# Not here: %zu whose names are not UTF-8, which YAML cannot say; use --write.\n", indent, unsaid);
}

static void print_text(FILE *out, const struct lesson *lesson) {
  const struct advice *advice = &lesson->advice;
  uint64_t dropped = confine_result_denials_dropped(lesson->result);
  if (confine_result_denial_evidence(lesson->result) != CONFINE_EVIDENCE_OBSERVER) {
    fprintf(out, "\nconfine learn: what was refused is not known: %s\n", why_not_observed(lesson));
    return;
  }
  if (!confine_result_denied(lesson->result)) {
    fputs("\nconfine learn: no write was refused\n", out);
    return;
  }
  fputs("\nconfine learn: the command wanted to write where it may not\n", out);
  for (size_t i = 0; i < advice->root_count; i++)
    print_root(out, lesson, i);
  print_unallowable(out, advice);
  if (dropped)
    fprintf(out, "\n%" PRIu64 " further refusals are not listed: allow these, and learn again\n", dropped);
  if (!advice->root_count)
    return;
  fputs("\nOptions that allow it:\n ", out);
  print_options(out, lesson);
  fputs("\n\nConfiguration that allows it, confine-policy(5):\n", out);
  print_configuration(out, lesson, "  ");
}

static json_t *json_denial(const confine_denial *denial) {
  return json_pack("{s:s,s:o,s:I}", "op", confine_operation_name(denial->operation), "path",
                   quote_json(denial->path), "count", (json_int_t)denial->count);
}

static json_t *json_roots(const struct advice *advice) {
  json_t *roots = json_array();
  for (size_t i = 0; i < advice->root_count; i++) {
    const struct advised_root *root = &advice->roots[i];
    json_t *wanted = json_array();
    for (size_t j = 0; j < advice->wanted_count; j++)
      if (advice->wanted[j].root == i)
        json_array_append_new(wanted, json_denial(&advice->wanted[j].denial));
    json_array_append_new(roots, json_pack("{s:o,s:s,s:s,s:o}", "path", quote_json(root->path), "kind",
                                           root->is_directory ? "directory" : "file", "allowedBy",
                                           root->by_mode ? "mode" : "write", "wanted", wanted));
  }
  return roots;
}

static json_t *json_unallowable(const struct advice *advice) {
  json_t *array = json_array();
  for (size_t i = 0; i < advice->wanted_count; i++) {
    if (!advice->wanted[i].why)
      continue;
    json_t *entry = json_denial(&advice->wanted[i].denial);
    json_object_set_new(entry, "why", quote_json(advice->wanted[i].why));
    json_array_append_new(array, entry);
  }
  return array;
}

static json_t *json_options(const struct lesson *lesson) {
  json_t *words = json_array();
  if (lesson->mode_needed) {
    json_array_append_new(words, json_string("--mode"));
    json_array_append_new(words, json_string("workspace-write"));
  }
  for (size_t i = 0; i < lesson->advice.root_count; i++) {
    if (lesson->advice.roots[i].by_mode)
      continue;
    json_array_append_new(words, json_string("--write"));
    json_array_append_new(words, quote_json(lesson->advice.roots[i].path));
  }
  return words;
}

static int print_json(FILE *out, const struct lesson *lesson) {
  int observed = confine_result_denial_evidence(lesson->result) == CONFINE_EVIDENCE_OBSERVER;
  char *lines = NULL;
  size_t length;
  FILE *memory = open_memstream(&lines, &length);
  if (!memory)
    return cli_refuse("out of memory");
  print_configuration(memory, lesson, "");
  fclose(memory);
  json_t *root = json_pack("{s:s,s:i,s:s,s:s,s:I,s:o,s:o,s:o,s:s}", "schema", "confine.learn/1", "exitStatus",
                           confine_result_exit_status(lesson->result), "mode",
                           confine_mode_name(confine_policy_mode(lesson->policy)), "denialEvidence",
                           observed ? "observer" : "none", "denialsDropped",
                           (json_int_t)confine_result_denials_dropped(lesson->result), "roots",
                           json_roots(&lesson->advice), "notAllowable", json_unallowable(&lesson->advice), "options",
                           json_options(lesson), "configuration", lines);
  char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
  json_decref(root);
  free(lines);
  if (!text)
    return cli_refuse("out of memory");
  fprintf(out, "\n%s\n", text);
  free(text);
  return 0;
}

static int tell(const struct cli_options *options, confine_provider *provider, const confine_policy *policy,
                const confine_result *result, void *context) {
  FILE *out = context;
  struct lesson lesson = {.options = options, .policy = policy, .result = result};
  int status = 0;
  if (advice_make(options, provider, policy, result, &lesson.advice) < 0) {
    status = cli_refuse("out of memory");
  } else {
    lesson.mode_needed =
        confine_policy_mode(policy) == CONFINE_MODE_READ_ONLY && lesson.advice.root_count > 0;
    if (options->json)
      status = print_json(out, &lesson);
    else if (confine_result_started(result))
      print_text(out, &lesson);
  }
  advice_release(&lesson.advice);
  if (status == 0)
    status = cli_flush(out);
  return status;
}

int cli_learn(int argc, char **argv) {
  /* Standard output is let go of while the command runs. */
  int fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
  if (!out)
    return cli_refuse("standard output: %s", strerror(errno));
  int status = cli_execute(CLI_LEARN, argc, argv, tell, out);
  fclose(out);
  return status;
}
