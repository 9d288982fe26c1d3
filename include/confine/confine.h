/* Everything of libconfine. */
#ifndef CONFINE_CONFINE_H
#define CONFINE_CONFINE_H

#include <confine/classify.h>
#include <confine/config.h>
#include <confine/error.h>
#include <confine/policy.h>
#include <confine/provider.h>
#include <confine/run.h>

#endif
