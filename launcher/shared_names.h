/* What is left of shared memory that ranks made under names of their own (hooks/shared). */
#ifndef ACCEL_RUN_SHARED_NAMES_H
#define ACCEL_RUN_SHARED_NAMES_H

/* When no process of the job is left. job: the claim socket's name, which they carry. */
void shared_names_remove(const char *job);

#endif
