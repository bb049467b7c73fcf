// sources: launcher/engines/engines.c launcher/engines/engines_settle.c launcher/problem.c config/*.c
#include "unit.h"

#include "../../launcher/engines/engines.h"

/* One process above us: its command line and what it was started with, words with terminators. */
#define ABOVE(number, line, variables)                                                                                                     \
    {                                                                                                                                      \
        .pid = number, .started = 7, .words = line, .words_bytes = sizeof(line), .environment = variables,                                 \
        .environment_bytes = sizeof(variables)                                                                                             \
    }

static struct engine engine;
static struct config config;
static struct problem problem;

static void find(char **environment, const struct engine_process *above, uint32_t count) {
    engines_find(&(struct engine_facts){environment, above, count}, &engine);
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

static const char *words(void) {
    static char text[1024];
    engines_words(&engine, text, sizeof text);
    return text;
}

static int settle(const char *ranks, const char *nodes, const char *word) {
    char fault[CONFIG_FAULT_CHARS];
    config_defaults(&config);
    if (ranks)
        config_set(&config, CONFIG_ID_ranks, ranks, CONFIG_FROM_COMMAND_LINE, "-n", fault);
    if (nodes)
        config_set(&config, CONFIG_ID_nnodes, nodes, CONFIG_FROM_COMMAND_LINE, "--nnodes", fault);
    config.engine = word;
    return engines_settle(&engine, &config, &problem);
}

TEST("nothing above: the ranks are started here, and nothing is said") {
    LEAKED("HOME=/");
    EXPECT(engine.mode == ENGINE_SPAWN);
    EXPECT_TEXT(words(), "");
}

TEST("torchrun: a rank, with the restart and the address that make a group") {
    BELOW("/usr/bin/python3\0/v/bin/torchrun", TORCHRUN);
    EXPECT(engine.mode == ENGINE_JOIN && engine.rank == 3 && engine.world_size == 4 && engine.local_rank == 1 &&
           engine.local_world_size == 2 && engine.node_rank == 1 && engine.nodes == 2 && engine.restart == 2 && engine.port == 29500 &&
           engine.process == 50);
    EXPECT_TEXT(engine.address, "h");
    EXPECT_TEXT(words(), "rank 3 of 4: torchrun (LOCAL_RANK)");
    BELOW("python\0-u\0-m\0torch.distributed.run", TORCHRUN);
    EXPECT(engine.mode == ENGINE_JOIN && engine.process == 50);
}

TEST("hosts are numbered one after the other, also where srun has dealt its tasks out in turn") {
    BELOW("python3\0torchrun", TORCHRUN);
    EXPECT(engine.first == 2);
    BELOW("slurmstepd: [9.0]", SLURM); /* -m block: 0 1 | 2 3 */
    EXPECT(engine.first == 2);
    BELOW("slurmstepd: [9.0]", "SLURM_PROCID=4", "SLURM_LOCALID=1", "SLURM_NODEID=1", "SLURM_STEP_NUM_TASKS=7", "SLURM_STEP_NUM_NODES=3",
          "SLURM_STEP_TASKS_PER_NODE=3,2(x2)"); /* -m cyclic: 0 3 6 | 1 4 | 2 5 */
    EXPECT(engine.mode == ENGINE_JOIN && engine.rank == 4 && engine.first == 3);
    BELOW("slurmstepd: [9.0]", "SLURM_PROCID=1", "SLURM_LOCALID=1", "SLURM_NODEID=0", "SLURM_STEP_NUM_TASKS=2", "SLURM_STEP_NUM_NODES=1",
          "SLURM_STEP_TASKS_PER_NODE=2");
    EXPECT(engine.mode == ENGINE_JOIN && engine.first == 0);
}

TEST("torchrun's OMP_NUM_THREADS=1 is nobody's choice, unless it was started with it") {
    BELOW("python3\0/v/bin/torchrun", TORCHRUN, "OMP_NUM_THREADS=1");
    EXPECT(engine.threads_are_its);
    BELOW("python3\0/v/bin/torchrun", TORCHRUN, "OMP_NUM_THREADS=3");
    EXPECT(!engine.threads_are_its);
    find(VARIABLES(TORCHRUN, "OMP_NUM_THREADS=1"), (struct engine_process[]){ABOVE(50, "python3\0torchrun", "OMP_NUM_THREADS=1")}, 1);
    EXPECT(!engine.threads_are_its);
}

TEST("torchrun's OMP_NUM_THREADS=1 is nobody's choice either where another launcher was started inside, but what that was told to set is") {
    find(VARIABLES(TORCHRUN, OPENMPI, "OMP_NUM_THREADS=1"),
         (struct engine_process[]){ABOVE(60, "mpirun", "OMP_NUM_THREADS=1"), ABOVE(50, "python3\0torchrun", "A=1")}, 2);
    EXPECT(engine.family == ENGINE_OPENMPI && engine.threads_are_its);
    find(VARIABLES(TORCHRUN, OPENMPI, "OMP_NUM_THREADS=1"),
         (struct engine_process[]){ABOVE(60, "mpirun\0-x\0OMP_NUM_THREADS", "A=1"), ABOVE(50, "python3\0torchrun", "A=1")}, 2);
    EXPECT(engine.family == ENGINE_OPENMPI && !engine.threads_are_its);
    find(VARIABLES(TORCHRUN, "OMP_NUM_THREADS=1"),
         (struct engine_process[]){ABOVE(70, "sh\0wrapper", "A=1"), ABOVE(50, "python3\0torchrun", "A=1")}, 2);
    EXPECT(engine.family == ENGINE_TORCHRUN && !engine.threads_are_its);
}

TEST("a restart of torchrun is another group, and so is another torchrun") {
    char first[512], second[512];
    BELOW("python3\0torchrun", TORCHRUN);
    engines_key(&engine, first, sizeof first);
    engine.restart++;
    engines_key(&engine, second, sizeof second);
    EXPECT(strcmp(first, second) != 0);
    engine.restart--;
    engine.process_started++;
    engines_key(&engine, second, sizeof second);
    EXPECT(strcmp(first, second) != 0);
}

TEST("Open MPI: its node rank is the rank on its host, not the host's number") {
    BELOW("mpirun.openmpi\0-n\0002", OPENMPI);
    EXPECT(engine.mode == ENGINE_JOIN && engine.rank == 1 && engine.world_size == 2 && engine.node_rank == 0 && engine.nodes == 1);
    EXPECT_TEXT(engine.job, "77");
    BELOW("/usr/bin/prted", OPENMPI);
    EXPECT(engine.mode == ENGINE_JOIN && engine.process == 50);
}

TEST("MPICH and Intel: hydra's proxy") {
    BELOW("/usr/bin/hydra_pmi_proxy\0--control-port", HYDRA);
    EXPECT(engine.mode == ENGINE_JOIN && engine.rank == 2 && engine.world_size == 3 && engine.local_rank == 2 && engine.process == 50);
}

TEST("MVAPICH, PALS, Flux and jsrun: a rank by the variables that each of them sets") {
    BELOW("/opt/mpispawn\00", "MV2_COMM_WORLD_RANK=1", "MV2_COMM_WORLD_SIZE=2", "MV2_COMM_WORLD_LOCAL_RANK=1",
          "MV2_COMM_WORLD_LOCAL_SIZE=2", "MPIRUN_RANK=1", "PMI_ID=1", "PMI_PORT=h:1");
    EXPECT(engine.mode == ENGINE_JOIN && engine.family == ENGINE_MVAPICH && engine.rank == 1 && engine.world_size == 2 &&
           engine.process == 50);
    EXPECT_TEXT(words(), "rank 1 of 2: MVAPICH's mpirun_rsh (MV2_COMM_WORLD_LOCAL_RANK)");
    EXPECT(engines_hides(&engine, "MV2_COMM_WORLD_RANK=1") && engines_hides(&engine, "PMI_ID=1"));
    BELOW("hydra_pmi_proxy", HYDRA, "MV2_COMM_WORLD_RANK=2", "MV2_COMM_WORLD_SIZE=3", "MV2_COMM_WORLD_LOCAL_RANK=2",
          "MV2_COMM_WORLD_LOCAL_SIZE=3");
    EXPECT(engine.family == ENGINE_HYDRA && !*engine.ignored);
    BELOW("palsd", "PALS_RANKID=1", "PALS_LOCAL_RANKID=1", "PALS_NODEID=0", "PMI_RANK=1", "PMI_SIZE=2", "PMI_LOCAL_RANK=1",
          "PMI_LOCAL_SIZE=2");
    EXPECT(engine.mode == ENGINE_JOIN && engine.family == ENGINE_PALS && engine.rank == 1 && engine.local_world_size == 2);
    BELOW("flux-shell\00012", "FLUX_TASK_RANK=3", "FLUX_JOB_SIZE=4", "FLUX_TASK_LOCAL_ID=3", "FLUX_JOB_NNODES=1", "PMI_RANK=3",
          "PMI_SIZE=4");
    EXPECT(engine.mode == ENGINE_JOIN && engine.family == ENGINE_FLUX && engine.rank == 3 && engine.local_world_size == 4);
    BELOW("flux-shell\00012", "FLUX_TASK_RANK=1", "FLUX_JOB_SIZE=2", "FLUX_TASK_LOCAL_ID=0", "FLUX_JOB_NNODES=2");
    EXPECT(engine.mode == ENGINE_NODE && engine.node_rank == 1 && engine.nodes == 2);
    BELOW("jsmd", "JSM_NAMESPACE_RANK=0", "JSM_NAMESPACE_SIZE=2", "JSM_NAMESPACE_LOCAL_RANK=0", "JSM_NAMESPACE_LOCAL_SIZE=2",
          "PMIX_RANK=0");
    EXPECT(engine.mode == ENGINE_JOIN && engine.family == ENGINE_JSM);
}

TEST("srun: a task of a step, on its host of the compressed lists") {
    BELOW("slurmstepd: [9.0]", SLURM);
    EXPECT(engine.mode == ENGINE_JOIN && engine.rank == 2 && engine.world_size == 4 && engine.local_world_size == 2 && engine.nodes == 2 &&
           engine.node_rank == 1);
    EXPECT_TEXT(engine.address, "n03");
    EXPECT_TEXT(engine.job, "9");
}

TEST("srun with one task on each host starts that host's ranks") {
    BELOW("slurmstepd: [9.0]", "SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=2", "SLURM_LOCALID=0", "SLURM_NODEID=1", "SLURM_STEP_NUM_NODES=2",
          "SLURM_STEP_TASKS_PER_NODE=1(x2)", "SLURM_STEP_NODELIST=a,b", "SLURM_JOB_ID=9");
    EXPECT(engine.mode == ENGINE_NODE && engine.nodes == 2 && engine.node_rank == 1);
    EXPECT_TEXT(engine.address, "a");
    EXPECT_TEXT(words(), "host 1 of 2: srun");
}

TEST("a batch script of Slurm is no task, whatever it says") {
    BELOW("slurmstepd: [9.batch]", SBATCH);
    EXPECT(engine.mode == ENGINE_SPAWN);
    EXPECT_TEXT(words(), "ignored: SLURM_PROCID=0, no task of a step");
}

TEST("variables that a shell has kept from another job do not count") {
    LEAKED(SLURM);
    EXPECT(engine.mode == ENGINE_SPAWN);
    EXPECT_TEXT(words(), "ignored: SLURM_PROCID=2, its launcher is not running above this process");
    LEAKED(TORCHRUN);
    EXPECT(engine.mode == ENGINE_SPAWN && strstr(words(), "RANK=3"));
}

TEST("a launcher without a known name counts: a program that has set the variables, or the settings of a container") {
    find(VARIABLES(TORCHRUN), (struct engine_process[]){ABOVE(50, "ray::worker", "A=1")}, 1);
    EXPECT(engine.mode == ENGINE_JOIN && engine.process == 0);
    find(VARIABLES(TORCHRUN), (struct engine_process[]){ABOVE(1, "bash", "RANK=3")}, 1);
    EXPECT(engine.mode == ENGINE_JOIN);
}

TEST("of nested launchers the nearest one decides, what is outside of it is said") {
    find(VARIABLES(TORCHRUN, SLURM), (struct engine_process[]){ABOVE(50, "python3\0torchrun", "A=1"), ABOVE(40, "slurmstepd:", "A=1")}, 2);
    EXPECT(engine.mode == ENGINE_JOIN && engine.process == 50);
    EXPECT_TEXT(words(), "rank 3 of 4: torchrun (LOCAL_RANK); ignored: SLURM_PROCID=2, outside of it (srun)");
    find(VARIABLES(TORCHRUN, SLURM), (struct engine_process[]){ABOVE(50, "slurmstepd:", "A=1"), ABOVE(40, "python3\0torchrun", "A=1")}, 2);
    EXPECT(engine.mode == ENGINE_JOIN && engine.family == ENGINE_SLURM && engine.process == 50);
    EXPECT_TEXT(words(), "rank 2 of 4: srun (SLURM_LOCALID); ignored: RANK=3, outside of it (torchrun)");
    find(
        VARIABLES(TORCHRUN, OPENMPI),
        (struct engine_process[]){ABOVE(50, "mpirun\0-n\0002", "RANK=3"), ABOVE(40, "sh", "RANK=3"), ABOVE(30, "python3\0torchrun", "A=1")},
        3);
    EXPECT(engine.mode == ENGINE_JOIN && engine.family == ENGINE_OPENMPI && engine.process == 50);
    find(VARIABLES(HYDRA, OPENMPI),
         (struct engine_process[]){ABOVE(50, "hydra_pmi_proxy", "A=1"), ABOVE(45, "mpirun.mpich", "A=1"),
                                   ABOVE(40, "mpirun.openmpi", "A=1")},
         3);
    EXPECT(engine.family == ENGINE_HYDRA && engine.process == 50);
    find(VARIABLES(HYDRA, OPENMPI), (struct engine_process[]){ABOVE(50, "mpirun", "A=1"), ABOVE(40, "hydra_pmi_proxy", "A=1")}, 2);
    EXPECT(engine.family == ENGINE_OPENMPI && engine.process == 50);
    /* the batch script's variables below mpirun */
    BELOW("mpirun", OPENMPI, SBATCH);
    EXPECT(engine.mode == ENGINE_JOIN && engine.family == ENGINE_OPENMPI);
    EXPECT(strstr(words(), "SLURM_PROCID=0, no task of a step"));
    /* RANK and LOCAL_RANK made from Slurm's by the user's script */
    BELOW("slurmstepd:", SLURM, "RANK=2", "LOCAL_RANK=0", "WORLD_SIZE=4");
    EXPECT(engine.mode == ENGINE_JOIN && engine.family == ENGINE_SLURM);
}

TEST("a launcher of one process, or one that cannot be seen, does not hide the one outside of it") {
    find(VARIABLES(SLURM, "RANK=0", "WORLD_SIZE=1", "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1"),
         (struct engine_process[]){ABOVE(50, "python3\0torchrun", "A=1"), ABOVE(40, "slurmstepd:", "A=1")}, 2);
    EXPECT(engine.family == ENGINE_SLURM && engine.process == 40);
    EXPECT(strstr(words(), "RANK=0, only one process"));
    BELOW("python3\0torchrun", TORCHRUN, "PET_NNODES=2", "PET_NPROC_PER_NODE=4", "PET_NODE_RANK=1", "PET_MASTER_ADDR=m");
    EXPECT(engine.family == ENGINE_TORCHRUN && strstr(words(), "PET_NODE_RANK=1, outside of it (the variables PET_*)"));
    find(VARIABLES(TORCHRUN, OPENMPI), NULL, 0);
    EXPECT(engine.family == ENGINE_TORCHRUN);
}

TEST("one process alone is nobody's rank") {
    BELOW("python3\0torchrun", "RANK=0", "WORLD_SIZE=1", "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1");
    EXPECT(engine.mode == ENGINE_SPAWN);
    EXPECT_TEXT(words(), "ignored: RANK=0, only one process");
}

TEST("Kubeflow's trainer: PET_*, how many ranks on which host") {
    LEAKED("PET_NNODES=2", "PET_NPROC_PER_NODE=4", "PET_NODE_RANK=1", "PET_MASTER_ADDR=t-node-0-0.t", "PET_MASTER_PORT=29400");
    EXPECT(engine.mode == ENGINE_NODE && engine.nodes == 2 && engine.node_rank == 1 && engine.ranks_here == 4 && engine.port == 29400);
    EXPECT_TEXT(engine.address, "t-node-0-0.t");
    LEAKED("PET_NNODES=1", "PET_NPROC_PER_NODE=2");
    EXPECT(engine.mode == ENGINE_NODE && engine.nodes == 1 && engine.ranks_here == 2);
    LEAKED("PET_NPROC_PER_NODE=gpu");
    EXPECT(settle("2", NULL, "auto") == 0 && config.ranks == 2);
    EXPECT(settle(NULL, NULL, "auto") == -1 && strstr(problem.what, "no number"));
    LEAKED("PET_NPROC_PER_NODE=auto");
    EXPECT(settle("2", NULL, "auto") == 0 && config.ranks == 2 && !config.ranks_are_cores);
    EXPECT(settle(NULL, NULL, "auto") == 0 && config.ranks_are_cores && config.origin[CONFIG_ID_ranks] == CONFIG_FROM_LAUNCHER);
    LEAKED("PET_NNODES=1:4", "PET_NODE_RANK=0", "PET_NPROC_PER_NODE=2");
    EXPECT(engine.mode == ENGINE_SPAWN && strstr(words(), "do not fit"));
}

TEST("a pod's RANK without LOCAL_RANK is the host's number") {
    LEAKED("RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=m", "MASTER_PORT=23456");
    EXPECT(engine.mode == ENGINE_NODE && engine.nodes == 2 && engine.node_rank == 1);
    LEAKED("RANK=0", "WORLD_SIZE=1", "MASTER_ADDR=m");
    EXPECT(engine.mode == ENGINE_SPAWN);
}

static void refused(const char *why) {
    EXPECT(settle(NULL, NULL, "auto") == -1 && strstr(problem.what, why));
    EXPECT_TEXT(problem.id, "AR-ENGINE-HOSTS");
    EXPECT(settle("2", NULL, "auto") == -1);
    EXPECT(settle("2", "1", "auto") == 0 && config.nnodes == 1);
}

TEST("what would let each of several pods train by itself is refused, unless the user says how many hosts, or --engine none") {
    LEAKED("RANK=3", "WORLD_SIZE=8");
    refused("this is host 3 of 8 (RANK), and where the first one is, is not known");
    EXPECT(settle(NULL, NULL, "none") == 0 && engine.mode == ENGINE_SPAWN);
    LEAKED("RANK=8", "WORLD_SIZE=8", "MASTER_ADDR=m");
    refused("do not fit");
    LEAKED("PET_NNODES=2", "PET_NODE_RANK=0");
    refused("this is host 0 of 2 (PET_NODE_RANK)");
    LEAKED("PET_NNODES=2", "PET_MASTER_ADDR=m");
    refused("which host this is, is missing");
    LEAKED("JOB_COMPLETION_INDEX=0");
    refused("this is process 0 of an indexed job (JOB_COMPLETION_INDEX)");
    LEAKED("RANK=3", "WORLD_SIZE=8");
    config_defaults(&config);
    config.master_addr = "first";
    config.origin[CONFIG_ID_master_addr] = CONFIG_FROM_COMMAND_LINE;
    EXPECT(engines_settle(&engine, &config, &problem) == 0 && config.nnodes == 8 && config.node_rank == 3);
    BELOW("python3\0torchrun", "RANK=1", "WORLD_SIZE=4", "LOCAL_RANK=1");
    EXPECT(settle("2", NULL, "auto") == -1 && strstr(problem.what, "RANK=1, the variables that belong to it do not fit"));
}

TEST("launchers that number their processes and say no more are refused: each would train alone") {
    BELOW("prted", "PMIX_RANK=1", "PMIX_NAMESPACE=prterun-1");
    refused("PMIX_RANK=1, how many ranks there are on which host is not in the environment");
    EXPECT(settle("2", NULL, "none") == 0 && engine.mode == ENGINE_SPAWN);
    BELOW("hydra_pmi_proxy", "PMI_RANK=0", "PMI_SIZE=2"); /* of something else that speaks PMI */
    refused("PMI_RANK=0, how many");
    BELOW("aprun", "ALPS_APP_PE=0");
    refused("ALPS_APP_PE=0, how many");
    BELOW("res", "LSF_PM_TASKID=1"); /* whoever has set it, a shell has not */
    refused("LSF_PM_TASKID=1, how many");
    BELOW("python3\0horovodrun", "HOROVOD_RANK=1", "HOROVOD_SIZE=2", "HOROVOD_LOCAL_RANK=1", "HOROVOD_LOCAL_SIZE=2");
    refused("HOROVOD_RANK=1, how many");
    BELOW("flux-shell", "FLUX_TASK_RANK=1", "FLUX_JOB_SIZE=8", "FLUX_TASK_LOCAL_ID=1", "FLUX_JOB_NNODES=2"); /* how many are here? */
    refused("FLUX_TASK_RANK=1, the variables that belong to it do not fit");
    BELOW("hydra_pmi_proxy", "PMI_RANK=0", "PMI_SIZE=1");
    EXPECT(settle("2", NULL, "auto") == 0 && strstr(words(), "only one process"));
    /* where another one decides, it is not in the way */
    BELOW("slurmstepd: [9.0]", SLURM, "PMIX_RANK=2");
    EXPECT(engine.family == ENGINE_SLURM && engine.mode == ENGINE_JOIN && !engine.is_unclear);
}

TEST("left-overs are not refused: shells inside of jobs, a world of one, half a set") {
    const char *kept[][8] = {{"SLURM_PROCID=0", "SLURM_NTASKS=4", "SLURM_LOCALID=0", "SLURM_NODEID=0", "SLURM_JOB_ID=9"}, /* salloc */
                             {"RANK=0", "WORLD_SIZE=1"},
                             {"WORLD_SIZE=8", "MASTER_ADDR=m"},
                             {"RANK=3"},
                             {"RANK=x", "WORLD_SIZE=8"},
                             {"RANK=1", "WORLD_SIZE=4", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=4", "MASTER_ADDR=m"},
                             {"RANK=1", "WORLD_SIZE=4", "LOCAL_RANK=1"},
                             {"PMI_RANK=0", "PMI_SIZE=2"},
                             {"PMIX_RANK=0", "PMIX_NAMESPACE=1"},
                             {"FLUX_JOB_ID=f1", "FLUX_TASK_RANK=1", "FLUX_JOB_SIZE=2", "FLUX_TASK_LOCAL_ID=1", "FLUX_JOB_NNODES=1"},
                             {"ALPS_APP_PE=1"}};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        find((char **)(uintptr_t)kept[i], (struct engine_process[]){ABOVE(40, "bash", "A=1")}, 1);
        EXPECT(settle(NULL, NULL, "auto") == 0 && engine.mode == ENGINE_SPAWN && *words());
    }
    /* salloc's shell is a step of one task of its own (use_interactive_step) */
    BELOW("slurmstepd: [9.interactive]", "SLURM_PROCID=0", "SLURM_NTASKS=4", "SLURM_LOCALID=0", "SLURM_NODEID=0", "SLURM_STEP_NUM_TASKS=1",
          "SLURM_STEP_TASKS_PER_NODE=1", "SLURM_STEP_NUM_NODES=1", "SRUN_COMM_HOST=h");
    EXPECT(settle("2", NULL, "auto") == 0 && engine.mode == ENGINE_SPAWN && strstr(words(), "only one process"));
}

TEST("an indexed job does not say how many there are; others are left alone") {
    LEAKED("JOB_COMPLETION_INDEX=2");
    EXPECT(settle("2", "1", "auto") == 0 && engine.mode == ENGINE_SPAWN && strstr(words(), "JOB_COMPLETION_INDEX=2, one host"));
    LEAKED("JOB_COMPLETION_INDEX=2");
    EXPECT(settle("2", "3", "auto") == 0 && config.node_rank == 2 && config.nnodes == 3);
    LEAKED("DMLC_ROLE=worker", "DMLC_NUM_WORKER=4", "OMPI_MCA_orte_default_hostfile=/etc/mpi/hostfile", "K_MPI_JOB_ROLE=launcher");
    EXPECT(engine.mode == ENGINE_SPAWN);
    EXPECT_TEXT(words(), "");
}

TEST("nonsense in the variables is not followed") {
    BELOW("python3\0torchrun", "RANK=4", "WORLD_SIZE=4", "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=4");
    EXPECT(engine.mode == ENGINE_SPAWN);
    BELOW("python3\0torchrun", "RANK=x", "WORLD_SIZE=99999999999", "LOCAL_RANK=-1", "LOCAL_WORLD_SIZE=4");
    EXPECT(engine.mode == ENGINE_SPAWN);
}

TEST("-n must be what the launcher has started, and need not be said") {
    BELOW("hydra_pmi_proxy", HYDRA);
    EXPECT(settle(NULL, NULL, "auto") == 0 && config.ranks == 3);
    EXPECT(settle("3", NULL, "auto") == 0);
    EXPECT(settle("2", NULL, "auto") == -1);
    EXPECT_TEXT(problem.id, "AR-ENGINE-RANKS");
    EXPECT(settle("2", NULL, "none") == 0 && config.ranks == 2 && engine.mode == ENGINE_SPAWN);
    EXPECT(settle(NULL, NULL, "x") == -1);
    EXPECT_TEXT(problem.id, "AR-OPTION-VALUE");
    LEAKED("PET_NNODES=1", "PET_NPROC_PER_NODE=2");
    EXPECT(settle(NULL, NULL, "auto") == 0 && config.ranks == 2);
    EXPECT(settle("3", NULL, "auto") == 0 && config.ranks == 3);
}

TEST("one process on each host: what the launcher says of the hosts, unless the user says it") {
    LEAKED("PET_NNODES=2", "PET_NPROC_PER_NODE=4", "PET_NODE_RANK=1", "PET_MASTER_ADDR=t-0", "PET_MASTER_PORT=29400");
    EXPECT(settle(NULL, NULL, "auto") == 0 && config.ranks == 4 && config.nnodes == 2 && config.node_rank == 1 &&
           config.master_port == 29400);
    EXPECT_TEXT(config.master_addr, "t-0");
    EXPECT(settle("3", NULL, "auto") == 0 && config.ranks == 3 && config.nnodes == 2);
    EXPECT(settle(NULL, "1", "auto") == 0 && config.nnodes == 1 && config.node_rank == 0);
}

TEST("several processes on each of several hosts: the first one of a host starts the host's ranks, the others stand by") {
    BELOW("slurmstepd:", SLURM);
    EXPECT(engine.mode == ENGINE_JOIN && settle(NULL, NULL, "auto") == 0);
    EXPECT(config.ranks == engine.local_world_size && config.nnodes == engine.nodes && config.node_rank == engine.node_rank);
    EXPECT(engine.mode == (engine.local_rank ? ENGINE_STAND : ENGINE_NODE) && engine.company == engine.local_world_size - 1);
    BELOW("torchrun", "RANK=2", "WORLD_SIZE=4", "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=2", "GROUP_RANK=1", "GROUP_WORLD_SIZE=2", "MASTER_ADDR=a",
          "MASTER_PORT=29500");
    EXPECT(settle("4", NULL, "auto") == 0 && engine.mode == ENGINE_NODE && config.ranks == 2 && config.node_rank == 1);
    EXPECT(config.master_port == 29501); /* 29500 is torchrun's */
    BELOW("torchrun", "RANK=3", "WORLD_SIZE=4", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2", "GROUP_RANK=1", "GROUP_WORLD_SIZE=2", "MASTER_ADDR=a",
          "MASTER_PORT=29500");
    EXPECT(settle(NULL, NULL, "auto") == 0 && engine.mode == ENGINE_STAND && config.nnodes == 2);
    BELOW("mpirun", "OMPI_COMM_WORLD_RANK=2", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_RANK=0", "OMPI_COMM_WORLD_LOCAL_SIZE=2");
    EXPECT(settle(NULL, NULL, "auto") == -1);
    EXPECT_TEXT(problem.id, "AR-ENGINE-HOSTS");
}

static int settle_spread(const char *ranks, const char *nodes, bool are_total) {
    char fault[CONFIG_FAULT_CHARS];
    BELOW("torchrun", "RANK=3", "WORLD_SIZE=4", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2", "GROUP_RANK=1", "GROUP_WORLD_SIZE=2",
          "MASTER_ADDR=a");
    config_defaults(&config);
    config_set(&config, CONFIG_ID_ranks, ranks, CONFIG_FROM_COMMAND_LINE, "-n", fault);
    if (nodes)
        config_set(&config, CONFIG_ID_nnodes, nodes, CONFIG_FROM_COMMAND_LINE, "--nnodes", fault);
    config.ranks_are_total = are_total;
    int status = engines_settle(&engine, &config, &problem);
    return status ? -1 : config.ranks == 2 && !config.ranks_are_total ? 1 : 0;
}

TEST("on several hosts -n is the number of one host, or of all where --nnodes does not stand beside it") {
    EXPECT(settle_spread("2", NULL, false) == 1 && settle_spread("2", "2", false) == 1 && settle_spread("4", NULL, false) == 1);
    EXPECT(settle_spread("4", NULL, true) == 1 && settle_spread("4", "2", true) == 1);
    EXPECT(settle_spread("2", NULL, true) == -1 && settle_spread("4", "2", false) == -1 && settle_spread("3", NULL, false) == -1);
    EXPECT_TEXT(problem.id, "AR-ENGINE-RANKS");
    EXPECT_TEXT(problem.what, "-n 3, but torchrun has started 2 processes on this host, 4 on all 2");
    EXPECT(!strstr(problem.cure, "--engine none")); /* each of them would be a job of its own */
    EXPECT(settle_spread("2", "3", false) == -1 && strstr(problem.what, "--nnodes 3, but torchrun has started processes on 2 hosts"));
}

TEST("a rank sees no variable of the launcher that it belongs to; Slurm's job stays") {
    BELOW("slurmstepd:", SLURM);
    EXPECT(engines_hides(&engine, "SLURM_PROCID=2") && !engines_hides(&engine, "SLURM_JOB_ID=9") && engines_hides(&engine, "PMIX_RANK=0"));
    LEAKED("HOME=/");
    EXPECT(!engines_hides(&engine, "SLURM_PROCID=2") && engines_hides(&engine, "RANK=1") && engines_hides(NULL, "SLURM_PROCID=2"));
    EXPECT(!engines_hides(&engine, "RANKS=1") && !engines_hides(&engine, "MY_RANK=1") && !engines_hides(&engine, "PMIX=1"));
}

TEST("Slurm's compressed lists") {
    char host[64];
    EXPECT(engines_tasks_of("2(x3),1", 2) == 2 && engines_tasks_of("2(x3),1", 3) == 1 && engines_tasks_of("2(x3),1", 4) == 0);
    EXPECT(engines_tasks_of("4", 0) == 4 && engines_tasks_of("", 0) == 0 && engines_tasks_of("x", 0) == 0);
    engines_first_host("node[03-05,7],x", host, sizeof host);
    EXPECT_TEXT(host, "node03");
    engines_first_host("r[1-2]n[5,9]-ib,z", host, sizeof host);
    EXPECT_TEXT(host, "r1n5-ib");
    engines_first_host("n[1", host, sizeof host);
    EXPECT_TEXT(host, "n1");
    engines_first_host("plain", host, sizeof host);
    EXPECT_TEXT(host, "plain");
}
