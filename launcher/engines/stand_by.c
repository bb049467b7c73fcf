#define _GNU_SOURCE
#include "stand_by.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

/* The launcher's processes of this host meet as the ranks of a job on one host do. here: filled. */
static struct front meeting_of(const struct front *front, struct engine *here) {
    struct front meeting = *front;
    *here = *front->engine;
    here->rank = here->local_rank;
    here->world_size = here->local_world_size;
    meeting.engine = here;
    return meeting;
}

/* srun binds each of its processes to processors of its own. This one starts all ranks: they may run where those that stand by may. What the system does not
   let it do is left. */
static void take_processors(const struct rendezvous_hello *hellos, uint32_t count) {
    struct cpus all = hellos[0].cpus;
    for (uint32_t i = 1; i < count; i++)
        cpus_unite(&all, &hellos[i].cpus);
    sched_setaffinity(0, sizeof all, (const cpu_set_t *)(const void *)&all);
}

int stand_by_gather(struct stand_by *others, const struct front *front, struct problem *problem) {
    struct engine here;
    struct front meeting = meeting_of(front, &here);
    struct rendezvous_hello *hellos = calloc(here.world_size, sizeof *hellos);
    if (!hellos)
        return problem_set(problem, EXIT_LAUNCHER, "AR-MEMORY", "free some memory", "out of memory");
    others->count = here.world_size - 1;
    int status = front_die_with(&here, SIGTERM) ? front_gather(&meeting, hellos, others->connections, problem)
                                                : problem_set(problem, EXIT_LAUNCHER, "AR-ENGINE-ALONE", "look for who has ended it",
                                                              "%s has ended", engines_name(&here));
    if (!status)
        take_processors(hellos, here.world_size);
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

/* A scheduler tells every process of a step (sbatch --signal=USR1@90): the one that started the ranks hears it, too, and the program saves and goes on. */
static void hear_nothing(void) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGXCPU};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        signal(signals[i], SIG_IGN);
}

int stand_by_wait(const struct front *front, struct problem *problem) {
    struct engine here;
    struct front meeting = meeting_of(front, &here);
    struct rendezvous_answer end;
    int connection = front_greet(&meeting, problem), descriptors[RENDEZVOUS_DESCRIPTORS];
    if (connection < 0)
        return -1;
    hear_nothing();
    int status = front_die_with(&here, SIGKILL) ? rendezvous_await(connection, UINT64_MAX, &end, descriptors) : -1;
    close(connection);
    return status ? problem_set(problem, EXIT_LAUNCHER, "AR-ENGINE-ALONE", "look for who has ended it",
                                "the accel-run that started this host's ranks has ended without a word")
                  : end.problem.exit_code;
}
