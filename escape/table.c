#include "families.h"

#include <string.h>

static const struct {
  const struct escape_technique *first;
  const size_t *count;
} families[] = {
    {escape_metadata, &escape_metadata_count},   {escape_write, &escape_write_count},
    {escape_path, &escape_path_count},           {escape_inherited, &escape_inherited_count},
    {escape_process, &escape_process_count},     {escape_ipc, &escape_ipc_count},
    {escape_network, &escape_network_count},     {escape_terminal, &escape_terminal_count},
    {escape_namespace, &escape_namespace_count}, {escape_kernel, &escape_kernel_count},
    {escape_launcher, &escape_launcher_count},
};

enum { FAMILIES = sizeof families / sizeof *families };

size_t escape_count(void)
{
  size_t n = 0;

  for (size_t i = 0; i < FAMILIES; i++)
    n += *families[i].count;
  return n;
}

const struct escape_technique *escape_at(size_t index)
{
  for (size_t i = 0; i < FAMILIES; i++) {
    if (index < *families[i].count)
      return &families[i].first[index];
    index -= *families[i].count;
  }
  return NULL;
}

const struct escape_technique *escape_find(const char *id)
{
  for (size_t i = 0; i < FAMILIES; i++)
    for (size_t j = 0; j < *families[i].count; j++)
      if (strcmp(families[i].first[j].id, id) == 0)
        return &families[i].first[j];
  return NULL;
}
