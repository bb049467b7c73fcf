/* The leaves to which a backward has brought gradients, in the order in which they came. ACCUMULATE_SCOPE. */
#include <stdlib.h>

#include "reduce.h"

struct tensor *reached_copy(struct tensor *leaf, struct tensor *gradient) {
    if (!unseen_has_reducer() || !tensor_is_plain(gradient) || tensor_is_marked(gradient) || tensor_is_marked(leaf))
        return NULL;
    OPAQUE_SCOPE;
    return TORCH_CALL("aten::clone", "", value_tensor(gradient), value_none()).tensor;
}

enum { FEW = 32 }; /* the first ones, which are looked for one by one; the others are in a table */

/* One that is gone may have left its place to another leaf. */
struct leaf_gradient *reached_find(const struct backward *backward, struct tensor *leaf) {
    size_t place = (size_t)pairs_get(&backward->places, leaf);
    for (size_t i = 0; i < FEW && i < backward->count; i++)
        if (backward->leaves[i].leaf == leaf && leaf_has_ordinal(leaf, backward->leaves[i].ordinal))
            return &backward->leaves[i];
    struct leaf_gradient *found = place && place <= backward->count ? &backward->leaves[place - 1] : NULL;
    return found && leaf_has_ordinal(leaf, found->ordinal) ? found : NULL;
}

static void note_place(struct backward *backward, size_t index) {
    if (index >= FEW)
        pairs_put(&backward->places, backward->leaves[index].leaf, (void *)(index + 1));
}

/* May it be, or lie in, another leaf's gradient, too? */
static bool may_be_shared(struct tensor *gradient) {
    return tensor_is_plain(gradient) && tensor_has_memory(gradient) &&
           (tensor_owners(gradient) != 1 || storage_owners(tensor_storage(gradient)) != 1);
}

/* The program has given another leaf the same memory for its gradient, and this rank's part of that is there already: whether it is all zeros says nothing,
   and is not the same on all ranks. Programs that keep all gradients in one buffer ask for each of thousands: so addresses alone are compared. */
static bool is_written_to(const struct backward *backward, struct tensor *gradient) {
    const char *memory = tensor_data(gradient), *end = memory + tensor_bytes(gradient);
    for (size_t i = 0; i < backward->count; i++) {
        const struct leaf_gradient *leaf = &backward->leaves[i];
        if (leaf->memory < end && memory < leaf->memory + leaf->bytes && leaf_has_ordinal(leaf->leaf, leaf->ordinal))
            return true;
    }
    return false;
}

void reached_add(struct backward *backward, struct tensor *leaf, const void *thread) {
    if (reached_find(backward, leaf))
        return;
    if (backward->count == backward->room) {
        backward->room = backward->room ? 2 * backward->room : 64;
        backward->leaves = realloc(backward->leaves, backward->room * sizeof *backward->leaves);
    }
    before_settle(leaf);
    struct tensor **slot = tensor_grad_slot(leaf);
    bool has_gradient = *slot && *slot != torch_facts.undefined;
    bool is_shared = has_gradient && may_be_shared(*slot);
    bool was_zero = has_gradient && !(is_shared && is_written_to(backward, *slot)) && before_is_left_in_place(leaf, *slot);
    bool put_aside = has_gradient && !was_zero;
    backward->leaves[backward->count++] = (struct leaf_gradient){.leaf = leaf,
                                                                 .ordinal = leaf_ordinal(leaf),
                                                                 .arrival = backward->arrivals++,
                                                                 .thread = thread,
                                                                 .before = put_aside ? *slot : NULL,
                                                                 .zeros = was_zero ? *slot : NULL,
                                                                 .memory = was_zero && is_shared ? tensor_data(*slot) : NULL,
                                                                 .bytes = was_zero && is_shared ? tensor_bytes(*slot) : 0,
                                                                 .copy = put_aside ? reached_copy(leaf, *slot) : NULL,
                                                                 .is_half = pairs_get(&backward->halves, leaf)};
    note_place(backward, backward->count - 1);
    if (put_aside)
        *slot = torch_facts.undefined;
}

void reached_withdraw(struct backward *backward, struct tensor *leaf) {
    struct leaf_gradient *found = reached_find(backward, leaf);
    if (!found)
        return;
    if (found->before)
        *tensor_grad_slot(leaf) = found->before;
    tensor_release(found->copy);
    *found = backward->leaves[--backward->count];
    if (found != &backward->leaves[backward->count])
        note_place(backward, (size_t)(found - backward->leaves));
}

void reached_take(struct backward *from, struct backward *to, const struct reached_taken *taken) {
    size_t kept = 0;
    to->leaves = malloc(from->count * sizeof *to->leaves);
    for (size_t i = 0; i < from->count; i++) {
        const struct leaf_gradient *leaf = &from->leaves[i];
        if (leaf->arrival >= taken->first && (!taken->thread || leaf->thread == taken->thread))
            to->leaves[to->count++] = *leaf;
        else
            from->leaves[kept++] = *leaf;
    }
    to->room = from->count;
    from->count = kept;
    pairs_free(&from->places);
    for (size_t i = 0; i < kept; i++)
        note_place(from, i);
}

void reached_free(struct backward *backward) {
    free(backward->leaves);
    pairs_free(&backward->places);
}
