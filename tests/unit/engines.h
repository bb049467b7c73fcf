/*
 * Launchers for unit tests: variables, and processes above us that may have set them.
 */
#ifndef ACCEL_TESTS_ENGINES_H
#define ACCEL_TESTS_ENGINES_H

#include "../../launcher/engines/engines.h"
#include "unit.h"

/* One process above us: its command line and what it was started with, words with terminators. */
#define ABOVE(number, line, variables)                                                                                                     \
    {                                                                                                                                      \
        .pid = number, .started = 7, .words = line, .words_bytes = sizeof(line), .environment = variables,                                 \
        .environment_bytes = sizeof(variables)                                                                                             \
    }

static bool has_terminal;
static struct engine engine;
static struct config config;
static struct problem problem;

static inline void find(char **environment, const struct engine_process *above, uint32_t count) {
    engines_find(&(struct engine_facts){environment, above, count, has_terminal}, &engine);
}
#define VARIABLES(...) ((char *[]){__VA_ARGS__ __VA_OPT__(, ) NULL})
/* Below a launcher whose command line is `line`, itself started from a shell; both without the launcher's variables. */
#define BELOW(line, ...) find(VARIABLES(__VA_ARGS__), (struct engine_process[]){ABOVE(50, line, "A=1"), ABOVE(40, "bash", "A=1")}, 2)
/* From a shell in which the variables were left. */
#define LEAKED(...) find(VARIABLES(__VA_ARGS__), (struct engine_process[]){ABOVE(40, "bash", "A=1")}, 1)

#define TORCHRUN                                                                                                                           \
    "RANK=3", "WORLD_SIZE=4", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2", "GROUP_RANK=1", "GROUP_WORLD_SIZE=2", "ROLE_RANK=3", "MASTER_ADDR=h",  \
        "MASTER_PORT=29500", "TORCHELASTIC_RUN_ID=none", "TORCHELASTIC_RESTART_COUNT=2"
#define OPENMPI                                                                                                                            \
    "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_RANK=1", "OMPI_COMM_WORLD_LOCAL_SIZE=2",                    \
        "OMPI_COMM_WORLD_NODE_RANK=1", "PMIX_RANK=1", "PMIX_NAMESPACE=77"
#define HYDRA "PMI_RANK=2", "PMI_SIZE=3", "PMI_FD=6", "MPI_LOCALRANKID=2", "MPI_LOCALNRANKS=3"
#define SLURM                                                                                                                              \
    "SLURM_PROCID=2", "SLURM_NTASKS=4", "SLURM_LOCALID=0", "SLURM_NODEID=1", "SLURM_NNODES=2", "SLURM_TASKS_PER_NODE=2(x2)",               \
        "SLURM_STEP_NODELIST=n[03-04]", "SLURM_JOB_ID=9", "SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=4"
#define SBATCH "SLURM_PROCID=0", "SLURM_NTASKS=4", "SLURM_LOCALID=0", "SLURM_NODEID=0", "SLURM_TASKS_PER_NODE=4", "SLURM_JOB_ID=9"

static inline const char *words(void) {
    static char text[1024];
    engines_words(&engine, text, sizeof text);
    return text;
}

static inline int settle(const char *ranks, const char *nodes, const char *word) {
    char fault[CONFIG_FAULT_CHARS];
    config_defaults(&config);
    if (ranks)
        config_set(&config, CONFIG_ID_ranks, ranks, CONFIG_FROM_COMMAND_LINE, "-n", fault);
    if (nodes)
        config_set(&config, CONFIG_ID_nnodes, nodes, CONFIG_FROM_COMMAND_LINE, "--nnodes", fault);
    config_set(&config, CONFIG_ID_engine, word, CONFIG_FROM_COMMAND_LINE, "--engine", fault);
    return engines_settle(&engine, &config, &problem);
}

#endif
