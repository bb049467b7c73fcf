#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../config/protocol.h"
#include "capture.h"
#include "doctor.h"

enum { EXCHANGE_MS = 8000 };

/* The environment with one variable more; without what would change the check. Owned by the caller; the strings are not. */
static char **exchange_environment(char *const *environment) {
    static char asked[] = PROTOCOL_ENV_EXCHANGE "=1";
    size_t count = 0, kept = 0;
    while (environment[count])
        count++;
    char **list = calloc(count + 2, sizeof *list);
    for (size_t i = 0; list && i < count; i++)
        if (strncmp(environment[i], "ACCEL_RUN_", 10) || !strncmp(environment[i], "ACCEL_RUN_SHIM=", 15))
            list[kept++] = environment[i];
    if (list)
        list[kept] = asked;
    return list;
}

/* accel-run -n 2 accel-run --version: the ranks are processes of our own, which exchange before they begin. No engine: a pod or mpirun may have set
   variables that ask for other processes, which will never come. */
void doctor_ranks(struct doctor *doctor) {
    static struct capture capture; /* static: 512 KiB */
    static const char *const arguments[] = {"accel-run",   "--config-file", "none", "--engine",       "none",      "-n", "2",
                                            "--log-level", "info",          "--",   "/proc/self/exe", "--version", NULL};
    char **environment = exchange_environment(doctor->environment);
    struct capture_request request = {"/proc/self/exe", (char *const *)(uintptr_t)arguments, environment, NULL, EXCHANGE_MS, NULL};
    if (!environment)
        return;
    int status = capture_run(&request, &capture);
    free(environment);
    char *found = strstr(capture.errors, PROTOCOL_EXCHANGE_WORDS);
    if (found)
        found[strcspn(found, "\n")] = 0;
    if (status == 0 && found)
        findings_add(&doctor->findings, FINDING_PASS, "ranks", "", "", "two ranks were started and talked to each other, %s", found);
    else
        findings_add(&doctor->findings, FINDING_FAIL, "ranks", "AR-EXCHANGE", "report this, with what 'accel-run env' prints",
                     "two ranks could not exchange numbers: %.600s",
                     capture.has_timed_out ? "they did not end in time"
                     : *capture.errors     ? capture.errors
                                           : "they said nothing");
}
