// sources: launcher/engines/above.c launcher/engines/engines.c launcher/engines/engines_settle.c launcher/problem.c config/*.c
#include "engines.h"

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
    EXPECT_TEXT(engine.job, "9.0");
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

TEST("nonsense in the variables is not followed") {
    BELOW("python3\0torchrun", "RANK=4", "WORLD_SIZE=4", "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=4");
    EXPECT(engine.mode == ENGINE_SPAWN);
    BELOW("python3\0torchrun", "RANK=x", "WORLD_SIZE=99999999999", "LOCAL_RANK=-1", "LOCAL_WORLD_SIZE=4");
    EXPECT(engine.mode == ENGINE_SPAWN);
}

TEST("a rank sees no variable of the launcher that it belongs to; Slurm's job stays") {
    BELOW("slurmstepd:", SLURM);
    EXPECT(engines_hides(&engine, "SLURM_PROCID=2") && !engines_hides(&engine, "SLURM_JOB_ID=9") && engines_hides(&engine, "PMIX_RANK=0"));
    LEAKED("HOME=/");
    EXPECT(!engines_hides(&engine, "SLURM_PROCID=2") && engines_hides(&engine, "RANK=1") && engines_hides(NULL, "SLURM_PROCID=2"));
    EXPECT(!engines_hides(&engine, "OMPI_MCA_plm=isolated") && engines_hides(&engine, "OMPI_MCA_ess=^singleton"));
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
