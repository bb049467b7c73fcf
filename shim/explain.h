/* The list behind `accel-run explain` (explain.c, explain_python.c); what hooks may note stands in shim.h. */
#ifndef ACCEL_SHIM_EXPLAIN_H
#define ACCEL_SHIM_EXPLAIN_H

/* What the self-check has met is forgotten. */
void explain_reset(void);
/* A backward begins: one more than were asked for ends the run. */
void explain_step(void);
/* Sends the list; why: the reason for its end. */
#define EXPLAIN_END "end"         /* the launcher is to end the ranks, which wait for it */
#define EXPLAIN_STOPPED "stopped" /* they end by themselves, or something else is to be said */
void explain_send(const char *kind, const char *why);
/* Once: notes the loaders, optimizers and schedulers that live in Python. Nothing without an interpreter. */
void explain_python(void);

#endif
