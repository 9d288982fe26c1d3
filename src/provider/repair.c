#include "provider/internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Reads a small file into out, without its final newline; empty if it cannot be read. */
static void read_small(const char *path, char *out, size_t size) {
  ssize_t n = 0;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd >= 0) {
    n = read(fd, out, size - 1);
    close(fd);
  }
  out[n > 0 ? n : 0] = '\0';
  out[strcspn(out, "\n")] = '\0';
}

static int setting_is(const char *sysctl, const char *name, const char *value) {
  char path[512], text[64];
  snprintf(path, sizeof path, "%s/%s", sysctl, name);
  read_small(path, text, sizeof text);
  return strcmp(text, value) == 0;
}

/* The settings that distributions use to refuse user namespaces: Debian's own switch, Ubuntu's AppArmor rule
 * (since 23.10), and the kernel's limit (namespaces(7)). */
void confine__repair_namespaces(const char *sysctl, int privileged, char *out, size_t size) {
  if (privileged)
    snprintf(out, size, "mounting is refused to this privileged process, as in a container or inside another sandbox: "
                        "let it mount, or use the landlock runner there");
  else if (setting_is(sysctl, "kernel/unprivileged_userns_clone", "0"))
    snprintf(out, size, "allow user namespaces: sysctl kernel.unprivileged_userns_clone=1");
  else if (setting_is(sysctl, "kernel/apparmor_restrict_unprivileged_userns", "1"))
    snprintf(out, size, "give this program an AppArmor profile with `userns,`, or sysctl "
                        "kernel.apparmor_restrict_unprivileged_userns=0");
  else if (setting_is(sysctl, "user/max_user_namespaces", "0"))
    snprintf(out, size, "allow user namespaces: sysctl user.max_user_namespaces=15000");
  else
    snprintf(out, size, "user namespaces or mounting in them are refused, as in a container or inside another sandbox: "
                        "allow them, or use the landlock runner there");
}

void confine__repair_landlock(const char *lsm_list, char *out, size_t size) {
  char active[512];
  read_small(lsm_list, active, sizeof active);
  if (*active && !strstr(active, "landlock"))
    snprintf(out, size, "boot with landlock in the kernel's list of security modules: lsm=landlock,%s", active);
  else
    snprintf(out, size, "use a kernel of at least Linux 5.13 with CONFIG_SECURITY_LANDLOCK, and let the container or "
                        "sandbox around this process allow its system calls");
}
