#define _GNU_SOURCE
#include "stand_by.h"

#include <stdlib.h>
#include <sys/prctl.h>
#include <signal.h>
#include <unistd.h>

/* The launcher's processes of this host as a job of their own: it meets as ranks of one host do. */
static struct engine of_this_host(const struct engine *engine) {
    struct engine here = *engine;
    here.rank = engine->local_rank;
    here.world_size = engine->local_world_size;
    return here;
}

int stand_by_gather(struct stand_by *others, const struct front *front, struct problem *problem) {
    struct engine here = of_this_host(front->engine);
    struct front meeting = *front;
    meeting.engine = &here;
    struct rendezvous_hello *hellos = calloc(here.world_size, sizeof *hellos);
    if (!hellos)
        return problem_set(problem, EXIT_LAUNCHER, "AR-MEMORY", "free some memory", "out of memory");
    if (here.process == getppid()) /* nothing outlives the launcher */
        prctl(PR_SET_PDEATHSIG, SIGTERM);
    others->count = here.world_size - 1;
    int status = front_gather(&meeting, hellos, others->connections, problem);
    free(hellos);
    return status;
}

void stand_by_release(struct stand_by *others, int exit_code) {
    struct rendezvous_answer end = {.problem = {.exit_code = exit_code}};
    for (uint32_t i = 1; i <= others->count; i++)
        if (others->connections[i] >= 0) {
            rendezvous_answer(others->connections[i], &end, NULL);
            close(others->connections[i]);
        }
    others->count = 0;
}

int stand_by_wait(const struct front *front, struct problem *problem) {
    struct engine here = of_this_host(front->engine);
    struct front meeting = *front;
    meeting.engine = &here;
    struct rendezvous_answer end;
    int connection = front_greet(&meeting, problem), descriptors[RENDEZVOUS_DESCRIPTORS];
    if (connection < 0)
        return -1;
    if (here.process == getppid())
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    int status = rendezvous_await(connection, UINT64_MAX, &end, descriptors);
    close(connection);
    return status ? problem_set(problem, EXIT_LAUNCHER, "AR-ENGINE-ALONE", "look for who has ended it",
                                "the accel-run that started this host's ranks has ended without a word")
                  : end.problem.exit_code;
}
