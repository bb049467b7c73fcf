/*
 * Rank 0 alone waits for who reads the program's output, and for the disk that takes the one file that all save. A plain program would take that time, too, and
 * would simply go on afterwards. So no rank is late meanwhile: each time that rank 0 is seen to be held up so, the deadlines of the others begin anew
 * (config/board.h: held_ns).
 *
 * What the program writes the others write, too, to copies of their own on the disk of /tmp: rank 0 waits for them as the program would for its disk.
 *
 * Inside write() a rank cannot say so itself. It is seen from outside, and only what goes on counts: output of which something waits to be read, bytes written
 * since the last look, or a wait for a disk in which the process is woken again and again. One that is stopped, computes for ever, or waits for a lock or for
 * another rank is as late as ever.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "job.h"

/* What is written between two deadlines at least: a thread that writes a few lines to a log now and then does not save. */
#define PIECE_BYTES (1 << 20)
#define READS_MAX 10   /* a program that does not train may print for ever */
#define RECENT_MS 5000 /* between two pieces, for words */

static FILE *open_of_process(pid_t pid, const char *name) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    return fopen(path, "re");
}

/* To files, pipes and devices; in the middle of a long write, as far as the pages of a disk's file are filled. What rank 0 has printed does not count;
   the others' output is read at once. */
static uint64_t bytes_written(const struct job *job, const struct rank *rank, pid_t pid) {
    unsigned long long called = 0, filled = 0;
    FILE *file = open_of_process(pid, "io");
    if (file && fscanf(file, "rchar: %*u wchar: %llu syscr: %*u syscw: %*u read_bytes: %*u write_bytes: %llu", &called, &filled) != 2)
        called = filled = 0;
    if (file)
        fclose(file);
    uint64_t printed = rank->number ? 0 : streams_printed(&job->streams);
    return called + filled > printed ? called + filled - printed : 0;
}

/* How often the process has waited, if it does so for a disk: in fsync(), or in close() on a network disk; 0: it does not. */
static uint64_t waits_for_disk(pid_t pid) {
    char line[256], state = 0;
    unsigned long long switches = 0;
    FILE *file = open_of_process(pid, "status");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "State: %c", &state) != 1)
            sscanf(line, "voluntary_ctxt_switches: %llu", &switches);
    if (file)
        fclose(file);
    return state == 'D' ? switches : 0;
}

static bool is_writing(const struct job *job, struct rank *rank) {
    struct disk *held = &rank->disk;
    pid_t pid = job->lines[rank->number].pid;
    uint64_t written = bytes_written(job, rank, pid), switches = waits_for_disk(pid);
    bool is_woken = held->switches && switches > held->switches, has_written = written >= held->written + PIECE_BYTES;
    held->switches = switches;
    if (has_written || written < held->written) /* less: another process, or what it had printed is read now */
        held->written = written;
    return has_written || is_woken;
}

static bool some_rank_waits(const struct job *job) {
    for (uint32_t i = 0; i < job->world_size; i++)
        if (job->watch[i].is_waiting && !job->watch[i].has_ended)
            return true;
    return false;
}

static bool is_awaited(const struct job *job, uint32_t rank) {
    const struct watch_rank *seen = &job->watch[rank];
    return !seen->has_ended && !seen->is_waiting && !seen->is_stopped;
}

void held_look(struct job *job, uint64_t now_ms) {
    bool is_held = false;
    if (!some_rank_waits(job))
        return;
    for (uint32_t i = 0; i < job->local_size; i++) {
        bool writes = is_awaited(job, i) && is_writing(job, &job->ranks[i]);
        if (writes && !i)
            job->held.wrote_ms = now_ms;
        is_held |= writes || (!i && is_awaited(job, 0) && streams_is_blocked(&job->streams));
    }
    if (!is_held)
        return;
    job->held.times++;
    segments_hold(&job->claims.segments);
}

bool held_by_reader(struct job *job) {
    struct held *held = &job->held;
    uint64_t printed = streams_printed(&job->streams);
    bool is_blocked = streams_is_blocked(&job->streams), rests = is_blocked && printed == held->printed;
    bool is_held = rests || ((is_blocked || held->was_blocked) && held->reads < READS_MAX);
    held->reads = rests ? 0 : held->reads + 1;
    held->printed = printed;
    held->was_blocked = is_blocked;
    return is_held;
}

bool held_is_writing(const struct job *job) {
    return job->held.wrote_ms && clock_ms() - job->held.wrote_ms < RECENT_MS;
}
