/* Where the result record goes. */
#ifndef CONFINE_CLI_REPORT_H
#define CONFINE_CLI_REPORT_H

struct report {
  int fd;        /* to write to, or -1 when no record was asked for */
  int directory; /* a file: where its name goes, or -1 */
  char *name;    /* a file: its last component, owned */
};

/*
 * Opens the place named by --report (NULL: none), so that one that cannot be written is refused before
 * the command starts. Returns 0, or CLI_REFUSED after printing why.
 */
int report_open(const char *target, struct report *ret_report);

/* Whether a record was asked for. */
int report_wanted(const struct report *report);

/* Writes the record and a newline, in one write; a file gets its name only when whole. Releases *report.
 * Returns 0, or CLI_REFUSED after printing why. */
int report_write(struct report *report, const char *record);

/* Leaves no trace of a record that is not written. */
void report_abandon(struct report *report);

#endif
