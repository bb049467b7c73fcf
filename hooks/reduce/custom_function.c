/*
 * Custom autograd functions (torch::autograd::Function, torch.autograd.Function). The forward is code of the program at user level, so it follows the rules
 * already. The backward is made to do so: the node's virtual function is ours, which shows the program gradients with records, runs it at user level, and
 * brings what it returns into the form in which it flows on. All functions, since a gradient is a part of a sum also where no argument is divided.
 */
#include <pthread.h>
#include <stdlib.h>

#include "reduce.h"

struct custom {
    size_t input_count, output_count;
    int64_t last_batch;           /* of the forward: what the backward computes again is divided as it was */
    struct custom_value values[]; /* the inputs, then the outputs */
};

static struct pairs customs; /* node → struct custom; an entry outlives its node and is replaced when the address is used again */
static pthread_mutex_t customs_mutex = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void custom_start(void) {
    threads_renew_in_child(&customs_mutex);
}

static void customs_unlock(int *unused) {
    pthread_mutex_unlock(&customs_mutex);
}
#define CUSTOMS_SCOPE __attribute__((cleanup(customs_unlock), unused)) int customs_scope_ = pthread_mutex_lock(&customs_mutex)

const struct custom *custom_of_node(void *node) {
    CUSTOMS_SCOPE;
    return pairs_get(&customs, node);
}

bool custom_is_divided(void *node) {
    CUSTOMS_SCOPE;
    const struct custom *custom = pairs_get(&customs, node);
    if (!custom || !node_is_replaced(node)) /* another node has its address now */
        return false;
    for (size_t i = 0; i < custom->input_count + custom->output_count; i++)
        if (custom->values[i].record.kind != RECORD_NONE)
            return true;
    return false;
}

static struct custom_value value_at(const struct custom *custom, size_t index, size_t first, size_t count) {
    static const struct custom_value none = {{.kind = RECORD_NONE}, {.dims = FIT_ANY}};
    return index < count ? custom->values[first + index] : none;
}

struct custom_value custom_input(const struct custom *custom, size_t index) {
    return value_at(custom, index, 0, custom->input_count);
}

struct custom_value custom_output(const struct custom *custom, size_t index) {
    return value_at(custom, index, custom->input_count, custom->output_count);
}

/* ---- backward */

/* Of what the program has returned, and nobody will take: an exception passes. NULL: all is well. */
static void drop_returned(struct vector **returned) {
    for (size_t i = 0; *returned && i < vector_tensors(*returned); i++)
        tensor_release(*vector_tensor(*returned, i));
}

static void *custom_apply(void *result, void *node, void *arguments) {
    const struct custom *custom = custom_of_node(node);
    node_apply *original;
    {
        CUSTOMS_SCOPE;
        original = node_original_apply(node);
    }
    if (!backward_is_divided() || !custom) {
        {
            BOUNDARY_SCOPE;
            original(result, node, arguments);
        }
        boundary_make_all_whole(result);
        return result;
    }
    struct vector *gradients = arguments; /* an rvalue: ours to change */
    for (size_t i = 0; i < vector_tensors(gradients); i++) {
        struct tensor **gradient = vector_tensor(gradients, i), *seen = *gradient;
        if (seen == torch_facts.undefined)
            continue;
        struct custom_value output = custom_output(custom, i);
        struct record record = boundary_record_of_gradient(&output.record);
        *gradient = boundary_show(seen, &record);
        tensor_release(seen);
    }
    {
        BOUNDARY_SCOPE;
        BATCH_SCOPE(custom->last_batch);
        original(result, node, gradients);
    }
    __attribute__((cleanup(drop_returned))) struct vector *returned = result;
    for (size_t i = 0; i < vector_tensors(returned); i++) {
        struct custom_value input = custom_input(custom, i);
        struct record wanted = boundary_record_of_gradient(&input.record);
        struct tensor **gradient = vector_tensor(returned, i), *given = *gradient;
        *gradient = torch_facts.undefined; /* ours, should the next throw */
        *gradient = boundary_return(fit_summed(given, &input.size, node, i), &wanted);
    }
    returned = NULL;
    return result;
}

/* ---- the end of a forward */

/* A custom function's forward is the last stretch without grad mode before its outputs are wrapped (Function::apply in C++, THPFunction_apply):
   whether rows were divided in it is known from there on. */
void hook_set_grad_mode(char enabled) {
    if (shim_active() && !enabled && grad_mode_is_enabled())
        dispatch_set_divided(false);
    ORIGINAL(set_grad_mode)(enabled);
}

/* What _wrap_outputs is given, whatever its spelling. */
struct wrapping {
    struct tensor *const *inputs; /* the tensors, or their addresses one level down */
    bool inputs_are_addresses;    /* ArrayRef<const Tensor *> (2.15) */
    size_t input_count;
    char *outputs;           /* optional<Tensor>, of the forward; the results are a vector of such */
    bool tensor_comes_first; /* std::optional; c10::optional has its flag first */
    size_t output_count;
    void *node; /* NULL: nothing requires grad, so no backward of the program's will run */
};

static struct tensor *wrapping_input(const struct wrapping *wrapping, size_t index) {
    return wrapping->inputs_are_addresses ? *((struct tensor *const *const *)wrapping->inputs)[index] : wrapping->inputs[index];
}

/* Of an array of optional<Tensor>, 16 bytes each; the undefined one when it is empty. */
static struct tensor *wrapping_tensor(const struct wrapping *wrapping, char *array, size_t index) {
    char *optional = array + 16 * index;
    bool engaged = optional[wrapping->tensor_comes_first ? 8 : 0];
    return engaged ? *(struct tensor **)(optional + (wrapping->tensor_comes_first ? 0 : 8)) : torch_facts.undefined;
}

static struct custom_value value_of(struct tensor *tensor) {
    struct custom_value value = {{.kind = RECORD_NONE}, {.dims = FIT_ANY}};
    if (tensor != torch_facts.undefined) {
        value.record = record_get(tensor);
        value.size = fit_size_of(tensor, &value.record);
    }
    return value;
}

/* The records before the outputs get their histories. NULL: not our concern. */
static struct custom *wrapping_begin(const struct wrapping *wrapping) {
    if (!shim_active() || dispatch_is_opaque() || !wrapping->node)
        return NULL;
    size_t count = wrapping->input_count + wrapping->output_count;
    struct custom *custom = malloc(sizeof *custom + count * sizeof custom->values[0]);
    custom->input_count = wrapping->input_count;
    custom->output_count = wrapping->output_count;
    custom->last_batch = *dispatch_client.last_batch();
    bool divided = dispatch_has_divided();
    for (size_t i = 0; i < wrapping->input_count; i++) {
        custom->values[i] = value_of(wrapping_input(wrapping, i));
        divided |= custom->values[i].record.kind != RECORD_NONE;
    }
    for (size_t i = 0; i < wrapping->output_count; i++) {
        struct custom_value *output = &custom->values[wrapping->input_count + i];
        *output = value_of(wrapping_tensor(wrapping, wrapping->outputs, i));
        if (output->record.kind == RECORD_NONE && divided) /* whole, but computed from rows: without grad mode nothing said so */
            output->record.kind = RECORD_GATHERED;
    }
    return custom;
}

/* The outputs have new histories, or are views of what the forward returned: marked anew. Takes custom. */
static void wrapping_end(const struct wrapping *wrapping, struct custom *custom, const struct vector *results) {
    if (!custom)
        return;
    for (size_t i = 0; i < custom->output_count && results->begin + 16 * i < results->end; i++) {
        struct tensor *result = wrapping_tensor(wrapping, results->begin, i);
        struct record record = custom_output(custom, i).record;
        if (record.kind == RECORD_NONE || result == torch_facts.undefined || !tensor_is_plain(result))
            continue;
        if (record.kind != RECORD_GATHERED || record.is_view_of_gathered || tensor_requires_grad(result))
            record_set(result, record);
    }
    CUSTOMS_SCOPE;
    node_replace_apply(wrapping->node, custom_apply);
    free(pairs_put(&customs, wrapping->node, custom));
}

/* At local sizes: they are what the engine compares gradients with. */
static struct opaque_scope wrapping_level(const struct custom *custom) {
    return custom ? opaque_enter() : (struct opaque_scope){NULL};
}
#define WRAPPING_SCOPE(custom) __attribute__((cleanup(opaque_leave), unused)) struct opaque_scope level = wrapping_level(custom)

/* inputs: std::vector<Tensor> */
static struct wrapping wrapping_of(struct tensor *const *const *inputs, void *outputs, size_t output_count, void *const *node) {
    return (struct wrapping){.inputs = inputs[0],
                             .input_count = (size_t)(inputs[1] - inputs[0]),
                             .outputs = outputs,
                             .output_count = output_count,
                             .node = *node};
}

/* 1.13, 2.1 */
static void *wrap_early(__typeof__(&hook_wrap_outputs_first) original, void *result, struct tensor *const *const *inputs, void *a, void *b,
                        void *outputs, size_t output_count, void *const *node, void *c, void *d) {
    struct wrapping wrapping = wrapping_of(inputs, outputs, output_count, node);
    struct custom *custom = wrapping_begin(&wrapping);
    WRAPPING_SCOPE(custom);
    original(result, inputs, a, b, outputs, output_count, node, c, d);
    wrapping_end(&wrapping, custom, result);
    return result;
}

void *hook_wrap_outputs_first(void *result, struct tensor *const *const *inputs, void *a, void *b, void *outputs, size_t output_count,
                              void *const *node, void *c, void *d) {
    return wrap_early(ORIGINAL(wrap_outputs_first), result, inputs, a, b, outputs, output_count, node, c, d);
}

void *hook_wrap_outputs_second(void *result, struct tensor *const *const *inputs, void *a, void *b, void *outputs, size_t output_count,
                               void *const *node, void *c, void *d) {
    return wrap_early(ORIGINAL(wrap_outputs_second), result, inputs, a, b, outputs, output_count, node, c, d);
}

void *hook_wrap_outputs_third(void *result, struct tensor *const *const *inputs, void *a, void *b, void *outputs, size_t output_count,
                              void *const *node, void *c, void *d, void *e) {
    struct wrapping wrapping = wrapping_of(inputs, outputs, output_count, node);
    wrapping.tensor_comes_first = true;
    struct custom *custom = wrapping_begin(&wrapping);
    WRAPPING_SCOPE(custom);
    ORIGINAL(wrap_outputs_third)(result, inputs, a, b, outputs, output_count, node, c, d, e);
    wrapping_end(&wrapping, custom, result);
    return result;
}

void *hook_wrap_outputs_fourth(void *result, struct tensor *const *const *inputs, void *a, void *b, void *outputs, size_t output_count,
                               void *const *node, void *c, void *d, void *e, void *f) {
    struct wrapping wrapping = wrapping_of(inputs, outputs, output_count, node);
    wrapping.tensor_comes_first = true;
    struct custom *custom = wrapping_begin(&wrapping);
    WRAPPING_SCOPE(custom);
    ORIGINAL(wrap_outputs_fourth)(result, inputs, a, b, outputs, output_count, node, c, d, e, f);
    wrapping_end(&wrapping, custom, result);
    return result;
}

/* 2.13, 2.15 by vector */
static void *wrap_late(__typeof__(&hook_wrap_outputs_fifth) original, void *result, struct tensor *const *const *inputs, void *a, void *b,
                       void *outputs, size_t output_count, void *const *node, void *c, void *d, void *e, void *f, void *g) {
    struct wrapping wrapping = wrapping_of(inputs, outputs, output_count, node);
    wrapping.tensor_comes_first = true;
    struct custom *custom = wrapping_begin(&wrapping);
    WRAPPING_SCOPE(custom);
    original(result, inputs, a, b, outputs, output_count, node, c, d, e, f, g);
    wrapping_end(&wrapping, custom, result);
    return result;
}

void *hook_wrap_outputs_fifth(void *result, struct tensor *const *const *inputs, void *a, void *b, void *outputs, size_t output_count,
                              void *const *node, void *c, void *d, void *e, void *f, void *g) {
    return wrap_late(ORIGINAL(wrap_outputs_fifth), result, inputs, a, b, outputs, output_count, node, c, d, e, f, g);
}

void *hook_wrap_outputs_sixth(void *result, struct tensor *const *const *inputs, void *a, void *b, void *outputs, size_t output_count,
                              void *const *node, void *c, void *d, void *e, void *f, void *g) {
    return wrap_late(ORIGINAL(wrap_outputs_sixth), result, inputs, a, b, outputs, output_count, node, c, d, e, f, g);
}

void *hook_wrap_outputs_seventh(void *result, struct tensor *const *inputs, size_t input_count, void *a, void *b, struct array_ref outputs,
                                void *const *node, void *c, void *d, void *e, void *f, void *g) {
    struct wrapping wrapping = {inputs, true, input_count, outputs.data, true, outputs.count, *node};
    struct custom *custom = wrapping_begin(&wrapping);
    WRAPPING_SCOPE(custom);
    ORIGINAL(wrap_outputs_seventh)(result, inputs, input_count, a, b, outputs, node, c, d, e, f, g);
    wrapping_end(&wrapping, custom, result);
    return result;
}
