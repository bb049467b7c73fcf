/* Standard output's buffers: who prints moves pointers there, before anything is written. */
#include <string.h>

#include "../checksum.h"
#include "../resolve.h"
#include "loader.h"

/* glibc's object behind the variable stdout. */
extern char _IO_2_1_stdout_[];

/* libstdc++: an ostream is a table of virtual functions and a virtual base, ios_base of 216 bytes, two words, then the address of the buffer,
   which has a table and six pointers (gcc 3.4 and since). It is used where the program has asked for sync_with_stdio(false). */
enum { STREAM_POINTERS = 72, COUT_BUFFER = 240, BUFFER_POINTERS = 56 };

uint64_t output_sum(void) {
    static _Atomic(const char *) cout;
    uint64_t sum = checksum_bytes(1, _IO_2_1_stdout_, STREAM_POINTERS);
    if (!cout)
        cout = resolve_data("libstdc++", "_ZSt4cout");
    const void *buffer = NULL;
    if (cout)
        memcpy(&buffer, cout + COUT_BUFFER, sizeof buffer);
    char pointers[BUFFER_POINTERS]; /* one of the program's own, which may be gone */
    return peek_memory(buffer, pointers, sizeof pointers) ? checksum_bytes(sum, pointers, sizeof pointers) : sum;
}
