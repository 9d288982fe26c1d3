/* Carrying an environment past a program that it must not influence. */
#ifndef CONFINE_LAUNCHER_ENVIRONMENT_H
#define CONFINE_LAUNCHER_ENVIRONMENT_H

/*
 * Returns a copy of the environment in which every name has a prefix that no program looks for, and which
 * also tells the identity of the current directory; NULL when out of memory. Never freed: exec follows.
 */
char **environment_carry(char **environment);

/* The reverse: only carried variables, without the prefix. The strings are those of environment. */
char **environment_restore(char **environment);

/* Whether the current directory is the one that was carried; 1 also when none was. */
int environment_same_directory(char **environment);

#endif
