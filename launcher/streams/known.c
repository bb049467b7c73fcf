#include "known.h"

#define EXIT_MS 1000 /* between the end of rank 0's streams and that of its process, where this is why they end */

static bool has_ended(const struct streams *streams, uint32_t rank, int which) {
    return streams->list[2 * rank + (uint32_t)which].source < 0;
}

/* Rank 0's stream ends before its process, which tells whether it was cut short; one that lives on has closed it, or prints elsewhere now. */
enum output_hold known_hold(const struct streams *streams, int which, uint64_t now_ms) {
    bool is_held = streams->zero == STREAMS_CUT;
    if (streams->is_whole[which])
        return OUTPUT_KNOWN;
    if (streams->zero == STREAMS_DIED)
        return OUTPUT_CUT;
    if (streams->zero == STREAMS_LIVES)
        is_held = now_ms - streams->ended_ms[which] < EXIT_MS;
    else if (streams->zero == STREAMS_ANSWERED)
        is_held = output_is_within_line(streams->outputs[which]);
    return is_held ? OUTPUT_HELD : OUTPUT_KNOWN;
}

void known_settle(struct streams *streams, int which, uint64_t now_ms) {
    struct output *output = streams->outputs[which];
    if (streams->is_whole[which] || !has_ended(streams, 0, which) || known_hold(streams, which, now_ms) != OUTPUT_KNOWN)
        return;
    streams->is_whole[which] = true;
    output_hold(output, OUTPUT_KNOWN);
    for (uint32_t rank = 0; rank < streams->world_size; rank++)
        if (has_ended(streams, rank, which))
            output_end(output, rank, now_ms);
}

bool known_is_open(const struct streams *streams) {
    for (int which = 0; which < 2; which++)
        if (has_ended(streams, 0, which) && !streams->is_whole[which])
            return true;
    return false;
}
