#include "hosts.h"

#include <stdatomic.h>
#include <string.h>

#include "barrier.h"
#include "network.h"

enum { SCRATCH_BYTES = 64 << 10 };

/* The beginning of every collective. */
struct hosts_word {
    uint64_t check, list;
    uint64_t bytes;  /* of the stages, which follow */
    uint64_t wishes; /* of all ranks of the host */
};

/* Sums of lists that differ inside a host: no list has these. Another one for each host, so that two such hosts differ, too. */
static uint64_t differing_list(void) {
    return ~(uint64_t)segment.host;
}

static size_t stage_bytes(const struct agree_stage *stage, uint32_t rank) {
    return !stage ? 0 : stage->bytes ? stage->bytes[rank] : stage->each;
}

static void send_stages(uint32_t host, const struct agree_stage *stage) {
    for (uint32_t rank = segment.first; rank < segment.last; rank++) {
        if (stage_bytes(stage, rank)) {
            network_send(host, segment_stage(rank, stage->turn), stage_bytes(stage, rank));
        }
    }
}

/* One receive for each rank of the largest host, on every connection: they are counted together. */
static void receive_stages(const struct agree_stage *stage) {
    uint32_t most = 0;
    for (uint32_t host = 0; host < segment.hosts; host++) {
        most = segment.board->list[host].count > most ? segment.board->list[host].count : most;
    }
    for (uint32_t host = 0; host < segment.hosts; host++) {
        for (uint32_t index = 0; host != segment.host && stage && index < most; index++) {
            uint32_t rank = segment_leader(host) + index;
            int is_there = index < segment.board->list[host].count;
            network_receive(host, is_there ? segment_stage(rank, stage->turn) : NULL, is_there ? stage_bytes(stage, rank) : 0);
        }
    }
}

/* Bytes that nobody wants. */
static void drop_stages(const struct hosts_word *words) {
    static unsigned char scratch[SCRATCH_BYTES];
    uint64_t most = 0;
    for (uint32_t host = 0; host < segment.hosts; host++) {
        most = host != segment.host && words[host].bytes > most ? words[host].bytes : most;
    }
    for (uint64_t done = 0; done < most; done += SCRATCH_BYTES) {
        for (uint32_t host = 0; host < segment.hosts; host++) {
            uint64_t left = words[host].bytes > done ? words[host].bytes - done : 0;
            if (host != segment.host) {
                network_receive(host, scratch, left < SCRATCH_BYTES ? (size_t)left : SCRATCH_BYTES);
            }
        }
        network_wait(network_mark());
    }
}

/* The leaders' posts come to their places in this segment; the first host that differs from host 0 is named. */
__attribute__((noreturn)) static void fail_parted(const struct hosts_word *words) {
    drop_stages(words);
    for (uint32_t host = 0; host < segment.hosts; host++) {
        if (host != segment.host) {
            struct segment_post *posts = segment_control(segment_leader(host))->posts;
            network_send(host, &segment_control(segment.first)->posts[segment.sequence % 2], sizeof *posts);
            network_receive(host, &posts[segment.sequence % 2], sizeof *posts);
        }
    }
    network_finish();
    uint32_t other = 1;
    while (other + 1 < segment.hosts && words[other].check == words[0].check) {
        other++;
    }
    agree_fail(0, segment_leader(other));
}

static void exchange(const struct agree_stage *stage) {
    static struct hosts_word words[BOARD_RANKS_MAX];
    struct hosts_word *own = &words[segment.host];
    struct segment_control *control = segment_control(segment.first);
    int is_same = agree_same_list_here();
    uint64_t wishes = ~(uint64_t)0;
    network_check();
    own->check = atomic_load_explicit(&control->check[segment.sequence % 2], memory_order_relaxed);
    own->list = is_same ? atomic_load_explicit(&control->list[segment.sequence % 2], memory_order_relaxed) : differing_list();
    own->wishes = agree_wishes_here();
    own->bytes = 0;
    for (uint32_t rank = segment.first; is_same && rank < segment.last; rank++) {
        own->bytes += stage_bytes(stage, rank);
    }
    for (uint32_t host = 0; host < segment.hosts; host++) {
        if (host != segment.host) {
            network_receive(host, &words[host], sizeof *words);
            network_send(host, own, sizeof *own);
            if (is_same) {
                send_stages(host, stage);
            }
        }
    }
    network_wait(network_mark());
    for (uint32_t host = 0; host < segment.hosts; host++) {
        if (words[host].check != words[0].check) {
            fail_parted(words);
        }
        is_same &= words[host].list == words[0].list;
        wishes &= words[host].wishes;
    }
    if (is_same) {
        receive_stages(stage);
    } else {
        drop_stages(words);
    }
    network_finish();
    atomic_store(&segment.common->same_list[segment.sequence % 2], (uint32_t)is_same);
    atomic_store(&segment.common->wishes[segment.sequence % 2], (uint32_t)wishes);
}

void hosts_agree(const struct agree_stage *stage) {
    if (segment_is_leader()) {
        exchange(stage);
    }
    barrier_pass();
}

void hosts_bring(const struct agree_stage *stage) {
    if (!segment_is_spread()) {
        return;
    }
    if (segment_is_leader()) {
        for (uint32_t host = 0; host < segment.hosts; host++) {
            if (host != segment.host) {
                send_stages(host, stage);
            }
        }
        receive_stages(stage);
        network_finish();
    }
    barrier_pass();
}
