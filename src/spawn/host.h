#ifndef CONFINE_SPAWN_HOST_H
#define CONFINE_SPAWN_HOST_H

/* What the calling process can do on its kernel. */
struct confine__abilities {
  int supervisor; /* a seccomp listener is to be had */
  int landlock_abi;          /* 0: none */
  int mounts_without_userns; /* it has CAP_SYS_ADMIN */
};

void confine__abilities(struct confine__abilities *ret_abilities);

#endif
