// sources: launcher/plan.c launcher/placement/placement.c launcher/placement/cpus.c launcher/environ.c launcher/engines/above.c launcher/engines/engines.c launcher/engines/engines_settle.c launcher/problem.c launcher/placement/topology.c launcher/placement/cgroup.c launcher/placement/system_file.c config/*.c
#define _GNU_SOURCE
#include "unit.h"

#include "../../launcher/environ.h"
#include "../../launcher/plan.h"

static struct config config;
static struct target target = {.path = "/bin/p", .shim = "/lib/shim.so"};
static struct plan plan;
static struct problem problem;

static int build(uint32_t ranks, uint32_t cores, char **environment) {
    static char *arguments[] = {"p", "x", NULL};
    struct plan_facts facts = {&config, &target, arguments, environment, cores, NULL, NULL, 0};
    config_defaults(&config);
    config.ranks = ranks;
    return plan_build(&plan, &facts, &problem);
}
#define BUILD(ranks, cores, ...) build(ranks, cores, (char *[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

static const char *added(const char *name) {
    for (uint32_t i = 0; i < plan.added_count; i++)
        if (!strcmp(plan.added[i].name, name))
            return plan.added[i].value;
    return NULL;
}

TEST("cores are divided by ranks, at least one thread") {
    EXPECT(BUILD(2, 8) == 0 && plan.threads == 4);
    EXPECT_TEXT(added("OMP_NUM_THREADS"), "4");
    EXPECT_TEXT(added("MKL_NUM_THREADS"), "4");
    EXPECT_TEXT(added("OPENBLAS_NUM_THREADS"), "4");
    plan_clear(&plan);
    EXPECT(BUILD(3, 8) == 0 && plan.threads == 2);
    plan_clear(&plan);
    EXPECT(BUILD(8, 2) == 0 && plan.threads == 1);
    plan_clear(&plan);
}

TEST("the user's threads stay, one rank is left alone") {
    EXPECT(BUILD(2, 8, "OMP_NUM_THREADS=3") == 0 && !plan.threads && !added("OMP_NUM_THREADS") && !added("MKL_NUM_THREADS"));
    plan_clear(&plan);
    EXPECT(BUILD(2, 8, "MKL_NUM_THREADS=3") == 0 && added("OMP_NUM_THREADS") && !added("MKL_NUM_THREADS"));
    plan_clear(&plan);
    EXPECT(BUILD(1, 8) == 0 && plan.added_count == 0);
    plan_clear(&plan);
}

TEST("torch.compile is off with several ranks, unless the user said") {
    EXPECT(BUILD(2, 2) == 0);
    EXPECT_TEXT(added("TORCH_COMPILE_DISABLE"), "1");
    EXPECT(!added("ACCELERATE_USE_CPU"));
    plan_clear(&plan);
    EXPECT(BUILD(2, 2, "TORCH_COMPILE_DISABLE=0") == 0 && !added("TORCH_COMPILE_DISABLE"));
    plan_clear(&plan);
}

TEST("preload: sanitizer, shim, the user's") {
    EXPECT(BUILD(2, 2) == 0);
    EXPECT_TEXT(plan.preload, "/lib/shim.so");
    plan_clear(&plan);
    EXPECT(BUILD(2, 2, "LD_PRELOAD=a b:c") == 0);
    EXPECT_TEXT(plan.preload, "/lib/shim.so:a b:c");
    plan_clear(&plan);
    strcpy(target.sanitizer, "libasan.so.8");
    EXPECT(BUILD(2, 2, "LD_PRELOAD=a") == 0);
    EXPECT_TEXT(plan.preload, "libasan.so.8:/lib/shim.so:a");
    plan_clear(&plan);
}

TEST("what the address sanitizer takes for wrong in the shim is not asked for, unless the user asks") {
    EXPECT(BUILD(2, 2) == 0 && !added("ASAN_OPTIONS"));
    plan_clear(&plan);
    strcpy(target.checks, "address");
    EXPECT(BUILD(2, 2) == 0);
    EXPECT_TEXT(added("ASAN_OPTIONS"), "alloc_dealloc_mismatch=0");
    plan_clear(&plan);
    EXPECT(BUILD(2, 2, "ASAN_OPTIONS=detect_leaks=0") == 0);
    EXPECT_TEXT(added("ASAN_OPTIONS"), "alloc_dealloc_mismatch=0:detect_leaks=0");
    plan_clear(&plan);
    strcpy(target.checks, "");
}

TEST("another launcher's variables are removed, and only those") {
    EXPECT(BUILD(2, 2, "RANK=1", "RANKING=2", "PMI_SIZE=3", "OMPI_X=4", "MASTER_ADDR=h", "HOME=/") == 0);
    EXPECT(plan.removed_count == 4);
    plan_clear(&plan);
}

TEST("a world of one that no launcher has made is left to a program that asks for it") {
    EXPECT(BUILD(2, 2, "RANK=0", "WORLD_SIZE=1", "MASTER_ADDR=h", "MASTER_PORT=5", "LOCAL_RANK=0", "GROUP_RANK=0") == 0 &&
           plan.removed_count == 1);
    plan_clear(&plan);
    EXPECT(BUILD(2, 2, "RANK=0", "WORLD_SIZE=1", "MASTER_ADDR=h", "TORCHELASTIC_RUN_ID=1") == 0 && plan.removed_count == 4);
    plan_clear(&plan);
    EXPECT(BUILD(2, 2, "RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=h") == 0 && plan.removed_count == 3);
    plan_clear(&plan);
}

static const char *advice(uint32_t ranks, uint32_t cores, char *const *environment) {
    static struct problem list[PLAN_ADVICE_MAX];
    memset(list, 0, sizeof list);
    return plan_advice(&config, environment, ranks, cores, list) ? list[0].what : "";
}
#define ADVICE(ranks, cores, ...) advice(ranks, cores, (char *[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

TEST("threads that the user asks for, times the ranks, are warned of when they are more than the cores; so is what binds all ranks alike") {
    config_defaults(&config);
    EXPECT_TEXT(ADVICE(4, 8, "OMP_NUM_THREADS=8"), "4 ranks of 8 threads share 8 cores: they will wait for each other");
    EXPECT_TEXT(ADVICE(4, 8, "OMP_NUM_THREADS=2"), "");
    EXPECT_TEXT(ADVICE(4, 8, "OMP_NUM_THREADS="), "");
    EXPECT_TEXT(ADVICE(4, 8, "OMP_NUM_THREADS=-1"), "");
    EXPECT_TEXT(ADVICE(1, 8, "OMP_NUM_THREADS=9", "OMP_PROC_BIND=true"), "");
    EXPECT_TEXT(ADVICE(9, 8, "OMP_NUM_THREADS=8"), "9 ranks share 8 cores: they will wait for each other");
    EXPECT_TEXT(ADVICE(4, 8, "OMP_PLACES=cores"), "OMP_PLACES binds the threads of all 4 ranks to the same cores");
    EXPECT_TEXT(ADVICE(4, 8, "OMP_PLACES=cores", "OMP_PROC_BIND=FALSE"), "");
    EXPECT_TEXT(ADVICE(4, UINT32_MAX, "OMP_PROC_BIND=close"), "");
    config.bind = CONFIG_BIND_CORE;
    EXPECT_TEXT(ADVICE(4, 8, "OMP_PROC_BIND=close"), "");
    config_defaults(&config);
    config.threads = 8;
    EXPECT_TEXT(ADVICE(2, 8), "2 ranks of 8 threads share 8 cores: they will wait for each other");
}

TEST("a launch inside a launch is refused") {
    EXPECT(BUILD(2, 2, "ACCEL_RUN_SOCKET=x") == -1 && problem.exit_code == 125);
    EXPECT_TEXT(problem.id, "AR-NESTED");
}

TEST("the plan prints itself") {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    EXPECT(BUILD(2, 2, "RANK=1") == 0);
    plan_print(&plan, out);
    fclose(out);
    EXPECT(strstr(text, "ranks               2\n") != NULL);
    EXPECT(strstr(text, "environment removed RANK\n") != NULL);
    free(text);
    plan_clear(&plan);
}
