/*
 * A rank's environment: the launcher's, less other launchers' variables, plus what the plan adds. Built before fork (L3).
 */
#ifndef ACCEL_RUN_ENVIRON_H
#define ACCEL_RUN_ENVIRON_H

#include <stdbool.h>
#include <stdint.h>

struct plan;

/* What changes from run to run and from rank to rank. */
struct environ_claim {
    const char *socket, *cookie; /* borrowed */
    const char *joined;          /* borrowed; under another launcher: value of JOIN_ENV, in place of the socket; else NULL */
    uint32_t rank;
    uint32_t hosts; /* of the job */
};

/* The list for one rank, NULL at the end; NULL when out of memory. The list and the strings that are not the launcher's are owned by the
   caller, who frees them with environ_free. */
char **environ_build(const struct plan *plan, char *const *environment, const struct environ_claim *claim);
void environ_free(char **list);

#endif
