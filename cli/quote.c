#include "quote.h"

#include <stdlib.h>
#include <string.h>

enum kind { PLAIN, SPECIAL, CONTROL, NOT_UTF8 };

int quote_is_text(const char *text) {
  json_t *string = json_string(text); /* refuses what is not UTF-8 */
  json_decref(string);
  return string != NULL;
}

static int is_plain(unsigned char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strchr("/._-+@%:,", c);
}

static enum kind kind_of(const char *text) {
  enum kind kind = *text ? PLAIN : SPECIAL;
  if (!quote_is_text(text))
    return NOT_UTF8;
  for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
    /* 0xc2 begins U+0080 to U+009F, which some terminals obey, and harmless ones. */
    if (*c < ' ' || *c == 0x7f || (*c == 0xc2 && c[1] < 0xa0))
      return CONTROL;
    if (!is_plain(*c))
      kind = SPECIAL;
  }
  return kind;
}

void quote_shell(FILE *out, const char *text) {
  enum kind kind = kind_of(text);
  if (kind == PLAIN) {
    fputs(text, out);
    return;
  }
  fputs(kind == SPECIAL ? "'" : "$'", out);
  for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
    if (kind == SPECIAL && *c == '\'')
      fputs("'\\''", out);
    else if (kind == SPECIAL)
      fputc(*c, out);
    else if (*c == '\'' || *c == '\\')
      fprintf(out, "\\%c", *c);
    else if (*c < ' ' || *c >= 0x7f)
      fprintf(out, "\\%03o", *c);
    else
      fputc(*c, out);
  }
  fputc('\'', out);
}

/* The character that begins here if YAML takes it for a line break (and folds the spaces around it), a byte order
 * mark or no character at all, though it is fine UTF-8; else 0. All of these have three bytes. */
static unsigned unprintable(const unsigned char *c) {
  if (c[0] < 0xe2 || c[0] > 0xef)
    return 0;
  unsigned code = (c[0] & 15u) << 12 | (c[1] & 63u) << 6 | (c[2] & 63u);
  return code == 0x2028 || code == 0x2029 || code == 0xfeff || code == 0xfffe || code == 0xffff ? code : 0;
}

void quote_yaml(FILE *out, const char *text) {
  enum kind kind = kind_of(text);
  if (kind == PLAIN && !strchr(text, ':')) {
    fputs(text, out);
    return;
  }
  fputc('"', out);
  for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
    unsigned code = unprintable(c);
    if (code) {
      fprintf(out, "\\u%04x", code);
      c += 2;
    } else if (*c == '"' || *c == '\\') {
      fprintf(out, "\\%c", *c);
    } else if (*c < ' ' || *c == 0x7f) {
      fprintf(out, "\\x%02x", *c);
    } else if (*c == 0xc2 && c[1] < 0xa0) {
      fprintf(out, "\\x%02x", *++c);
    } else {
      fputc(*c, out);
    }
  }
  fputc('"', out);
}

/* RFC 4648. */
static char *base64(const char *text) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  size_t length = strlen(text);
  char *out = malloc((length + 2) / 3 * 4 + 1), *at = out;
  for (size_t i = 0; out && i < length; i += 3) {
    unsigned char c[3] = {(unsigned char)text[i]};
    for (size_t j = 1; j < 3 && i + j < length; j++)
      c[j] = (unsigned char)text[i + j];
    *at++ = digits[c[0] >> 2];
    *at++ = digits[(c[0] & 3) << 4 | c[1] >> 4];
    *at++ = i + 1 < length ? digits[(c[1] & 15) << 2 | c[2] >> 6] : '=';
    *at++ = i + 2 < length ? digits[c[2] & 63] : '=';
  }
  if (out)
    *at = '\0';
  return out;
}

json_t *quote_json(const char *text) {
  json_t *string = json_string(text);
  if (string)
    return string;
  char *encoded = base64(text);
  json_t *object = encoded ? json_pack("{s:s}", "bytes", encoded) : NULL;
  free(encoded);
  return object;
}
