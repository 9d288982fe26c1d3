/* The finder of numbers in the status files of proc(5): it stays within the text, and finds what is there. */
#include "fuzz.h"

#include "monitor/supervisor.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char *const keys[] = {"Uid:", "Tgid:", "CapEff:", "Groups:", "N", ""};
  struct fuzz_input input = {data, size};
  uint64_t base = fuzz_byte(&input) & 1 ? 16 : 10, value = 0, expected = fuzz_number(&input, 8);
  const char *key = keys[fuzz_byte(&input) % (sizeof keys / sizeof keys[0])];
  char *text = fuzz_text(&input), line[64];
  const char *end = confine__status_number(text, key, base, &value);
  REQUIRE(!end || (end > text && end <= text + strlen(text)));
  int length = snprintf(line, sizeof line, base == 16 ? "%s\t%llx\n" : "%s\t%llu\n", key, (unsigned long long)expected);
  end = confine__status_number(line, key, base, &value);
  REQUIRE(end == line + length - 1 && value == expected);
  free(text);
  return 0;
}
