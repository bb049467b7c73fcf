/*
 * Ranks that do not do the same are stopped here, by name, before a single wrong number is made.
 *
 * Rules
 *  - Compared: sequence number, kind, label, bytes, type, operation, root, parts, and all that comm_note() folded in since the last collective.
 *  - Only the hash is compared in the good case (one line per rank, the one that the barrier has read anyway); the words are for the message.
 *  - All ranks find the same pair (rank 0 and the first rank that differs from it), so whichever message the user sees is the same. Over several hosts each
 *    compares its own ranks with its leader, then the leaders compare themselves (hosts.c).
 */
#include "agree.h"

#include "barrier.h"
#include "clock.h"
#include "hosts.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    AGREE_TEXT = 1024,
    KEPT_FIRST = 16,
    KEPT_MOST = 4096, /* threads that have noted something and not had their turn yet */
    PATIENCE_PAUSES = 3,
    PATIENCE_LEAST_MS = 1000,
    PATIENCE_MOST_MS = 10000,
};

static const char *const kind_words[SEGMENT_KINDS] = {
    [KIND_BARRIER] = "barrier",
    [KIND_ALL_REDUCE] = "all-reduce",
    [KIND_ALL_GATHER] = "all-gather",
    [KIND_BROADCAST] = "broadcast",
    [KIND_ALL_GATHER_WORDS] = "all-gather of a word",
};
static const char *const dtype_words[COMM_DTYPES] = {
    [COMM_FLOAT32] = "float32", [COMM_FLOAT64] = "float64", [COMM_FLOAT16] = "float16", [COMM_BFLOAT16] = "bfloat16",
    [COMM_INT64] = "int64",     [COMM_INT32] = "int32",     [COMM_INT16] = "int16",     [COMM_INT8] = "int8",
    [COMM_UINT8] = "uint8",     [COMM_BOOL] = "bool",
};
static const char *const op_words[COMM_OPS] = {[COMM_SUM] = "sum", [COMM_MIN] = "minimum", [COMM_MAX] = "maximum"};

static struct segment_post *own_post(uint64_t sequence) {
    return &segment_control(segment.options.rank)->posts[sequence % 2];
}

static uint64_t hash_text(uint64_t hash, const char *text) {
    size_t left = strlen(text);
    for (; left >= 8; left -= 8, text += 8) {
        uint64_t word;
        memcpy(&word, text, 8);
        hash = agree_mix(hash, word);
    }
    uint64_t word = 0;
    memcpy(&word, text, left);
    return agree_mix(hash, word | (uint64_t)(left + 1) << 56);
}

static void copy_text(char *to, const char *from, size_t room) {
    size_t length = strnlen(from, room - 1);
    memcpy(to, from, length);
    to[length] = 0;
}

/* The hash of notes is a polynomial of theirs, in their order: that of two lists, one behind the other, follows from those of the lists. */
#define NOTES_BASE 0x5851f42d4c957f2du

static uint64_t power(uint64_t base, uint32_t exponent) {
    uint64_t result = 1;
    for (; exponent; exponent >>= 1, base *= base) {
        result = exponent & 1 ? result * base : result;
    }
    return result;
}

static void note(struct segment_post *post, const char *what, uint64_t value) {
    struct segment_note *note = &post->notes[post->note_count++ % SEGMENT_NOTES];
    copy_text(note->name, what, sizeof note->name);
    note->value = value;
    post->notes_hash = post->notes_hash * NOTES_BASE + hash_text(agree_mix(0, value), what);
}

/* As if all of `more` had been noted in the post one by one. */
static void append_notes(struct segment_post *post, const struct segment_post *more) {
    uint32_t first = more->note_count > SEGMENT_NOTES ? more->note_count - SEGMENT_NOTES : 0;
    for (uint32_t index = first; index < more->note_count; index++) {
        post->notes[(post->note_count + index) % SEGMENT_NOTES] = more->notes[index % SEGMENT_NOTES];
    }
    post->notes_hash = post->notes_hash * power(NOTES_BASE, more->note_count) + more->notes_hash;
    post->note_count += more->note_count;
}

static void forget_notes(struct segment_post *post) {
    post->note_count = 0;
    post->notes_hash = 0;
}

/* ---- threads */

/* What threads have noted between their turns. Of very many, one that never has a turn again loses its place to others. */
static struct kept {
    uint64_t thread;
    int is_used;
    struct segment_post notes;
} * kept;
static unsigned kept_next, kept_room;
static _Atomic unsigned kept_count;

static struct kept *kept_find(uint64_t thread) {
    for (unsigned i = 0; kept_count && i < kept_room; i++) {
        if (kept[i].is_used && kept[i].thread == thread) {
            return &kept[i];
        }
    }
    return NULL;
}

static struct kept *kept_free(void) {
    for (unsigned i = 0; i < kept_room; i++) {
        if (!kept[i].is_used) {
            return &kept[i];
        }
    }
    unsigned room = kept_room ? 2 * kept_room : KEPT_FIRST;
    struct kept *more = room <= KEPT_MOST ? realloc(kept, room * sizeof *kept) : NULL;
    if (!more) {
        return kept_room ? &kept[kept_next++ % kept_room] : NULL;
    }
    memset(more + kept_room, 0, (room - kept_room) * sizeof *kept);
    kept = more;
    kept_room = room;
    return &kept[room / 2];
}

static struct segment_post *kept_of(uint64_t thread) {
    struct kept *found = kept_find(thread);
    found = found ? found : kept_free();
    if (!found) {
        segment.options.fail("AR-MEMORY", "no memory is left for what a thread has to tell the other ranks");
    }
    if (!found->is_used || found->thread != thread) {
        forget_notes(&found->notes);
    }
    kept_count += !found->is_used;
    found->thread = thread;
    found->is_used = 1;
    return &found->notes;
}

void comm_note(const char *what, uint64_t value) {
    if (segment.options.world_size < 2) {
        return;
    }
    int is_for_next = segment.has_turn || !turn_are_several();
    note(is_for_next ? own_post(segment.sequence + 1) : kept_of(segment.options.thread()), what, value);
}

static void kept_give_up(struct kept *mine) {
    mine->is_used = 0;
    kept_count--;
}

void comm_note_no_more(uint64_t thread) {
    struct kept *mine = kept_find(thread);
    if (mine) {
        kept_give_up(mine);
    }
}

int comm_has_notes(void) {
    return atomic_load_explicit(&kept_count, memory_order_relaxed) != 0;
}

/* As on a rank that has had no second thread yet. */
void agree_take_notes(uint64_t thread) {
    struct kept *mine = kept_find(thread);
    if (mine) {
        append_notes(own_post(segment.sequence + 1), &mine->notes);
        kept_give_up(mine);
    }
}

/* ---- wishes */

static _Thread_local uint32_t granted;

void comm_wish(uint32_t bits, int by_main) {
    if (by_main) {
        atomic_fetch_or(&segment.wishes_of_main, bits);
    } else {
        atomic_fetch_and(&segment.wishes_of_main, ~bits);
    }
    atomic_fetch_or(&segment.wishes, bits);
}

void comm_wish_no_more(uint32_t bits) {
    atomic_fetch_and(&segment.wishes, ~bits);
}

static uint32_t wishes_of_turn(void) {
    uint32_t wishes = atomic_load_explicit(&segment.wishes, memory_order_relaxed);
    return segment.thread ? wishes & ~atomic_load_explicit(&segment.wishes_of_main, memory_order_relaxed) : wishes;
}

uint32_t comm_granted(void) {
    uint32_t bits = granted;
    if (__builtin_expect(bits != 0, 0)) {
        granted = 0;
    }
    return bits;
}

/* ---- entering and passing */

static void note_pause(void) {
    uint64_t pause = segment.left_ns ? segment.entered_ns - segment.left_ns : 0;
    segment.pause_ns = pause > segment.pause_ns ? pause : segment.pause_ns;
}

void agree_enter(const char *label, const struct agree_call *call) {
    struct board_rank *shown = &segment.board->ranks[segment.options.rank];
    struct segment_post *post = own_post(++segment.sequence);
    segment.label = label;
    segment_wait_begins();
    segment.entered_ns = segment.looked_ns;
    note_pause();
    segment.statistics.collectives++;
    segment.statistics.bytes += call->bytes;
    copy_text(shown->where, label, sizeof shown->where);
    atomic_store_explicit(&shown->collective, segment.sequence, memory_order_relaxed);
    atomic_store_explicit(&shown->waiting, BOARD_WAITS, memory_order_relaxed);

    post->sequence = segment.sequence;
    post->kind = call->kind;
    post->dtype = call->dtype;
    post->op = call->op;
    post->root = call->root;
    post->bytes = call->bytes;
    post->blocks = call->blocks;
    post->shape = call->shape;
    copy_text(post->label, label, sizeof post->label);
    struct segment_control *control = segment_control(segment.options.rank);
    /* one after the other into a hash: of two numbers in one mix, 8 bytes of type 4 are 12 of type 0 */
    uint64_t what = agree_mix(agree_mix(0, call->bytes), call->dtype);
    uint64_t hash = agree_mix(agree_mix(0, segment.sequence), (uint64_t)call->kind | (uint64_t)call->op << 16 | (uint64_t)call->root << 24 |
                                                                  (uint64_t)(call->list != 0) << 31);
    hash = agree_mix(agree_mix(agree_mix(hash, call->list ? 0 : what), call->blocks), call->shape);
    hash = agree_mix(agree_mix(hash_text(hash, label), post->notes_hash), segment.thread);
    atomic_store_explicit(&control->check[segment.sequence % 2], hash, memory_order_relaxed);
    atomic_store_explicit(&control->list[segment.sequence % 2], call->list ? agree_mix(call->list, what) : 0, memory_order_relaxed);
    atomic_store_explicit(&control->wishes[segment.sequence % 2], wishes_of_turn(), memory_order_relaxed);
}

static int describe_call(char *text, size_t room, uint32_t rank, const struct segment_post *post) {
    int used = snprintf(text, room, "rank %u is in its collective %llu, %s \"%.*s\"", rank, (unsigned long long)post->sequence,
                        kind_words[post->kind % SEGMENT_KINDS], SEGMENT_LABEL_CHARS - 1, post->label);
    if (post->kind == KIND_ALL_REDUCE) {
        used += snprintf(text + used, room - (size_t)used, " (%s of %llu bytes of %s)", op_words[post->op % COMM_OPS],
                         (unsigned long long)post->bytes, dtype_words[post->dtype % COMM_DTYPES]);
    } else if (post->kind == KIND_ALL_GATHER) {
        used += snprintf(text + used, room - (size_t)used, " (%llu bytes in %llu blocks, parts %08x)", (unsigned long long)post->bytes,
                         (unsigned long long)post->blocks, (unsigned)post->shape);
    } else if (post->kind == KIND_BROADCAST) {
        used += snprintf(text + used, room - (size_t)used, " (%llu bytes from rank %u)", (unsigned long long)post->bytes, post->root);
    }
    return used;
}

/* The first note, among those kept, that differs; its words go to text. */
static void describe_notes(char *text, size_t room, uint32_t base, uint32_t rank) {
    const struct segment_post *zero = &segment_control(base)->posts[segment.sequence % 2];
    const struct segment_post *other = &segment_control(rank)->posts[segment.sequence % 2];
    uint32_t count = zero->note_count > other->note_count ? zero->note_count : other->note_count;
    uint32_t first = count > SEGMENT_NOTES ? count - SEGMENT_NOTES : 0;
    for (uint32_t index = first; index < count; index++) {
        const struct segment_note *mine = &zero->notes[index % SEGMENT_NOTES], *theirs = &other->notes[index % SEGMENT_NOTES];
        if (index >= zero->note_count || index >= other->note_count) {
            uint32_t only = index >= zero->note_count ? rank : base;
            snprintf(text, room, "rank %u has \"%.*s\" (%016llx), rank %u has not; noticed in \"%s\"", only, SEGMENT_NOTE_CHARS - 1,
                     (only == rank ? theirs : mine)->name, (unsigned long long)(only == rank ? theirs : mine)->value,
                     only == rank ? base : rank, segment.label);
            return;
        }
        if (strncmp(mine->name, theirs->name, SEGMENT_NOTE_CHARS)) {
            snprintf(text, room, "rank %u has \"%.*s\" where rank %u has \"%.*s\"; noticed in \"%s\"", rank, SEGMENT_NOTE_CHARS - 1,
                     theirs->name, base, SEGMENT_NOTE_CHARS - 1, mine->name, segment.label);
            return;
        }
        if (mine->value != theirs->value) {
            snprintf(text, room, "rank %u has another %.*s than rank %u (%016llx against %016llx); noticed in \"%s\"", rank,
                     SEGMENT_NOTE_CHARS - 1, mine->name, base, (unsigned long long)theirs->value, (unsigned long long)mine->value,
                     segment.label);
            return;
        }
    }
    snprintf(text, room, "ranks %u and %u differ in something noted before the last %d facts; noticed in \"%s\"", base, rank, SEGMENT_NOTES,
             segment.label);
}

static int same_call(const struct segment_post *a, const struct segment_post *b) {
    return a->sequence == b->sequence && a->kind == b->kind && a->dtype == b->dtype && a->op == b->op && a->root == b->root &&
           a->bytes == b->bytes && a->blocks == b->blocks && a->shape == b->shape && !strncmp(a->label, b->label, SEGMENT_LABEL_CHARS);
}

void agree_fail(uint32_t base, uint32_t rank) {
    char text[AGREE_TEXT];
    const struct segment_post *zero = &segment_control(base)->posts[segment.sequence % 2];
    const struct segment_post *other = &segment_control(rank)->posts[segment.sequence % 2];
    if (zero->notes_hash != other->notes_hash) { /* first: what went in explains what is done differently afterwards */
        describe_notes(text, sizeof text, base, rank);
    } else if (same_call(zero, other)) {
        snprintf(text, sizeof text, "ranks %u and %u have the labels of two calls that differ after %d characters, at \"%.*s\"", base, rank,
                 SEGMENT_LABEL_CHARS - 1, SEGMENT_LABEL_CHARS - 1, zero->label);
    } else {
        int used = describe_call(text, sizeof text, base, zero);
        used += snprintf(text + used, sizeof text - (size_t)used, "; ");
        describe_call(text + used, sizeof text - (size_t)used, rank, other);
    }
    segment.options.fail("AR-RANKS-PARTED", text);
}

uint32_t agree_wishes_here(void) {
    uint32_t wishes = ~0u;
    for (uint32_t rank = segment.first; rank < segment.last; rank++) {
        wishes &= atomic_load_explicit(&segment_control(rank)->wishes[segment.sequence % 2], memory_order_relaxed);
    }
    return wishes;
}

static void grant_wishes(void) {
    uint32_t wishes = segment_is_spread() ? atomic_load(&segment.common->wishes[segment.sequence % 2]) : agree_wishes_here();
    if (wishes) {
        comm_wish_no_more(wishes);
        granted |= wishes;
    }
}

void agree_pass(const struct agree_stage *stage) {
    barrier_pass();
    uint64_t own = atomic_load_explicit(&segment_control(segment.first)->check[segment.sequence % 2], memory_order_relaxed);
    for (uint32_t rank = segment.first + 1; rank < segment.last; rank++) {
        if (atomic_load_explicit(&segment_control(rank)->check[segment.sequence % 2], memory_order_relaxed) != own) {
            agree_fail(segment.first, rank);
        }
    }
    if (segment_is_spread()) {
        hosts_agree(stage);
    }
    grant_wishes();
    /* All have left the collective before this one: its post is free for the notes of the next. */
    forget_notes(own_post(segment.sequence + 1));
}

int agree_same_list_here(void) {
    uint64_t own = atomic_load_explicit(&segment_control(segment.first)->list[segment.sequence % 2], memory_order_relaxed);
    for (uint32_t rank = segment.first + 1; rank < segment.last; rank++) {
        if (atomic_load_explicit(&segment_control(rank)->list[segment.sequence % 2], memory_order_relaxed) != own) {
            return 0;
        }
    }
    return 1;
}

int agree_same_list(void) {
    return segment_is_spread() ? (int)atomic_load(&segment.common->same_list[segment.sequence % 2]) : agree_same_list_here();
}

void agree_leave(void) {
    segment.left_ns = clock_ns();
    segment.statistics.wait_ns += segment.left_ns - segment.entered_ns;
    atomic_store_explicit(&segment.board->ranks[segment.options.rank].waiting, BOARD_WAITS_NOT, memory_order_relaxed);
}

void comm_step(void) {
    segment.pause_before_ns = segment.pause_ns;
    segment.pause_ns = 0;
}

uint64_t comm_patience_ns(void) {
    uint64_t pause = segment.pause_ns > segment.pause_before_ns ? segment.pause_ns : segment.pause_before_ns;
    uint64_t patience = PATIENCE_PAUSES * pause, least = PATIENCE_LEAST_MS * 1000000ull, most = PATIENCE_MOST_MS * 1000000ull;
    patience = patience < least ? least : patience > most ? most : patience;
    int is_near = segment.left_ns && (segment.entered_ns > segment.left_ns || clock_ns() - segment.left_ns < patience);
    return is_near ? patience : 0;
}
