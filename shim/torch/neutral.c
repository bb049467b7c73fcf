/*
 * What the shim finds out and checks before it begins is done as in a thread that has set nothing: a program may make its first model within
 * c10::InferenceMode, or with autocast on, and tensors and operators would be others then.
 */
#include <string.h>

#include "../shim.h"
#include "functions.h"

enum { STATE_BYTES = 48, GRAD = 1, INFERENCE = 2, FORWARD_GRAD = 4 }; /* c10::AutogradState: its first three flags, 1.13 to 2.15 */

/* The byte of this thread's flags: the one that changes with the first; NULL: not found. */
static unsigned char *find_flags(void) {
    unsigned char before[STATE_BYTES], after[STATE_BYTES],
        *state = torch_functions.autograd_state ? torch_functions.autograd_state() : NULL;
    char enabled = torch_functions.grad_mode();
    if (!state || !peek_memory(state, before, sizeof before))
        return NULL;
    torch_functions.set_grad_mode(!enabled);
    bool is_read = peek_memory(state, after, sizeof after);
    torch_functions.set_grad_mode(enabled);
    for (int i = 0; is_read && i < STATE_BYTES; i++)
        if (before[i] != after[i])
            return (before[i] ^ after[i]) == GRAD ? state + i : NULL;
    return NULL;
}

struct neutral neutral_begin(void) {
    struct neutral had = {.flags = find_flags()};
    uint64_t *keys = dispatch_thread_keys(); /* zeros are the defaults */
    memcpy(had.keys, keys, sizeof had.keys);
    memset(keys, 0, sizeof had.keys);
    if (had.flags) {
        had.value = *had.flags;
        *had.flags = (unsigned char)((had.value & ~INFERENCE) | GRAD | FORWARD_GRAD);
    }
    return had;
}

void neutral_end(const struct neutral *had) {
    memcpy(dispatch_thread_keys(), had->keys, sizeof had->keys);
    if (had->flags)
        *had->flags = had->value;
}
