/* Carrying what is the command's past a program that must neither be influenced by it nor hold it. */
#ifndef CONFINE_LAUNCHER_ENVIRONMENT_H
#define CONFINE_LAUNCHER_ENVIRONMENT_H

/*
 * Returns a copy of the environment in which every name has a prefix that no program looks for, and which
 * also tells the identity of the current directory; NULL when out of memory. Never freed: exec follows.
 * Standard input and output go to descriptors above 2, which bwrap closes in the process that it leaves
 * behind: a peer sees when the command lets go of one, or that it was closed from the start. The signals
 * that a terminal's keys send are blocked meanwhile.
 */
char **environment_carry(char **environment);

/* The reverse: standard streams and signal mask as they were, and only carried variables, without the prefix. The
 * strings are those of environment. */
char **environment_restore(char **environment);

/*
 * bwrap takes at most so many words. With more, environment_carry_words makes those of the command, after the
 * second `--` of argv, part of the carried environment, and environment_words finds them again; NULL if none
 * were carried, or when out of memory.
 */
#define ENVIRONMENT_WORDS_MAX 8000
char **environment_carry_words(char **environment, char **argv);
char **environment_words(char **environment);

/* A pidfd of the process that carried, or -1: its death may come before the program between has arranged for
 * its child's. */
int environment_carrier(char **environment);

/* Whether the current directory is the one that was carried; 1 also when none was. */
int environment_same_directory(char **environment);

#endif
