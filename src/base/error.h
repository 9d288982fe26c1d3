#ifndef CONFINE_BASE_ERROR_H
#define CONFINE_BASE_ERROR_H

#include <confine/error.h>

#include <stdarg.h>

/* Fills *error (which may be NULL) and returns code. A text that is too long is cut. */
int confine__error(confine_error *error, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for a failed system call: errno is kept in *error and its text appended after `: `. */
int confine__error_errno(confine_error *error, int code, int system_errno, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* CONFINE_ENOMEM with its text. */
int confine__error_memory(confine_error *error);

#endif
