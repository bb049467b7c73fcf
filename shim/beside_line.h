/* The ranks' lines of deeds on the board (beside.h): what is said there, which of the others' have been answered here, and what of them is owed. Any thread. */
#ifndef ACCEL_SHIM_BESIDE_LINE_H
#define ACCEL_SHIM_BESIDE_LINE_H

#include "shim.h"

struct board_deeds *beside_line(uint32_t rank);
/* place: as of board_deed. Returns its number. */
uint64_t beside_line_post(const struct beside *beside, int error, uint32_t place);

/* Of a rank that is looked at again and again, until it has come. */
struct beside_found {
    bool is_older; /* it has, but to one before, to which that was owed; it is filled in all the same */
    bool comes;    /* rank 0: it waits for others that have not come yet */
};
/* What the rank has come with to that key, or done. is_late: of names in which numbers of processes or times differ, too. */
bool beside_line_take(struct beside *beside, uint32_t rank, bool is_late, struct beside_found *found);
/* The rank is gone on without: what it comes with late is no other's. */
void beside_line_owe(uint32_t rank, uint64_t key);

#endif
