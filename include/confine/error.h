/*
 * Errors. Every function that can fail returns 0 or one of the negative values below and, where its last
 * argument is a confine_error *, fills it with what a person needs; that argument may be NULL.
 */
#ifndef CONFINE_ERROR_H
#define CONFINE_ERROR_H

#include <confine/export.h>

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Values are never reused. */
enum confine_status {
  CONFINE_OK = 0,
  CONFINE_EINVAL = -1,       /* an argument of the call is wrong */
  CONFINE_ENOMEM = -2,       /* out of memory; nothing was changed */
  CONFINE_ESYSTEM = -3,      /* a system call failed; system_errno says how */
  CONFINE_EUNAVAILABLE = -4, /* SANDBOX_UNAVAILABLE: no runner can enforce the policy; nothing was run */
  CONFINE_EPATH = -5,        /* a workspace or writable root is missing, changed or not acceptable */
  CONFINE_ECONFIG = -6,      /* the configuration is wrong; line and column say where, if in a file */
  CONFINE_EPARTIAL = -7,     /* full enforcement was required and is not to be had */
  CONFINE_ELIMIT = -8,       /* a documented limit was crossed */
  CONFINE_EUNSUPPORTED = -9  /* the chosen runner cannot do what was asked */
};

#define CONFINE_ERROR_TEXT_MAX 4096

/*
 * Filled on failure, untouched on success. Set size by CONFINE_ERROR_INIT before use: it says which
 * fields the caller's version of the library had. Owns nothing.
 */
typedef struct confine_error {
  uint32_t size;        /* sizeof(struct confine_error) */
  int32_t code;         /* enum confine_status */
  int32_t system_errno; /* errno of the failed system call, or 0 */
  uint32_t line;        /* in a configuration file, from 1; 0: not about a file */
  uint32_t column;      /* likewise */
  char text[CONFINE_ERROR_TEXT_MAX]; /* one sentence, without a final newline; bytes of paths as they are */
} confine_error;

#define CONFINE_ERROR_INIT {sizeof(confine_error), 0, 0, 0, 0, {0}}

/* The stable name of a status, such as "SANDBOX_UNAVAILABLE"; never NULL. */
CONFINE_API const char *confine_status_name(int status);

#ifdef __cplusplus
}
#endif
#endif
