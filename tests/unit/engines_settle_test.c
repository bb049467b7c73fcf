// sources: launcher/engines/above.c launcher/engines/engines.c launcher/engines/engines_settle.c launcher/problem.c config/*.c
/* What follows from the launcher that was found, and what the user has asked for. */
#include "../../config/file.h"
#include "engines.h"

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

#define ONE_TASK "SLURM_PROCID=0", "SLURM_LOCALID=0", "SLURM_NTASKS=1", "SLURM_STEP_NUM_TASKS=1", "SLURM_STEP_TASKS_PER_NODE=1"

TEST("the number that PMIx gives to the one task of a step is no reason to refuse; one that mpirun gives below it is") {
    BELOW("slurmstepd: [9.0]", ONE_TASK, "PMIX_RANK=0");
    EXPECT(settle("4", NULL, "auto") == 0 && engine.mode == ENGINE_SPAWN && config.ranks == 4 && strstr(words(), "only one process"));
    find(VARIABLES(ONE_TASK, "PMIX_RANK=1"),
         (struct engine_process[]){ABOVE(60, "prted", "A=1"), ABOVE(50, "slurmstepd: [9.0]", "A=1"), ABOVE(40, "bash", "A=1")}, 3);
    refused("PMIX_RANK=1, how many ranks");
}

#define FOUR_TASKS                                                                                                                         \
    "SLURM_PROCID=0", "SLURM_NTASKS=4", "SLURM_LOCALID=0", "SLURM_STEP_NUM_TASKS=4", "SLURM_STEP_TASKS_PER_NODE=4", "SLURM_PTY_WIN_COL=80"

static enum engine_mode below_shell(const char *line, size_t bytes) {
    struct engine_process above[] = {
        {.pid = 60, .started = 7, .words = line, .words_bytes = bytes, .environment = "A=1", .environment_bytes = 4},
        ABOVE(50, "slurmstepd: [9.0]", "A=1"),
        ABOVE(40, "bash", "A=1")};
    has_terminal = true;
    find(VARIABLES(FOUR_TASKS), above, 3);
    has_terminal = false;
    return engine.mode;
}

TEST("in the shell of srun -n 4 --pty there are no other tasks to wait for; in a script that it starts there are") {
    EXPECT(below_shell("bash", sizeof "bash") == ENGINE_SPAWN && strstr(words(), "is not running above"));
    EXPECT(below_shell("/bin/bash\0--login\0-i", sizeof "/bin/bash\0--login\0-i") == ENGINE_SPAWN);
    EXPECT(below_shell("bash\0train.sh", sizeof "bash\0train.sh") == ENGINE_JOIN);
    EXPECT(below_shell("bash\0-c\0accel-run train", sizeof "bash\0-c\0accel-run train") == ENGINE_JOIN);
    BELOW("slurmstepd: [9.0]", FOUR_TASKS);
    EXPECT(engine.mode == ENGINE_JOIN);
    find(VARIABLES(FOUR_TASKS), (struct engine_process[]){ABOVE(60, "bash", "A=1"), ABOVE(50, "slurmstepd: [9.0]", "A=1")},
         2); /* srun -n 4 bash <script */
    EXPECT(engine.mode == ENGINE_JOIN);
}

TEST("the number of ranks that a settings file keeps gives way to what a launcher has started, and that is said; -n does not") {
    char fault[CONFIG_FAULT_CHARS];
    BELOW("hydra_pmi_proxy", HYDRA);
    config_defaults(&config);
    config_set(&config, CONFIG_ID_ranks, "8", CONFIG_FROM_FILE, "ranks", fault);
    EXPECT(engines_settle(&engine, &config, &problem) == 0 && config.ranks == 3 && engine.mode == ENGINE_JOIN);
    EXPECT(strstr(words(), "ignored: ranks=8, which the settings file says"));
    EXPECT(settle("8", NULL, "auto") == -1);
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

TEST("more hosts or ranks than there can be are refused, whatever variable says so; the user's word counts where there is one") {
    LEAKED("PET_NNODES=1", "PET_NPROC_PER_NODE=300");
    EXPECT(settle(NULL, NULL, "auto") == -1 && strstr(problem.what, "the variables PET_*: 300 ranks on this host; 256 are the most"));
    EXPECT_TEXT(problem.id, "AR-ENGINE-RANKS");
    EXPECT(settle("2", NULL, "auto") == 0 && config.ranks == 2);
    LEAKED("RANK=3", "WORLD_SIZE=999999999", "MASTER_ADDR=m");
    EXPECT(settle(NULL, NULL, "auto") == -1 && strstr(problem.what, "999999999 hosts; 256 ranks are the most"));
    EXPECT(settle(NULL, "4", "auto") == 0 && config.nnodes == 4);
    BELOW("torchrun", "RANK=3", "WORLD_SIZE=4", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2", "GROUP_RANK=1", "GROUP_WORLD_SIZE=257",
          "MASTER_ADDR=a");
    EXPECT(settle(NULL, NULL, "auto") == -1 && strstr(problem.what, "torchrun: 257 hosts"));
}

TEST("-n must be what the launcher has started, and need not be said") {
    BELOW("hydra_pmi_proxy", HYDRA);
    EXPECT(settle(NULL, NULL, "auto") == 0 && config.ranks == 3);
    EXPECT(settle("3", NULL, "auto") == 0);
    EXPECT(settle("2", NULL, "auto") == -1);
    EXPECT_TEXT(problem.id, "AR-ENGINE-RANKS");
    EXPECT(settle("2", NULL, "none") == 0 && config.ranks == 2 && engine.mode == ENGINE_SPAWN);
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

/* The number that the host has by a file, with a launcher's 1 of 2 above. */
static uint32_t node_of_file(const char *text) {
    static struct config_notes notes;
    static struct foreign foreign;
    struct yaml yaml;
    char fault[CONFIG_FAULT_CHARS] = "";
    BELOW("slurmstepd:", SLURM);
    config_defaults(&config);
    foreign.count = 0;
    EXPECT(yaml_read(&yaml, text, strlen(text), fault) == 0);
    EXPECT(config_read_file(&config, &yaml, "file", &foreign, &notes, fault) == 0);
    EXPECT(engines_settle(&engine, &config, &problem) == 0);
    yaml_clear(&yaml);
    return config.node_rank;
}

TEST("machine_rank of a file that all hosts may share does not make each of them the first; a number that the user has said himself "
     "counts") {
    EXPECT(node_of_file("num_machines: 2\nmachine_rank: 0\n") == 1 && config.origin[CONFIG_ID_node_rank] == CONFIG_FROM_LAUNCHER);
    EXPECT(node_of_file("machine_rank: 0\n") == 1);
    EXPECT(node_of_file("nnodes: 2\nnode_rank: 0\n") == 0);
    config_defaults(&config);
    LEAKED("JOB_COMPLETION_INDEX=2");
    config.nnodes = 3;
    config.origin[CONFIG_ID_nnodes] = config.origin[CONFIG_ID_node_rank] = CONFIG_FROM_FILE;
    config.node_rank_is_theirs = true;
    EXPECT(engines_settle(&engine, &config, &problem) == 0 && config.node_rank == 2);
}
