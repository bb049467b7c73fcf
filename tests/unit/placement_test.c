// sources: launcher/placement/placement.c launcher/placement/topology.c launcher/placement/cpus.c launcher/placement/cgroup.c launcher/placement/system_file.c config/*.c
#define _GNU_SOURCE
#include "unit.h"

#include <sched.h>
#include <sys/stat.h>

#include "../../launcher/placement/cgroup.h"
#include "../../launcher/placement/placement.h"

/* ---- folders that stand for "/" */

static char root[64];

static void put(const char *path, const char *text) {
    char full[512];
    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *slash = full + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        mkdir(full, 0777);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    fputs(text, file);
    fclose(file);
}

#define CPU "/sys/devices/system/cpu/cpu"
#define PUT(number, file, text)                                                                                                            \
    do {                                                                                                                                   \
        char path_[128], text_[64];                                                                                                        \
        snprintf(path_, sizeof path_, CPU "%d/" file, number);                                                                             \
        snprintf(text_, sizeof text_, "%s\n", text);                                                                                       \
        put(path_, text_);                                                                                                                 \
    } while (0)

static void begin(const char *online, const char *allowed) {
    char status[256];
    strcpy(root, "/tmp/accel-placement-XXXXXX");
    EXPECT(mkdtemp(root) != NULL);
    put("/sys/devices/system/cpu/online", online);
    snprintf(status, sizeof status, "Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t%s\nMems_allowed:\t1\n", allowed);
    put("/proc/self/status", status);
    put("/proc/self/cgroup", "0::/\n");
}

static void node(int number, const char *list) {
    char path[64];
    snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpulist", number);
    put(path, list);
}

static void end(void) {
    char command[96];
    snprintf(command, sizeof command, "rm -r %s", root);
    EXPECT(system(command) == 0);
}

/* Processors first to last: each a core, one socket, one cache. */
static void plain(int socket, int first, int last) {
    char list[32], number[32];
    snprintf(list, sizeof list, "%d-%d", first, last);
    for (int i = first; i <= last; i++) {
        snprintf(number, sizeof number, "%d", i);
        PUT(i, "topology/thread_siblings_list", number);
        PUT(i, "cache/index0/shared_cpu_list", number);
        PUT(i, "cache/index3/shared_cpu_list", list);
        snprintf(number, sizeof number, "%d", socket);
        PUT(i, "topology/physical_package_id", number);
    }
}

/* Two sockets of a node each, four cores of two processors each: 0-3 and 8-11 are the first socket's, as Linux numbers them. */
static void two_sockets_with_smt(void) {
    begin("0-15", "0-15");
    for (int i = 0; i < 16; i++) {
        char siblings[16], socket[16];
        snprintf(siblings, sizeof siblings, "%d,%d", i % 8, i % 8 + 8);
        snprintf(socket, sizeof socket, "%d", i % 8 / 4);
        PUT(i, "topology/thread_siblings_list", siblings);
        PUT(i, "topology/physical_package_id", socket);
        PUT(i, "cache/index3/shared_cpu_list", i % 8 < 4 ? "0-3,8-11" : "4-7,12-15");
    }
    node(0, "0-3,8-11\n");
    node(1, "4-7,12-15\n");
}

/* ---- the placement as --dry-run prints it */

static struct topology topology;

static void expect_plan(enum config_bind wanted, uint32_t ranks, const char *expected) {
    struct placement placement;
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    topology_read(&topology, root);
    EXPECT(placement_build(&placement, &topology, wanted, ranks) == 0);
    placement_print(&placement, out);
    fclose(out);
    EXPECT_TEXT(text, expected);
    free(text);
    placement_clear(&placement);
}

TEST("one socket: cores are dealt out, none twice, the first ranks get one more; auto leaves one node alone") {
    begin("0-7\n", "0-7");
    plain(0, 0, 7);
    node(0, "0-7\n");
    expect_plan(CONFIG_BIND_CORE, 3,
                "processors          8 of 8; cores 8, caches 1, NUMA nodes 1, sockets 1\n"
                "binding             core\n"
                "rank 0              processors 0-2\n"
                "rank 1              processors 3-5\n"
                "rank 2              processors 6-7\n");
    expect_plan(CONFIG_BIND_AUTO, 2,
                "processors          8 of 8; cores 8, caches 1, NUMA nodes 1, sockets 1\n"
                "binding             none: one NUMA node\n");
    expect_plan(CONFIG_BIND_NONE, 2,
                "processors          8 of 8; cores 8, caches 1, NUMA nodes 1, sockets 1\n"
                "binding             none\n");
    expect_plan(CONFIG_BIND_CORE, 9,
                "processors          8 of 8; cores 8, caches 1, NUMA nodes 1, sockets 1\n"
                "binding             none: more ranks than cores\n");
    expect_plan(CONFIG_BIND_CORE, 1,
                "processors          8 of 8; cores 8, caches 1, NUMA nodes 1, sockets 1\n"
                "binding             none: one rank has the whole machine\n");
    EXPECT(topology_cores(&topology) == 8);
    end();
}

TEST("a container that is shown processors 0 to 3 and has 8 to 11 has four cores, not one") {
    begin("0-3\n", "8-11");
    expect_plan(CONFIG_BIND_CORE, 2,
                "processors          4 of 4; cores 4, caches 1, NUMA nodes 1, sockets 1\n"
                "binding             core\n"
                "rank 0              processors 8-9\n"
                "rank 1              processors 10-11\n");
    EXPECT(topology_cores(&topology) == 4);
    end();
}

#define TWO "processors          16 of 16; cores 8, caches 2, NUMA nodes 2, sockets 2\n"

TEST("two sockets with SMT: a core counts once, siblings stay in one rank, a node's ranks come before the next node's") {
    two_sockets_with_smt();
    expect_plan(CONFIG_BIND_CORE, 4,
                TWO "binding             core\n"
                    "rank 0              processors 0-1,8-9\n"
                    "rank 1              processors 2-3,10-11\n"
                    "rank 2              processors 4-5,12-13\n"
                    "rank 3              processors 6-7,14-15\n");
    expect_plan(CONFIG_BIND_AUTO, 4,
                TWO "binding             numa\n"
                    "rank 0              processors 0-3,8-11\n"
                    "rank 1              processors 0-3,8-11\n"
                    "rank 2              processors 4-7,12-15\n"
                    "rank 3              processors 4-7,12-15\n");
    expect_plan(CONFIG_BIND_SOCKET, 2,
                TWO "binding             socket\n"
                    "rank 0              processors 0-3,8-11\n"
                    "rank 1              processors 4-7,12-15\n");
    EXPECT(topology_cores(&topology) == 8);
    end();
}

TEST("ranks that do not divide evenly stay within a node where all can, and auto leaves them alone where they cannot") {
    two_sockets_with_smt();
    expect_plan(CONFIG_BIND_CORE, 3,
                TWO "binding             core\n"
                    "rank 0              processors 0-1,8-9\n"
                    "rank 1              processors 2-3,10-11\n"
                    "rank 2              processors 4-7,12-15\n");
    expect_plan(CONFIG_BIND_CORE, 7,
                TWO "binding             core\n"
                    "rank 0              processors 0,8\n"
                    "rank 1              processors 1,9\n"
                    "rank 2              processors 2,10\n"
                    "rank 3              processors 3,11\n"
                    "rank 4              processors 4-5,12-13\n"
                    "rank 5              processors 6,14\n"
                    "rank 6              processors 7,15\n");
    put("/proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-6,8-14\n");
    put("/sys/devices/system/cpu/online", "0-6,8-14\n");
    expect_plan(CONFIG_BIND_CORE, 2,
                "processors          14 of 14; cores 7, caches 2, NUMA nodes 2, sockets 2\n"
                "binding             core\n"
                "rank 0              processors 0-3,8-11\n"
                "rank 1              processors 4-6,12-14\n");
    expect_plan(CONFIG_BIND_AUTO, 2,
                "processors          14 of 14; cores 7, caches 2, NUMA nodes 2, sockets 2\n"
                "binding             none: the ranks do not fit evenly into the NUMA nodes\n");
    end();
}

TEST("caches: a rank has those that its share touches; fewer ranks than nodes have several nodes") {
    begin("0-7\n", "0-7");
    for (int first = 0; first < 8; first += 2)
        plain(0, first, first + 1);
    node(0, "0-3\n");
    node(1, "4-7\n");
    expect_plan(CONFIG_BIND_CACHE, 4,
                "processors          8 of 8; cores 8, caches 4, NUMA nodes 2, sockets 1\n"
                "binding             cache\n"
                "rank 0              processors 0-1\n"
                "rank 1              processors 2-3\n"
                "rank 2              processors 4-5\n"
                "rank 3              processors 6-7\n");
    for (int first = 0; first < 8; first += 2) {
        char list[32];
        snprintf(list, sizeof list, "%d-%d\n", first, first + 1);
        node(first / 2, list);
    }
    expect_plan(CONFIG_BIND_NUMA, 2,
                "processors          8 of 8; cores 8, caches 4, NUMA nodes 4, sockets 1\n"
                "binding             numa\n"
                "rank 0              processors 0-3\n"
                "rank 1              processors 4-7\n");
    end();
}

TEST("a quota of 1.5 cores is two cores, wherever above us it stands, and says that others are here") {
    two_sockets_with_smt();
    put("/proc/self/cgroup", "0::/pod/container\n");
    put("/sys/fs/cgroup/pod/cpu.max", "150000 100000\n");
    put("/sys/fs/cgroup/pod/container/cpu.max", "max 100000\n");
    expect_plan(CONFIG_BIND_AUTO, 2,
                "processors          16 of 16; cores 8, caches 2, NUMA nodes 2, sockets 2; quota 2\n"
                "binding             none: the control group has a quota: others use these processors, too\n");
    EXPECT(topology_cores(&topology) == 2);
    expect_plan(CONFIG_BIND_CORE, 4,
                "processors          16 of 16; cores 8, caches 2, NUMA nodes 2, sockets 2; quota 2\n"
                "binding             none: more ranks than cores\n");
    put("/sys/fs/cgroup/pod/container/cpu.max", "50000 100000\n");
    topology_read(&topology, root);
    EXPECT(topology_cores(&topology) == 1);
    end();
}

TEST("a mask that somebody has set is divided when asked, and left alone by auto; a container's cpuset is its machine") {
    two_sockets_with_smt();
    put("/proc/self/status", "Name:\tx\nCpus_allowed_list:\t2-5,10-13\n");
    expect_plan(CONFIG_BIND_AUTO, 2,
                "processors          8 of 16; cores 4, caches 2, NUMA nodes 2, sockets 2\n"
                "binding             none: accel-run itself was bound already (srun, taskset, numactl)\n");
    expect_plan(CONFIG_BIND_CORE, 2,
                "processors          8 of 16; cores 4, caches 2, NUMA nodes 2, sockets 2\n"
                "binding             core\n"
                "rank 0              processors 2-3,10-11\n"
                "rank 1              processors 4-5,12-13\n");
    put("/sys/fs/cgroup/cpuset.cpus.effective", "2-5,10-13\n");
    expect_plan(CONFIG_BIND_AUTO, 2,
                "processors          8 of 16; cores 4, caches 2, NUMA nodes 2, sockets 2\n"
                "binding             numa\n"
                "rank 0              processors 2-3,10-11\n"
                "rank 1              processors 4-5,12-13\n");
    put("/proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-3\n"); /* one sibling of each core */
    topology_read(&topology, root);
    EXPECT(topology_cores(&topology) == 4 && topology.count == 4);
    end();
}

TEST("cpuset and quota of version 1 count as well") {
    two_sockets_with_smt();
    put("/proc/self/cgroup", "4:cpu,cpuacct:/docker/x\n3:cpuset:/docker/x\n0::/\n");
    put("/proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-1,4-5\n");
    put("/sys/fs/cgroup/cpuset/cpuset.cpus", "0-1,4-5\n"); /* as the container sees it: its group is the root */
    put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    expect_plan(CONFIG_BIND_AUTO, 2,
                "processors          4 of 16; cores 4, caches 2, NUMA nodes 2, sockets 2\n"
                "binding             numa\n"
                "rank 0              processors 0-1\n"
                "rank 1              processors 4-5\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "300000\n");
    topology_read(&topology, root);
    EXPECT(topology_cores(&topology) == 3);
    end();
}

TEST("processors that are offline and nodes that have none are left out") {
    begin("0-2,4-7\n", "0-7");
    plain(0, 0, 2);
    plain(0, 4, 7);
    node(0, "0-2\n");
    node(1, "\n");
    node(2, "4-7\n");
    expect_plan(CONFIG_BIND_NUMA, 2,
                "processors          7 of 7; cores 7, caches 2, NUMA nodes 2, sockets 1\n"
                "binding             numa\n"
                "rank 0              processors 0-2\n"
                "rank 1              processors 4-7\n");
    end();
}

TEST("two sockets that the kernel shows as one node are two sockets") {
    begin("0-7\n", "0-7");
    plain(0, 0, 3);
    plain(1, 4, 7);
    node(0, "0-7\n");
    expect_plan(CONFIG_BIND_SOCKET, 2,
                "processors          8 of 8; cores 8, caches 2, NUMA nodes 1, sockets 2\n"
                "binding             socket\n"
                "rank 0              processors 0-3\n"
                "rank 1              processors 4-7\n");
    end();
}

TEST("sockets whose processors are numbered in turn are not mixed, nor nodes of several sockets") {
    begin("0-7\n", "0-7");
    for (int i = 0; i < 8; i++) {
        PUT(i, "topology/physical_package_id", i % 2 ? "1" : "0");
        PUT(i, "cache/index2/shared_cpu_list", i % 2 ? (i < 4 ? "1,3" : "5,7") : (i < 4 ? "0,2" : "4,6"));
    }
    expect_plan(CONFIG_BIND_CORE, 4,
                "processors          8 of 8; cores 8, caches 4, NUMA nodes 1, sockets 2\n"
                "binding             core\n"
                "rank 0              processors 0,2\n"
                "rank 1              processors 4,6\n"
                "rank 2              processors 1,3\n"
                "rank 3              processors 5,7\n");
    node(0, "0,2\n");
    node(1, "1,3\n");
    node(2, "4,6\n");
    node(3, "5,7\n");
    expect_plan(CONFIG_BIND_SOCKET, 2,
                "processors          8 of 8; cores 8, caches 4, NUMA nodes 4, sockets 2\n"
                "binding             socket\n"
                "rank 0              processors 0,2,4,6\n"
                "rank 1              processors 1,3,5,7\n");
    end();
}

TEST("what /sys does not say is simple: each processor a core, one node") {
    begin("\n", "0-3");
    expect_plan(CONFIG_BIND_CORE, 2,
                "processors          4 of 4; cores 4, caches 1, NUMA nodes 1, sockets 1\n"
                "binding             core\n"
                "rank 0              processors 0-1\n"
                "rank 1              processors 2-3\n");
    end();
    begin("\n", "nonsense");
    topology_read(&topology, root);
    EXPECT(topology_cores(&topology) == 1);
    end();
}

TEST("a large machine with processors beyond 1024 is placed") {
    begin("0-2047\n", "0-2047");
    node(0, "0-1023\n");
    node(1, "1024-2047\n");
    expect_plan(CONFIG_BIND_NUMA, 2,
                "processors          2048 of 2048; cores 2048, caches 2, NUMA nodes 2, sockets 1\n"
                "binding             numa\n"
                "rank 0              processors 0-1023\n"
                "rank 1              processors 1024-2047\n");
    end();
}

TEST("without a file that says so, the affinity is our own") {
    begin("0-4095\n", "0");
    char path[96];
    snprintf(path, sizeof path, "%s/proc/self/status", root);
    EXPECT(unlink(path) == 0);
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    topology_read(&topology, root);
    EXPECT(topology.count == (uint32_t)CPU_COUNT(&set));
    end();
}

/* ---- sets and control groups */

TEST("sets are read and written as the kernel writes them") {
    struct cpus cpus;
    char text[CPUS_TEXT_CHARS], little[24];
    cpus_read(&cpus, "0,2-4,63-64,4095-9999\nmore");
    EXPECT(cpus_count(&cpus) == 7 && cpus_has(&cpus, 64) && !cpus_has(&cpus, 65) && !cpus_has(&cpus, 5000));
    cpus_text(&cpus, text, sizeof text);
    EXPECT_TEXT(text, "0,2-4,63-64,4095");
    cpus_text(&cpus, little, sizeof little);
    EXPECT_TEXT(little, "0,2-4,63-64...");
    cpus_read(&cpus, "7-3,x");
    EXPECT(cpus_count(&cpus) == 0);
}

TEST("a quota is a number of cores, rounded up") {
    EXPECT(cgroup_cores_of(200000, 100000) == 2);
    EXPECT(cgroup_cores_of(150000, 100000) == 2);
    EXPECT(cgroup_cores_of(-1, 100000) == 0);
    EXPECT(cgroup_cores_of(1000, 100000) == 1);
}

TEST("our group is found in both versions") {
    char group[64];
    EXPECT(cgroup_of("0::/user/x\n", "", group, sizeof group) == 0);
    EXPECT_TEXT(group, "/user/x");
    EXPECT(cgroup_of("4:cpu,cpuacct:/a\n1:name=systemd:/b\n0::/c\n", "cpu", group, sizeof group) == 0);
    EXPECT_TEXT(group, "/a");
    EXPECT(cgroup_of("4:cpuset:/a\n", "cpu", group, sizeof group) == -1);
}

TEST("quota and memory kills are read from the group, the container's root included") {
    begin("0-3\n", "0-3");
    put("/proc/self/cgroup", "0::/on/the/host\n");
    put("/sys/fs/cgroup/cpu.max", "100000 100000\n");
    put("/sys/fs/cgroup/on/the/host/memory.events", "low 0\noom 2\noom_kill 3\n");
    EXPECT(cgroup_quota_cores(root) == 1);
    EXPECT(cgroup_oom_kills(root) == 3);
    put("/sys/fs/cgroup/cpu.max", "max 100000\n");
    EXPECT(cgroup_quota_cores(root) == 0);
    end();
}
