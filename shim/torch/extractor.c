/*
 * Operators that have nothing to do with parameters alone. Of each operator libtorch keeps which keys of its arguments count (c10::DispatchKeyExtractor): a
 * key whose kernel would only fall through is left out, at no price. Our key for parameters is taken out there for operators whose client says so, by
 * libtorch's own function: they arrive when an argument has a record, by the other key, and else never. An optimizer's step is made of such operators.
 *
 * Only a matter of speed: where the place is not found, or is not what is expected, they go on arriving; so they do when libtorch computes an operator's
 * keys anew, because a kernel is registered for it.
 */
#include "../shim.h"
#include "functions.h"

static long extractor; /* within OperatorDef; 0: not found */

static int64_t word_at(const char *definition, long at) {
    int64_t word;
    memcpy(&word, definition + at, sizeof word);
    return word;
}

/* Its first word has a bit for each argument that may be a tensor, the last argument's lowest; the second the keys that count. */
static bool is_extractor(long at) {
    static const struct {
        const char *name, *overload;
        int64_t tensors;
    } known[] = {{"aten::relu", "", 1}, {"aten::mm", "", 3}, {"aten::add", "Tensor", 6}, {"aten::addmm", "", 28}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct handle handle;
        torch_functions.find_schema(&handle, torch_functions.dispatcher(), known[i].name, known[i].overload);
        uint64_t keys = (uint64_t)word_at(handle.definition, at + 8), ours = keys_ours();
        if (word_at(handle.definition, at) != known[i].tensors || (keys & ours) != ours || !(keys & torch_facts.bit_cpu) ||
            dispatch_without_fallthrough(&handle, keys) != keys)
            return false;
    }
    return true;
}

/* Behind the table, in every release from 1.13 to 2.15. */
void extractor_find(void) {
    int last = torch_facts.functionality_count - 1;
    long begin = torch_facts.table - 8 + (torch_facts.offset[last] + 1) * torch_facts.table_stride, found = 0;
    for (long at = begin; torch_functions.set_fallthrough && at < begin + 128; at += 8)
        if (is_extractor(at)) {
            extractor = at;
            found++;
        }
    if (found != 1)
        extractor = 0;
    shim_log('d', "the keys that count for an operator were found at %ld places: element-wise operators and views arrive %s", found,
             extractor ? "for divided tensors only" : "for parameters, too");
}

void extractor_skip_parameters(const struct operator *op) {
    if (extractor)
        torch_functions.set_fallthrough(op->definition + extractor, torch_facts.key_parameter, 1);
}
