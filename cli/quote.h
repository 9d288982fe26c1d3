/* Writing a path, which may hold any byte but zero, where somebody else will read it. */
#ifndef CONFINE_CLI_QUOTE_H
#define CONFINE_CLI_QUOTE_H

#include <jansson.h>
#include <stdio.h>

/* As one word of a shell, and fit for a terminal: as it is where that is safe, else in quotes; with control
 * characters or bytes that are no UTF-8 as $'...' (bash, zsh, ksh). */
void quote_shell(FILE *out, const char *text);

/* Whether the text is UTF-8. */
int quote_is_text(const char *text);

/* As a scalar of YAML; it must be UTF-8. */
void quote_yaml(FILE *out, const char *text);

/* As the records have it: a string, or its bytes in base64 (confine-results(5)). NULL without memory. */
json_t *quote_json(const char *text);

#endif
