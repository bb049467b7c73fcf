// sources: shim/comm/segment.c shim/comm/barrier.c shim/comm/agree.c shim/comm/turn.c shim/comm/stream.c shim/comm/staging.c shim/comm/kernels.c shim/comm/kernels_avx2.c shim/comm/kernels_avx512.c shim/comm/shared_memory.c shim/comm/all_reduce.c shim/comm/in_place.c shim/comm/arena.c shim/comm/arena_share.c shim/comm/arena_fork.c shim/comm/hosts.c shim/comm/hosts_reduce.c shim/comm/network.c shim/comm/network_connect.c shim/comm/own.c
// Runs alone: its ranks keep both cores busy.
/*
 * Memory that all ranks see, and forks: what the child has of it, and what else happens meanwhile.
 */
#define _GNU_SOURCE
#include "arena_ranks.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

static void sum_one(float *data, size_t count) {
    comm_all_reduce_in_place("one", &(struct comm_span){data, count}, (void *[]){NULL}, 1, COMM_FLOAT32, COMM_SUM);
}

static void fill(float *data, size_t count, float value) {
    for (size_t i = 0; i < count; i++) {
        data[i] = value;
    }
}

static int all_are(const float *data, size_t count, float value) {
    for (size_t i = 0; i < count; i++) {
        if (data[i] != value) {
            return 0;
        }
    }
    return 1;
}

static float *filled_block(size_t count, float value) {
    open_arena(8 << 20);
    float *data = memory_of(count, 1);
    fill(data, count, value);
    return data;
}

/* Of the ranks' values in sum_is_right(). */
static float sum_of_all(void) {
    return (float)(world * (world + 3) / 2);
}

static int sum_is_right(float *data, size_t count) {
    fill(data, count, (float)(self + 2));
    sum_one(data, count);
    return all_are(data, count, sum_of_all());
}

/* The child waits until the rank has written and summed, then looks, and writes. Ends with 0 when it saw what there was at the fork. */
static pid_t fork_reader(float *data, size_t count, float expected, int *go) {
    if (pipe(go)) {
        abort();
    }
    pid_t child = fork();
    if (child == 0) {
        char byte;
        comm_forget(); /* as in every child of a rank */
        close(go[1]);
        ssize_t ignored = read(go[0], &byte, 1);
        (void)ignored;
        int seen = all_are(data, count, expected);
        fill(data, count, 77);
        RANK_EXPECT(!arena_take(count * sizeof(float)) && arena_give(data));
        _exit(!seen);
    }
    close(go[0]);
    return child;
}

static void forked(void) {
    size_t count = counts[3];
    int go[2];
    float *data = filled_block(count, 1);
    int forks = self == 1 || world == 2;
    pid_t child = forks ? fork_reader(data, count, 1, go) : 0;
    RANK_EXPECT(arena_holds(data, count * sizeof(float)) == !forks);
    for (int round = 0; round < 2; round++) {
        RANK_EXPECT(sum_is_right(data, count));
    }
    if (forks) {
        close(go[1]);
        RANK_EXPECT(end_of(child) == 0);
        RANK_EXPECT(all_are(data, count, sum_of_all()));
    }
    RANK_EXPECT(arena_give(data)); /* and is shared again */
    RANK_EXPECT(arena_take(count * sizeof(float)) == data && arena_holds(data, count * sizeof(float)));
    RANK_EXPECT(sum_is_right(data, count));
}

TEST("a forked child has the values of the moment of the fork, whatever the ranks write later, and writes for itself") {
    run_several(forked);
}

static void close_all(void) {
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (atoi(entry->d_name) > 2 && atoi(entry->d_name) != dirfd(folder)) {
            close(atoi(entry->d_name));
        }
    }
    closedir(folder);
}

static void forked_without_descriptor(void) {
    size_t count = counts[3];
    int go[2];
    float *data = filled_block(count, 1);
    close_all();
    pid_t child = fork_reader(data, count, 1, go);
    RANK_EXPECT(sum_is_right(data, count));
    close(go[1]);
    RANK_EXPECT(end_of(child) == 0 && all_are(data, count, sum_of_all()));
    RANK_EXPECT(arena_give(data) && arena_take(count * sizeof(float)) != data);
}

TEST("the same when the program has closed all descriptors") {
    run_several(forked_without_descriptor);
}

static void zeros_again(void) {
    size_t count = counts[3];
    int go[2];
    float *data = filled_block(count, 5);
    pid_t child = fork_reader(data, count, 5, go);
    RANK_EXPECT(!arena_holds(data, count * sizeof(float)));
    fill(data, count, 0);
    data[count - 1] = 1; /* another tensor's */
    arena_share_zeros(data);
    RANK_EXPECT(!arena_holds(data, count * sizeof(float)) && data[count - 1] == 1);
    fill(data, count, 0);
    arena_share_zeros(data);
    RANK_EXPECT(arena_holds(data, count * sizeof(float)) && all_are(data, count, 0));
    RANK_EXPECT(sum_is_right(data, count));
    close(go[1]);
    RANK_EXPECT(end_of(child) == 0);
}

TEST("memory of nothing but zeros is shared again after a fork") {
    run_several(zeros_again);
}

static float *counted;
static _Atomic int stop;

static void *count_up(void *unused) {
    size_t count = counts[3];
    for (float value = 1; !atomic_load(&stop); value++) {
        for (size_t i = 0; i < count; i += 1024) { /* once a page */
            counted[i] = value;
        }
        for (size_t i = 0; i < count; i += 1024) {
            RANK_EXPECT(counted[i] == value);
        }
    }
    return unused;
}

static void written_while_forking(void) {
    pthread_t writer;
    open_arena(8 << 20);
    counted = memory_of(counts[3], 1);
    fill(counted, counts[3], 0);
    pthread_create(&writer, NULL, count_up, NULL);
    for (int round = 0; round < 200; round++) {
        pid_t child = fork();
        if (child == 0) {
            _exit(0);
        }
        RANK_EXPECT(end_of(child) == 0);
        float *other = arena_take(counts[3] * sizeof(float)); /* in use at the next fork, and then given back */
        RANK_EXPECT(other && arena_give(other));
    }
    atomic_store(&stop, 1);
    pthread_join(writer, NULL);
    RANK_EXPECT(arena_give(counted));
}

TEST("what a thread writes while another forks is not lost") {
    run_ranks(2, written_while_forking, 0);
}

/* ---- what else happens around a fork */

static pthread_mutex_t programs = PTHREAD_MUTEX_INITIALIZER;
static float *kept[2];

static void give_in_prepare(void) {
    pthread_mutex_lock(&programs);
    RANK_EXPECT(!kept[0] || arena_give(kept[0]));
    kept[0] = NULL;
}

static void after_in_parent(void) {
    pthread_mutex_unlock(&programs);
}

static void give_in_child(void) {
    RANK_EXPECT(arena_give(kept[1]));
    pthread_mutex_unlock(&programs);
}

/* Holds the program's own lock while it takes memory: the other way round than a thread that forks. */
static void *take_under_lock(void *unused) {
    while (!atomic_load(&stop)) {
        pthread_mutex_lock(&programs);
        float *memory = arena_take(counts[1] * sizeof(float));
        RANK_EXPECT(memory && arena_give(memory));
        pthread_mutex_unlock(&programs);
    }
    return unused;
}

static void handlers(void) {
    pthread_t taker;
    open_arena(8 << 20);
    pthread_atfork(give_in_prepare, after_in_parent, give_in_child);
    kept[1] = memory_of(counts[3], 1);
    pthread_create(&taker, NULL, take_under_lock, NULL);
    for (int round = 0; round < 50; round++) {
        kept[0] = memory_of(counts[3], 1);
        pid_t child = fork();
        if (child == 0) {
            _exit(0);
        }
        RANK_EXPECT(end_of(child) == 0 && !kept[0]);
    }
    atomic_store(&stop, 1);
    pthread_join(taker, NULL);
}

TEST("what the program does when it forks may take its own locks, and give memory back") {
    run_ranks(2, handlers, 0);
}

/* Each signal is asked for when the one before has been handled: on a busy machine a fork takes longer than a timer's interval, and a program that finds the
   next signal whenever it comes back from the last one never goes on. */
static void ask_for_signal(int timer, long microseconds) {
    struct itimerval once = {{0, 0}, {0, microseconds}};
    setitimer((__itimer_which_t)timer, &once, NULL);
}

static void fork_in_handler(void) {
    pid_t child = fork();
    if (child == 0) {
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

static void fork_by_processor_time(int unused) {
    (void)unused;
    fork_in_handler();
    ask_for_signal(ITIMER_PROF, 1000);
}

static void forks_in_signals(void) {
    size_t count = counts[3];
    struct sigaction action = {.sa_handler = fork_by_processor_time, .sa_flags = SA_RESTART};
    open_arena(8 << 20);
    sigaction(SIGPROF, &action, NULL);
    ask_for_signal(ITIMER_PROF, 1000);
    for (int round = 0; round < 300; round++) {
        float *data = memory_of(count, 1);
        RANK_EXPECT(sum_is_right(data, count) && arena_give(data));
    }
    signal(SIGPROF, SIG_IGN);
}

TEST("a signal handler may fork in the middle of a sum") {
    run_ranks(2, forks_in_signals, 0);
}

static volatile sig_atomic_t forks;

static void fork_and_count(int unused) {
    (void)unused;
    fork_in_handler();
    forks++;
    ask_for_signal(ITIMER_REAL, 500);
}

/* Nothing but taking and giving back, so that many of the signals come while the lock changes hands. */
static void forks_while_taking(void) {
    struct sigaction action = {.sa_handler = fork_and_count, .sa_flags = SA_RESTART};
    open_arena(8 << 20);
    sigaction(SIGALRM, &action, NULL);
    ask_for_signal(ITIMER_REAL, 500);
    while (forks < 2000) {
        RANK_EXPECT(arena_give(memory_of(counts[3], 1)));
    }
    signal(SIGALRM, SIG_IGN);
}

TEST("a signal handler may fork while memory is taken or given back") {
    run_ranks(1, forks_while_taking, 0);
}
