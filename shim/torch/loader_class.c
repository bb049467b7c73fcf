/*
 * Is a data loader a plain one, by its type? The classes of libtorch in its name say what they do (nobody may define others of these names); of the program's
 * own classes it must be known that they inherit the function which reads a batch example by example. An override leaves no trace in a type, but in the vtable:
 * the slot of get_batch() must hold the function that the program's symbol table calls Dataset<...>::get_batch().
 */
#include <stdlib.h>
#include <string.h>

#include "../symbols.h"
#include "loader.h"
#include "peek.h"

enum { VTABLE_SLOT = 4 }; /* words into a vtable: offset to top, type_info, two destructors, then the first function of the class's base */

struct span { /* a part of a demangled name */
    const char *text;
    size_t length;
};

static bool span_is(struct span span, const char *text) {
    return span.length == strlen(text) && !strncmp(span.text, text, span.length);
}

static bool span_begins(struct span span, const char *text) {
    return span.length >= strlen(text) && !strncmp(span.text, text, strlen(text));
}

/* "prefix<A,B>" → the arguments; false when the span is something else. */
static bool template_arguments(struct span span, const char *prefix, struct span arguments[2]) {
    size_t start = strlen(prefix);
    if (!span_begins(span, prefix) || span.length < start + 3 || span.text[start] != '<' || span.text[span.length - 1] != '>')
        return false;
    const char *begin = span.text + start + 1, *end = span.text + span.length - 1;
    int depth = 0, found = 0;
    for (const char *at = begin; at <= end; at++) {
        if (at < end && strchr("<([{", *at))
            depth++;
        else if (at < end && strchr(">)]}", *at))
            depth--;
        else if (at == end || (*at == ',' && !depth)) {
            if (found == 2)
                return false;
            arguments[found++] = (struct span){begin, (size_t)(at - begin)};
            begin = at + 1;
        }
        if (depth < 0)
            return false;
    }
    return found == 2 && depth == 0;
}

/* Without spaces: demanglers of different ages write "> >" or ">>". */
static char *demangle_dense(const char *mangled) {
    char *text = symbol_demangle(mangled), *to = text;
    for (const char *from = text; from && *from; from++)
        if (*from != ' ')
            *to++ = *from;
    if (text)
        *to = 0;
    return text;
}

/* ---- the program's own classes */

struct class_search {
    const struct symbols *symbols;
    struct span class_name;
    const char *owner, *function; /* what the name of the slot's function begins with, and has in it */
    char *slot;
    bool found, inherits;
};

static bool visit_slot(const char *name, char *address, void *data) {
    struct class_search *search = data;
    return address == search->slot && !strncmp(name, search->owner, strlen(search->owner)) && strstr(name, search->function);
}

static bool visit_vtable(const char *name, char *address, void *data) {
    static const char is_vtable[] = "vtablefor";
    struct class_search *search = data;
    if (strncmp(name, "_ZTV", 4))
        return false;
    char *text = demangle_dense(name);
    bool is_class = text && !strncmp(text, is_vtable, sizeof is_vtable - 1) && span_is(search->class_name, text + sizeof is_vtable - 1);
    free(text);
    if (!is_class)
        return false;
    if (!peek_word((char **)address + VTABLE_SLOT, (void **)&search->slot)) /* the file was made anew since the program has begun */
        return false;
    bool inherits = symbols_find(search->symbols, visit_slot, search);
    search->inherits = inherits && (search->inherits || !search->found); /* two of one name (in two files): both must */
    search->found = true;
    return false;
}

static bool class_inherits(const struct symbols *symbols, struct span class_name, const char *owner, const char *function) {
    struct class_search search = {.symbols = symbols, .class_name = class_name, .owner = owner, .function = function};
    symbols_find(symbols, visit_vtable, &search);
    return search.found && search.inherits;
}

/* ---- the chain */

static bool begins_with_any(struct span span, const char *const *names, int count) {
    for (int i = 0; i < count; i++)
        if (span_begins(span, names[i]))
            return true;
    return false;
}

static bool transform_is_plain(const struct symbols *symbols, struct span transform) {
    static const char *const library[] = {"torch::data::transforms::Normalize<", "torch::data::transforms::TensorLambda<",
                                          "torch::data::transforms::Lambda<"};
    if (span_begins(transform, "torch::"))
        return begins_with_any(transform, library, 3);
    return class_inherits(symbols, transform, "_ZN5torch4data10transforms9TransformI", "E11apply_batchE");
}

static bool dataset_is_plain(const struct symbols *symbols, struct span dataset) {
    if (span_begins(dataset, "torch::"))
        return span_is(dataset, "torch::data::datasets::MNIST") || span_is(dataset, "torch::data::datasets::TensorDataset");
    return class_inherits(symbols, dataset, "_ZN5torch4data8datasets7DatasetI", "E9get_batchE");
}

static int tensors_of_stack(struct span transform) {
    static const char pair[] = "torch::data::transforms::Stack<torch::data::Example<at::Tensor,at::Tensor>>";
    static const char single[] = "torch::data::transforms::Stack<torch::data::Example<at::Tensor,void>>";
    return span_is(transform, pair) ? 2 : span_is(transform, single) ? 1 : 0;
}

static bool is_own_sampler(struct span sampler) {
    return !span_is(sampler, "torch::data::samplers::RandomSampler") && !span_is(sampler, "torch::data::samplers::SequentialSampler");
}

static const char loader_template[] = "torch::data::StatelessDataLoader";

static const char *chain_fault(const struct symbols *symbols, struct span loader, int *tensors) {
    static const char map[] = "torch::data::datasets::MapDataset";
    struct span parts[2], inner[2];
    if (!template_arguments(loader, loader_template, parts))
        return "its type is not understood";
    if (is_own_sampler(parts[1]))
        return "its sampler is the program's own";
    if (!template_arguments(parts[0], map, inner))
        return "its data set makes batches by itself";
    *tensors = tensors_of_stack(inner[1]);
    if (!*tensors)
        return "its batches are not made by transforms::Stack";
    struct span dataset = inner[0];
    while (template_arguments(dataset, map, inner)) {
        if (!transform_is_plain(symbols, inner[1]))
            return "a transform looks at whole batches, or its class is not found in the program's symbol table";
        dataset = inner[0];
    }
    if (!dataset_is_plain(symbols, dataset))
        return "its data set has a get_batch() of its own, or is not found in the program's symbol table";
    return NULL;
}

/* Whether a worker's get() throws is not seen there. */
static bool is_own_exception(const char *name, char *address, void *data) {
    (void)address;
    (void)data;
    return !strcmp(name, "_ZSt17current_exceptionv");
}

int loader_stacked_tensors(const struct loader_view *view, const char **why) {
    char *name = demangle_dense(view->class_name);
    int tensors = 0;
    *why = "its type has no name";
    if (name) {
        struct symbols symbols = symbols_open(view->vtable);
        *why = view->workers && symbols_find(&symbols, is_own_exception, NULL)
                   ? "it has workers, and libstdc++ is a part of the program (-static-libstdc++)"
                   : chain_fault(&symbols, (struct span){name, strlen(name)}, &tensors);
        symbols_close(&symbols);
    }
    free(name);
    return *why ? 0 : tensors;
}

bool loader_has_own_sampler(const struct loader_view *view) {
    char *name = demangle_dense(view->class_name);
    struct span parts[2];
    bool is_own = !name || !template_arguments((struct span){name, strlen(name)}, loader_template, parts) || is_own_sampler(parts[1]);
    free(name);
    return is_own;
}
