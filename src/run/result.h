#ifndef CONFINE_RUN_RESULT_H
#define CONFINE_RUN_RESULT_H

#include "monitor/front.h"
#include "policy/policy.h"

#include <confine/run.h>

#define CONFINE__NOTICES_MAX 8

struct confine__notice {
  const char *code; /* constant */
  char *text;       /* owned */
};

struct confine_result {
  confine_mode mode;
  char *workspace;       /* owned copy, or NULL */
  char **roots;          /* owned, NULL-terminated */
  confine_runner runner;
  confine_enforcement enforcement;
  uint32_t gaps, open_channels;
  int observed;                     /* denials tell every refused write */
  struct confine__denials *denials; /* owned, or NULL */
  int started, exit_code, signal, timed_out;
  const char *failed_step; /* constant, or NULL */
  char *custom_failure;    /* owned: the line by which a custom runner told that it failed */
  char *failure_detail;    /* owned */
  const char *failure_evidence; /* constant */
  struct confine__notice notices[CONFINE__NOTICES_MAX];
  size_t notice_count;
  double duration_ms;
};

int confine__result_new(const confine_policy *policy, confine_result **ret_result, confine_error *error);

/* Takes what the monitor told. */
int confine__result_fill(confine_result *result, const struct confine__front_result *front,
                         const confine_policy *policy, confine_error *error);

/* code is a constant; text is copied. */
int confine__result_notice(confine_result *result, const char *code, const char *text);

#endif
