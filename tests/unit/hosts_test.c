// sources: shim/comm/segment.c shim/comm/barrier.c shim/comm/agree.c shim/comm/turn.c shim/comm/stream.c shim/comm/staging.c shim/comm/kernels.c shim/comm/kernels_avx2.c shim/comm/kernels_avx512.c shim/comm/shared_memory.c shim/comm/all_reduce.c shim/comm/hosts.c shim/comm/hosts_reduce.c shim/comm/network.c shim/comm/network_connect.c shim/comm/own.c
// Runs alone: its ranks have deadlines.
/*
 * Collectives between the ranks of several hosts, over the loopback device: what each rank gets, bit by bit, who is refused, and who is named.
 */
#include "hosts.h"

#include <pthread.h>

static void digest_add(const void *data, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        unsigned char *cell = &shared->digest[self][i % 61];
        *cell = (unsigned char)(*cell * 31 + ((const unsigned char *)data)[i]);
    }
}

/* What fits into one message is summed in the order of the ranks, as on one host; the rest as the sum of the hosts' sums. */
static float expected_sum(size_t count, size_t i) {
    float total = 0;
    int is_flat = count * sizeof(float) <= (32 << 10) / world;
    for (uint32_t host = 0; host < hosts; host++) {
        float sum = 0;
        for (uint32_t rank = board->list[host].first; rank < board->list[host].first + board->list[host].count; rank++) {
            sum = rank == board->list[host].first ? float_value(rank, i) : sum + float_value(rank, i);
            if (is_flat) {
                total = rank ? total + float_value(rank, i) : float_value(rank, i);
            }
        }
        if (!is_flat) {
            total = host ? total + sum : sum;
        }
    }
    return total;
}

static void reduce_floats(size_t count, size_t shift) {
    char *memory = malloc(count * sizeof(float) + shift + 1);
    for (size_t i = 0; i < count; i++) {
        float value = float_value(self, i);
        memcpy(memory + shift + i * sizeof value, &value, sizeof value);
    }
    struct comm_span span = {memory + shift, count};
    comm_all_reduce("floats", &span, 1, COMM_FLOAT32, COMM_SUM);
    for (size_t i = 0; i < count; i++) {
        float sum = expected_sum(count, i), got;
        memcpy(&got, memory + shift + i * sizeof got, sizeof got);
        RANK_EXPECT(!memcmp(&sum, &got, sizeof sum));
    }
    digest_add(memory + shift, count * sizeof(float));
    free(memory);
}

static void all_sizes(void) {
    static const size_t counts[] = {0,     1,     15,    17,    1024,   2047,   2731,   4096,   4097,
                                    16385, 32768, 32769, 65537, 131072, 200000, 300001, 1000003};
    for (size_t index = 0; index < sizeof counts / sizeof counts[0]; index++) {
        reduce_floats(counts[index], index % 3 == 2 ? 4 : 0);
    }
    for (size_t count = 1; count < 400; count += 7) { /* the ring goes round */
        reduce_floats(count * 20, 0);
    }
}

TEST("float32 sums of any size are the ranks' or the hosts' sums in their order, bit by bit, on all ranks of all hosts") {
    run_layouts(all_sizes);
}

TEST("the same with more ranks than cores") {
    cores = 1;
    run_on(&(struct layout){{2, 2}}, all_sizes, 0);
    clear_hosts();
    cores = 2;
}

static void many_spans(void) {
    enum { SPANS = 700 };
    static struct comm_span spans[SPANS];
    size_t total = 0;
    for (size_t i = 0; i < SPANS; i++) {
        spans[i] = (struct comm_span){malloc(i * sizeof(int64_t) + 1), i};
        for (size_t k = 0; k < i; k++) {
            ((int64_t *)spans[i].data)[k] = (int64_t)(self + 1) * (int64_t)(total + k);
        }
        total += i;
    }
    comm_all_reduce("spans", spans, SPANS, COMM_INT64, COMM_SUM);
    total = 0;
    for (size_t i = 0; i < SPANS; i++) {
        for (size_t k = 0; k < i; k++) {
            RANK_EXPECT(((int64_t *)spans[i].data)[k] == (int64_t)(world * (world + 1) / 2) * (int64_t)(total + k));
        }
        total += i;
        free(spans[i].data);
    }
}

TEST("hundreds of spans are one stream") {
    run_layouts(many_spans);
}

/* ---- copies */

static void gathers(void) {
    static const size_t blocks_list[] = {1, 3, 40};
    size_t bytes[RANKS_MAX], total = 0;
    for (uint32_t rank = 0; rank < world; rank++) {
        bytes[rank] = rank == 1 ? 0 : 1000 * (rank + 1) + 7;
        total += bytes[rank];
    }
    for (int round = 0; round < 3; round++) {
        size_t blocks = blocks_list[round], scale = round == 1 ? 100 : 1;
        for (uint32_t rank = 0; rank < world; rank++) {
            bytes[rank] *= scale;
        }
        total *= scale;
        unsigned char *full = calloc(blocks, total);
        for (size_t block = 0, at = 0; block < blocks; block++) {
            for (uint32_t rank = 0; rank < world; at += bytes[rank++]) {
                for (size_t i = 0; rank == self && i < bytes[rank]; i++) {
                    full[at + i] = (unsigned char)mixed(rank, block * 1000003 + i);
                }
            }
        }
        comm_all_gather("rows", full, blocks, bytes);
        for (size_t block = 0, at = 0; block < blocks; block++) {
            for (uint32_t rank = 0; rank < world; at += bytes[rank++]) {
                for (size_t i = 0; i < bytes[rank]; i++) {
                    RANK_EXPECT(full[at + i] == (unsigned char)mixed(rank, block * 1000003 + i));
                }
            }
        }
        free(full);
        for (uint32_t rank = 0; rank < world; rank++) {
            bytes[rank] /= scale;
        }
        total /= scale;
    }
}

static void broadcasts(void) {
    static unsigned char data[400000];
    static const size_t sizes[] = {0, 1, 70, 5000, 131072, 131073, 400000};
    for (uint32_t root = 0; root < world; root++) {
        for (size_t index = 0; index < sizeof sizes / sizeof sizes[0]; index++) {
            memset(data, self == root ? (int)(index + root + 1) : 0xee, sizes[index]);
            comm_broadcast("model", data, sizes[index], root);
            for (size_t i = 0; i < sizes[index]; i++) {
                RANK_EXPECT(data[i] == (unsigned char)(index + root + 1));
            }
        }
    }
}

static void words(void) {
    uint64_t all[RANKS_MAX];
    for (uint64_t round = 0; round < 600; round++) {
        comm_note("round", round);
        comm_all_gather_words("words", mixed(self, round), all);
        for (uint32_t rank = 0; rank < world; rank++) {
            RANK_EXPECT(all[rank] == mixed(rank, round));
        }
        if (round % 7 == 0) {
            comm_barrier("between");
        }
    }
}

TEST("gathered rows of any number, empty ones among them, come to all ranks") {
    run_layouts(gathers);
}

TEST("every rank's bytes come to all, whichever host it is on") {
    run_layouts(broadcasts);
}

TEST("hundreds of words and barriers stay in step") {
    run_layouts(words);
}

/* ---- lists */

static uint32_t lonely; /* the rank with the other list */

static void other_lists(void) {
    static float data[90000];
    for (size_t round = 0; round < 3; round++) {
        int differs = self == lonely;
        struct comm_span span = {data, differs ? 90000 : round * 1000};
        data[0] = 7;
        RANK_EXPECT(!comm_all_reduce_listed("listed", differs ? 5 : 6, &span, 1, differs ? COMM_INT32 : COMM_FLOAT32, COMM_SUM));
        RANK_EXPECT(data[0] == 7);
        reduce_floats(50000, 0);
        span.count = 20;
        RANK_EXPECT(comm_all_reduce_listed("alike", 9, &span, 1, COMM_FLOAT32, COMM_SUM));
    }
}

TEST("lists that differ are found on all hosts, nothing is changed, and the ranks stay in step") {
    for (lonely = 0; lonely < 4; lonely++) {
        run_on(&(struct layout){{2, 2}}, other_lists, 0);
        clear_hosts();
    }
}

/* ---- parted */

static void part(void) {
    static float data[3000];
    struct comm_span span = {data, self == lonely ? 3000 : 10};
    words();
    if (self == lonely) {
        comm_note("the batch", 17);
    } else {
        comm_note("the batch", 18);
    }
    comm_all_reduce("step", &span, 1, COMM_FLOAT32, COMM_SUM);
}

static int reported(uint32_t rank, const char *id, const char *words_of_it) {
    int is_there = !strcmp(shared->reports[rank].id, id) && strstr(shared->reports[rank].text, words_of_it);
    if (!is_there) {
        printf("    rank %u: %s %s\n", rank, shared->reports[rank].id, shared->reports[rank].text);
    }
    return is_there;
}

TEST("hosts that part are named in the same words on both, with their ranks' numbers in the job") {
    lonely = 1;
    run_on(&(struct layout){{1, 1}}, part, FAILED);
    for (uint32_t rank = 0; rank < 2; rank++) {
        EXPECT(reported(rank, "AR-RANKS-PARTED", "rank 1 has another the batch than rank 0"));
    }
    clear_hosts();
}

TEST("a rank that parts from its host's first is named there") {
    lonely = 3;
    timeout_ms = 1000;
    run_on(&(struct layout){{2, 2}}, part, FAILED);
    EXPECT(reported(3, "AR-RANKS-PARTED", "rank 3 has another the batch than rank 2"));
    EXPECT(reported(0, "AR-COLLECTIVE-TIMEOUT", "host 1 (127.0.0.2, ranks 2 to 3) has not come") ||
           strstr(shared->reports[0].id, "AR-HOST-GONE"));
    clear_hosts();
    timeout_ms = 20000;
}

static void leave(void) {
    words();
    if (self == 1) {
        _exit(FAILED);
    }
    words();
}

TEST("a host whose connection closes is named when nobody says who has died") {
    timeout_ms = 2000;
    run_on(&(struct layout){{1, 1}}, leave, FAILED);
    EXPECT(reported(0, "AR-HOST-GONE", "host 1 (127.0.0.2, rank 1) is gone"));
    clear_hosts();
    timeout_ms = 20000;
}

static void stay_away(void) {
    words();
    if (self == 2) {
        pause();
    }
    words();
}

TEST("a host that does not come is named at the deadline, and the abort word ends the wait") {
    pid_t pids[RANKS_MAX];
    timeout_ms = 1000;
    make_hosts(&(struct layout){{2, 1}});
    for (uint32_t rank = 0; rank < world; rank++) {
        pids[rank] = start_on_host(rank, stay_away);
    }
    EXPECT(end_of(pids[0]) == FAILED);
    EXPECT(reported(0, "AR-COLLECTIVE-TIMEOUT", "host 1 (127.0.0.2, rank 2) has not come"));
    atomic_store(&boards[0]->abort, BOARD_ABORT_LAUNCHER);
    EXPECT(end_of(pids[1]) == FAILED);
    kill(pids[2], SIGKILL);
    end_of(pids[2]);
    clear_hosts();
    timeout_ms = 20000;
}

static void come_late(void) {
    words();
    if (self == 0) {
        pause();
    }
    if (self == 1) { /* the leader of rank 2, which waits already: its deadline is the first that passes */
        while (!atomic_load(&board->ranks[2].waiting)) {
            sched_yield();
        }
        usleep(timeout_ms * 1000 / 3);
    }
    words();
}

TEST("a rank whose leader waits for another host leaves it to the leader to say who is late") {
    pid_t pids[RANKS_MAX];
    timeout_ms = 1000;
    make_hosts(&(struct layout){{1, 2}});
    for (uint32_t rank = 0; rank < world; rank++) {
        pids[rank] = start_on_host(rank, come_late);
    }
    EXPECT(end_of(pids[1]) == FAILED);
    EXPECT(reported(1, "AR-COLLECTIVE-TIMEOUT", "host 0 (127.0.0.1, rank 0) has not come"));
    atomic_store(&boards[1]->abort, BOARD_ABORT_LAUNCHER);
    EXPECT(end_of(pids[2]) == FAILED);
    EXPECT(reported(2, "AR-ABORTED", ""));
    kill(pids[0], SIGKILL);
    end_of(pids[0]);
    clear_hosts();
    timeout_ms = 20000;
}

TEST("of another host the rank that has not come is named, not its leader, which waits for it") {
    pid_t pids[RANKS_MAX];
    make_hosts(&(struct layout){{1, 2}});
    atomic_store(&boards[0]->ranks[1].collective, UINT64_MAX); /* as the launchers would tell */
    for (uint32_t rank = 0; rank < world; rank++) {
        timeout_ms = rank ? 20000 : 1000;
        pids[rank] = start_on_host(rank, stay_away);
    }
    EXPECT(end_of(pids[0]) == FAILED);
    EXPECT(reported(0, "AR-COLLECTIVE-TIMEOUT", "ranks 1 to 2) has not come; rank 2 has not come"));
    for (uint32_t rank = 1; rank < world; rank++) {
        kill(pids[rank], SIGKILL);
        end_of(pids[rank]);
    }
    clear_hosts();
}

/* ---- strangers */

static void knock(uint32_t host, const void *bytes, size_t count) {
    struct sockaddr_in address;
    int caller = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    memcpy(&address, boards[0]->list[host].address, sizeof address);
    EXPECT(connect(caller, (struct sockaddr *)&address, sizeof address) == 0);
    EXPECT(!count || write(caller, bytes, count) == (ssize_t)count); /* stays open: silence must not hold up anybody */
}

TEST("strangers at a leader's port are not let in, whatever they say, and hold up nobody") {
    pid_t pids[RANKS_MAX];
    char guess[200];
    memset(guess, 'x', sizeof guess);
    make_hosts(&(struct layout){{1, 2}});
    for (int i = 0; i < 100; i++) {
        knock(0, guess, (size_t)(i * 2));
    }
    for (uint32_t rank = 0; rank < world; rank++) {
        pids[rank] = start_on_host(rank, words);
    }
    for (uint32_t rank = 0; rank < world; rank++) {
        EXPECT(end_of(pids[rank]) == 0);
    }
    clear_hosts();
}

TEST("a host that does not know the secret comes in nowhere") {
    pid_t pids[2];
    timeout_ms = 1000;
    make_hosts(&(struct layout){{1, 1}});
    pids[0] = start_on_host(0, words);
    secret = "0123456789abcdef0123456789abcdee";
    pids[1] = start_on_host(1, words);
    EXPECT(end_of(pids[0]) == FAILED && end_of(pids[1]) == FAILED);
    EXPECT(reported(0, "AR-HOST-CONNECT", "rank 0 has no connection to host 1") && reported(1, "AR-HOST-CONNECT", "host 0"));
    clear_hosts();
    secret = "0123456789abcdef0123456789abcdef";
    timeout_ms = 20000;
}

/* ---- what a segment must be */

TEST("hosts that do not make up the job are refused") {
    const char *problem = NULL;
    make_hosts(&(struct layout){{1, 1}});
    struct comm_options options = {
        .rank = 0, .world_size = 2, .collective_timeout_ms = 1, .segment = boards[1], .segment_bytes = segment_bytes(2), .fail = fail};
    EXPECT(comm_open(&options, &problem) == -1 && problem); /* rank 0 is not on host 1 */
    boards[0]->list[1].first = 2;
    options.segment = boards[0];
    EXPECT(comm_open(&options, &problem) == -1 && problem);
    clear_hosts();
}
