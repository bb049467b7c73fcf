// sources: launcher/engines/join.c launcher/secret.c launcher/segment.c launcher/streams/logs.c launcher/plan.c launcher/placement/placement.c launcher/placement/cpus.c launcher/placement/topology.c launcher/placement/cgroup.c launcher/placement/system_file.c launcher/engines/above.c launcher/engines/engines.c launcher/engines/engines_settle.c launcher/problem.c config/*.c
#include "unit.h"

#include <sys/resource.h>

#include "../../launcher/engines/join.h"

static struct rendezvous_hello hellos[3];

/* A rank that may run on the processors `list` and has so many cores. */
static void rank(uint32_t number, const char *list, uint32_t cores) {
    cpus_read(&hellos[number].cpus, list);
    hellos[number].cores = cores;
}

TEST("ranks that may use the same cores share them, at least one each") {
    rank(0, "0-7", 8);
    rank(1, "0-7", 8);
    EXPECT(join_share(hellos, 2, 0) == 4 && join_share(hellos, 2, 1) == 4 && join_cores(hellos, 2) == 8);
    rank(2, "0-7", 8);
    EXPECT(join_share(hellos, 3, 0) == 2 && join_cores(hellos, 3) == 8);
    for (uint32_t i = 0; i < 3; i++)
        rank(i, "0", 1);
    EXPECT(join_share(hellos, 3, 2) == 1 && join_cores(hellos, 3) == 1);
}

TEST("ranks that the launcher has bound have their own, and the job has all of them") {
    rank(0, "0-1", 2);
    rank(1, "2-5", 4);
    EXPECT(join_share(hellos, 2, 0) == 2 && join_share(hellos, 2, 1) == 4 && join_cores(hellos, 2) == 6);
}

TEST("hardware threads are no cores, and a quota counts") {
    rank(0, "0-7", 4);
    rank(1, "0-7", 4);
    EXPECT(join_share(hellos, 2, 0) == 2 && join_cores(hellos, 2) == 4);
}

TEST("a limit of file size that the ranks' memory does not fit into is said, and nobody dies of it") {
    struct rlimit limit = {1 << 20, RLIM_INFINITY};
    struct config config;
    struct engine engine = {.world_size = 2};
    struct problem problem = {0};
    struct join join;
    config_defaults(&config);
    setrlimit(RLIMIT_FSIZE, &limit);
    EXPECT(join_make(&join, &config, &engine, "train", hellos, &problem) == -1);
    EXPECT_TEXT(problem.id, "AR-SEGMENT");
    EXPECT(strstr(problem.what, "File too large") != NULL);
    join_clear(&join);
}
