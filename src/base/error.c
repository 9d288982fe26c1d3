#include "base/error.h"

#include <stdio.h>
#include <string.h>

static void fill(confine_error *error, int code, int system_errno, const char *format, va_list arguments) {
  error->code = code;
  error->system_errno = system_errno;
  error->line = error->column = 0;
  vsnprintf(error->text, sizeof error->text, format, arguments);
}

int confine__error(confine_error *error, int code, const char *format, ...) {
  if (!error)
    return code;
  va_list arguments;
  va_start(arguments, format);
  fill(error, code, 0, format, arguments);
  va_end(arguments);
  return code;
}

int confine__error_errno(confine_error *error, int code, int system_errno, const char *format, ...) {
  if (!error)
    return code;
  va_list arguments;
  va_start(arguments, format);
  fill(error, code, system_errno, format, arguments);
  va_end(arguments);
  size_t length = strlen(error->text);
  snprintf(error->text + length, sizeof error->text - length, ": %s", strerror(system_errno));
  return code;
}

int confine__error_memory(confine_error *error) {
  return confine__error(error, CONFINE_ENOMEM, "out of memory");
}

const char *confine_status_name(int status) {
  switch (status) {
  case CONFINE_OK: return "OK";
  case CONFINE_EINVAL: return "INVALID";
  case CONFINE_ENOMEM: return "OUT_OF_MEMORY";
  case CONFINE_ESYSTEM: return "SYSTEM";
  case CONFINE_EUNAVAILABLE: return "SANDBOX_UNAVAILABLE";
  case CONFINE_EPATH: return "PATH";
  case CONFINE_ECONFIG: return "CONFIGURATION";
  case CONFINE_EPARTIAL: return "PARTIAL_ENFORCEMENT";
  case CONFINE_ELIMIT: return "LIMIT";
  case CONFINE_EUNSUPPORTED: return "UNSUPPORTED";
  default: return "UNKNOWN";
  }
}
