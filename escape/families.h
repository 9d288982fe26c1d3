/* The families' tables; table.c joins them. */
#ifndef ESCAPE_FAMILIES_H
#define ESCAPE_FAMILIES_H

#include "technique.h"

#define ESCAPE_FAMILY(name)                       \
  extern const struct escape_technique escape_##name[]; \
  extern const size_t escape_##name##_count

ESCAPE_FAMILY(metadata);
ESCAPE_FAMILY(write);
ESCAPE_FAMILY(path);
ESCAPE_FAMILY(inherited);
ESCAPE_FAMILY(process);
ESCAPE_FAMILY(ipc);
ESCAPE_FAMILY(network);
ESCAPE_FAMILY(terminal);
ESCAPE_FAMILY(namespace);
ESCAPE_FAMILY(kernel);
ESCAPE_FAMILY(launcher);

#endif
