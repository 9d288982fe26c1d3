#ifndef CONFINE_EXPORT_H
#define CONFINE_EXPORT_H

#if defined(_WIN32)
#define CONFINE_API
#else
#define CONFINE_API __attribute__((visibility("default")))
#endif

#endif
