#include "monitor/denials.h"

static int is_same(const struct confine__denials *denials, const struct confine__denial *a,
                   const struct confine__denial *b, const char *path, size_t length) {
  if (a->operation != b->operation || a->error != b->error || a->path_length != length)
    return 0;
  const char *known = denials->names + a->path;
  for (size_t i = 0; i < length; i++)
    if (known[i] != path[i])
      return 0;
  return 1;
}

void confine__denials_add(struct confine__denials *denials, const struct confine__denial *denial, const char *path,
                          size_t length) {
  for (size_t i = 0; i < denials->count; i++)
    if (is_same(denials, &denials->entries[i], denial, path, length)) {
      denials->entries[i].count += denial->count;
      return;
    }
  if (denials->count == CONFINE__DENIALS_MAX || length + 1 > sizeof denials->names - denials->names_used) {
    denials->dropped += denial->count;
    return;
  }
  struct confine__denial *entry = &denials->entries[denials->count];
  *entry = *denial;
  entry->path = (uint32_t)denials->names_used;
  entry->path_length = (uint32_t)length;
  for (size_t i = 0; i < length; i++)
    denials->names[denials->names_used + i] = path[i];
  denials->names[denials->names_used + length] = '\0';
  denials->names_used += length + 1;
  /* Last: whoever reads it after the writer was ended in between finds whole entries only. */
  __atomic_store_n(&denials->count, denials->count + 1, __ATOMIC_RELEASE);
}
