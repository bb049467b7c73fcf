// sources: launcher/commands/machine.c launcher/placement/cgroup.c launcher/placement/system_file.c launcher/placement/cpus.c launcher/placement/topology.c launcher/commands/json.c launcher/commands/capture.c launcher/commands/gpu_peers.c config/utf8.c
#define _GNU_SOURCE
#include "unit.h"

#include <signal.h>
#include <sys/stat.h>

#include "../../launcher/commands/capture.h"
#include "../../launcher/commands/gpu_peers.h"
#include "../../launcher/commands/json.h"
#include "../../launcher/commands/machine.h"

/* ---- machine_read on a folder that stands for "/" */

static char root[] = "/tmp/accel-machine-XXXXXX";

static void put(const char *path, const char *text) {
    char full[512];
    snprintf(full, sizeof full, "mkdir -p '%s%s' && rmdir '%s%s'", root, path, root, path);
    EXPECT(system(full) == 0);
    snprintf(full, sizeof full, "%s%s", root, path);
    FILE *file = fopen(full, "w");
    EXPECT(file && fputs(text, file) >= 0);
    if (file)
        fclose(file);
}

static void drop_root(void) {
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", root);
    EXPECT(system(command) == 0);
}

TEST("a machine with two GPUs, two NUMA nodes and a container's limits is read from /proc and /sys") {
    struct machine machine;
    EXPECT(mkdtemp(root) != NULL);
    put("/etc/os-release", "NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 12\"\n");
    put("/proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU\nprocessor\t: 1\nmodel name\t: Other\n");
    put("/proc/meminfo", "MemTotal:       2048 kB\nMemFree: 7 kB\nMemAvailable:   1024 kB\n");
    put("/proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-6\n");
    put("/sys/devices/system/cpu/online", "0-7\n");
    put("/sys/devices/system/node/node0/cpulist", "0-3\n");
    put("/sys/devices/system/node/node1/cpulist", "4-7\n");
    put("/proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: \t\t NVIDIA H100\nIRQ: 5\n");
    put("/proc/driver/nvidia/gpus/0000:02:00.0/information", "no model here\n");
    put("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX 550.1\nGCC version: 12\n");
    put("/proc/self/cgroup", "0::/\n");
    put("/sys/fs/cgroup/cpu.max", "150000 100000\n");
    put("/sys/fs/cgroup/memory.max", "1048576\n");
    machine_read(&machine, root);
    EXPECT_TEXT(machine.system, "Debian GNU/Linux 12");
    EXPECT_TEXT(machine.processor, "Some CPU");
    EXPECT(machine.memory_bytes == 2048 << 10 && machine.memory_available_bytes == 1024 << 10);
    EXPECT(machine.memory_limit_bytes == 1048576);
    EXPECT_TEXT(machine.quota, "2 cores");
    EXPECT(machine.numa_nodes == 2 && machine.gpu_count == 2);
    EXPECT(machine.processors_online == 8 && machine.processors_allowed == 7 && machine.is_narrowed);
    EXPECT(machine.cores == 7 && machine.cores_allowed == 2);
    EXPECT(!strcmp(machine.gpus[0], "NVIDIA H100") || !strcmp(machine.gpus[1], "NVIDIA H100"));
    EXPECT(!strcmp(machine.gpus[0], "unknown model") || !strcmp(machine.gpus[1], "unknown model"));
    EXPECT_TEXT(machine.driver, "NVIDIA UNIX 550.1");
    drop_root();
}

TEST("an empty machine has no limits, no GPUs and no names") {
    struct machine machine;
    EXPECT(mkdtemp(root) != NULL);
    machine_read(&machine, root);
    EXPECT_TEXT(machine.system, "");
    EXPECT_TEXT(machine.quota, "none");
    EXPECT_TEXT(machine.driver, "");
    EXPECT(machine.gpu_count == 0 && machine.numa_nodes == 1 && machine.memory_limit_bytes == 0 && machine.cores_allowed > 0);
    drop_root();
}

/* ---- json_string */

static void expect_json(const char *text, const char *expected) {
    char *written = NULL;
    size_t bytes;
    FILE *out = open_memstream(&written, &bytes);
    json_string(out, text);
    fclose(out);
    EXPECT_TEXT(written, expected);
    free(written);
}

TEST("strings are escaped, and bytes that are no UTF-8 replaced") {
    expect_json("plain", "\"plain\"");
    expect_json("a \"b\" \\ \n\t\r \x01", "\"a \\\"b\\\" \\\\ \\n\\t\\r \\u0001\"");
    expect_json("\xc3\xa4 \xe2\x82\xac", "\"\xc3\xa4 \xe2\x82\xac\"");
    expect_json("\xff\xc3", "\"\\ufffd\\ufffd\"");
    /* a surrogate, a character that is longer than it need be, and the last and the first beyond it: readers refuse them */
    expect_json("\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\"");
    expect_json("\xe0\x80\x80\xc1\x81", "\"\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\"");
    expect_json("\xf4\x8f\xbf\xbf", "\"\xf4\x8f\xbf\xbf\"");
    expect_json("\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\"");
}

/* ---- gpu_peers_read, on what drivers print */

TEST("GPUs that cannot read each other's memory are counted, and the first pair is named") {
    struct gpu_peers peers;
    static const char legend[] =
        "\nLegend:\n\n  X    = Self\n  OK   = Status Ok\n  CNS  = Chipset not supported\n  GNS  = GPU not supported\n";
    char text[512];
    snprintf(text, sizeof text, " \tGPU0\tGPU1\t\n GPU0\tX\tGNS\t\n GPU1\tGNS\tX\t\n%s", legend);
    EXPECT(gpu_peers_read(text, &peers) == 0 && peers.pairs == 2 && peers.reachable == 0);
    EXPECT_TEXT(peers.first_fault, "GPU1 from GPU0: GNS");
    snprintf(text, sizeof text,
             "        GPU0    GPU1    GPU2\n GPU0   X       OK      OK\n GPU1   OK      X       CNS\n GPU2   OK      OK      X\n%s",
             legend);
    EXPECT(gpu_peers_read(text, &peers) == 0 && peers.pairs == 6 && peers.reachable == 5);
    EXPECT_TEXT(peers.first_fault, "GPU2 from GPU1: CNS");
    EXPECT(gpu_peers_read("\033[4mGPU0\tGPU1\033[0m\n GPU0\tX\tOK\t\n GPU1\tOK\tX\t\n", &peers) == 0 && peers.reachable == 2);
}

TEST("what is not such a table says nothing of GPUs") {
    struct gpu_peers peers;
    EXPECT(gpu_peers_read("", &peers) == -1);
    EXPECT(gpu_peers_read("No devices were found\n", &peers) == -1);
    EXPECT(gpu_peers_read(" \tGPU0\t\n GPU0\tX\t\n", &peers) == -1);
    EXPECT(gpu_peers_read(" GPU0\tX\tOK\t\n", &peers) == -1);
    EXPECT(gpu_peers_read(" GPU0\tX\tOK\n GPU1\tOK\n", &peers) == -1);
    EXPECT(gpu_peers_read(" GPU0\tOK\tX\n GPU1\tX\tOK\n", &peers) == -1);
}

/* ---- capture_run */

static struct capture capture;

static int run_shell(const char *script, uint32_t milliseconds) {
    char *arguments[] = {(char *)"sh", (char *)"-c", (char *)script, NULL};
    char *environment[] = {(char *)"PATH=/usr/bin:/bin", NULL};
    return capture_run(&(struct capture_request){"/bin/sh", arguments, environment, NULL, milliseconds, NULL}, &capture);
}

TEST("both streams and the exit code of a helper are kept") {
    EXPECT(run_shell("echo out; echo err >&2", 30000) == 0);
    EXPECT_TEXT(capture.out, "out\n");
    EXPECT_TEXT(capture.errors, "err\n");
    EXPECT(run_shell("exit 7", 30000) == -1 && capture.status == 7);
    EXPECT(run_shell("kill -9 $$", 30000) == -1 && capture.status == 128 + SIGKILL);
}

TEST("more than there is room for is read and dropped") {
    EXPECT(run_shell("head -c 3000000 /dev/zero | tr '\\0' x", 30000) == 0);
    EXPECT(strlen(capture.out) == CAPTURE_BYTES - 1);
}

TEST("a helper that hangs is ended with what it started, at the deadline") {
    EXPECT(run_shell("sleep 1000 & echo $!; wait", 2000) == -1);
    EXPECT(capture.has_timed_out);
    pid_t child = atoi(capture.out);
    EXPECT(child > 1);
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)child);
    FILE *file;
    char text[512] = "";
    while ((file = fopen(path, "r")) && fgets(text, sizeof text, file) && !strstr(text, ") Z ")) { /* until its new parent has buried it */
        fclose(file);
        usleep(1000);
        text[0] = 0;
    }
    if (file)
        fclose(file);
    EXPECT(run_shell("exec >&- 2>&-; sleep 1000", 300) == -1 && capture.has_timed_out);
}

TEST("a helper that does not exist is said not to have started") {
    char *arguments[] = {(char *)"x", NULL};
    EXPECT(capture_run(&(struct capture_request){"/no/such/file", arguments, arguments + 1, NULL, 1000, NULL}, &capture) == -1);
    EXPECT(!capture.has_started);
}
