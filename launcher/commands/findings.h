/*
 * What `accel-run doctor` has found: one line each, PASS, WARN or FAIL, with the cure; as text or JSON.
 */
#ifndef ACCEL_RUN_FINDINGS_H
#define ACCEL_RUN_FINDINGS_H

#include <stdio.h>

enum finding_state { FINDING_PASS, FINDING_WARN, FINDING_FAIL };

struct finding {
    enum finding_state state;
    const char *check; /* literal: what was looked at */
    char id[32];       /* of a message of docs/troubleshooting.md; "" none */
    char what[1024];
    char cure[512]; /* "" for PASS */
};

struct findings {
    struct finding *list; /* owned */
    int count;
};

/* what: a printf format. Out of memory the finding is lost. */
void findings_add(struct findings *findings, enum finding_state state, const char *check, const char *id, const char *cure,
                  const char *what, ...) __attribute__((format(printf, 6, 7)));
int findings_count(const struct findings *findings, enum finding_state state);
void findings_print(const struct findings *findings, FILE *out);
/* A JSON list. */
void findings_print_json(const struct findings *findings, FILE *out);
void findings_clear(struct findings *findings);

#endif
