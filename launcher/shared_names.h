/* What is left of what ranks had under names of their own: shared memory (hooks/shared, hooks/ports), folders of trackers (hooks/files). */
#ifndef ACCEL_RUN_SHARED_NAMES_H
#define ACCEL_RUN_SHARED_NAMES_H

/* When no process of the job is left. job: the claim socket's name, which they carry. */
void shared_names_remove(const char *job);

#endif
