#include "twin.h"

/* TWICE_MS: as launcher/signals.c has it. */
enum { TWIN_MS = 1000, TWICE_MS = 100 };

/* timeout(1) sends its signal to its child, then to the group that this is in. */
static bool is_said_twice(struct twin *twin, const struct twin_arrival *arrival) {
    if (arrival->is_of_launcher)
        return false;
    bool is_again = arrival->sender && arrival->sender == twin->sender && arrival->now_ms - twin->sent_ms < TWICE_MS;
    twin->sender = arrival->sender;
    twin->sent_ms = arrival->now_ms;
    return is_again && arrival->is_once;
}

bool twin_take(struct twin *twin, const struct twin_arrival *arrival) {
    bool from = arrival->is_of_launcher;
    if (is_said_twice(twin, arrival))
        return true;
    bool is_twin = arrival->now_ms - twin->first_ms < TWIN_MS && twin->is_known[!from] && !twin->is_known[from];
    if (!is_twin) {
        twin->is_known[!from] = false;
        twin->first_ms = arrival->now_ms;
    }
    twin->is_known[from] = true;
    return is_twin;
}
