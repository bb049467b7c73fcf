/* What `accel-run explain` is told of operators: what each is to the program, and what becomes of it. */
#include <stdio.h>

#include "shard.h"

enum { NAME_CHARS = 64, DETAIL_CHARS = 96 };

static void write_name(const struct operator *op, char *name) {
    snprintf(name, NAME_CHARS, "%s%s%s", op->name, op->overload[0] ? "." : "", op->overload);
}

static bool is_loss(const struct rule *rule) {
    return rule->decide == rule_loss || rule->decide == rule_squeezed_loss || rule->decide == rule_nll_loss ||
           rule->decide == rule_class_loss;
}

static bool is_random(const struct rule *rule) {
    return rule->decide == rule_random_in_place || rule->decide == rule_random_like || rule->decide == rule_bernoulli ||
           rule->decide == rule_native_dropout || rule->decide == rule_rrelu;
}

void recognise_call(const struct shard_call *call, const struct rule *rule) {
    static const char *const reductions[] = {"reduction none", "reduction mean", "reduction sum"};
    char name[NAME_CHARS];
    if (!shim_records())
        return;
    write_name(call->op, name);
    if (is_loss(rule)) {
        int64_t reduction = call_int(call, rule->a, 1);
        explain_note("loss", name, reduction >= 0 && reduction < 3 ? reductions[reduction] : "");
    } else if (is_random(rule)) {
        explain_note("random", name, "drawn for the whole batch, own rows kept");
    }
}

static bool meets_layer(const struct shard_call *call) {
    for (int i = 0; i < call->argument_count; i++)
        if (call->arguments[i].is_parameter)
            return true;
    return false;
}

void recognise_divided(const struct shard_call *call) {
    char name[NAME_CHARS];
    if (!shim_records())
        return;
    if (meets_layer(call) && !grad_mode_is_enabled())
        explain_evaluates(entry_layer(call));
    write_name(call->op, name);
    explain_note("divided", name, "");
}

static bool is_read(const struct operator *op) {
    static const char *const reads[] = {"_local_scalar_dense", "item", "is_nonzero", "equal", "allclose"};
    const char *name = strncmp(op->name, "aten::", 6) ? op->name : op->name + 6;
    for (size_t i = 0; i < sizeof reads / sizeof *reads; i++)
        if (!strcmp(reads[i], name))
            return true;
    return false;
}

void recognise_gathered(const struct shard_call *call, const char *what, const char *shapes) {
    char name[NAME_CHARS], detail[2 * DETAIL_CHARS];
    if (!shim_records())
        return;
    write_name(call->op, name);
    const struct rule *rule = rule_of(call->op);
    snprintf(detail, sizeof detail, "%s %.120s: %s", what, shapes,
             rule->decide ? "its rule does not divide this case" : "there is no rule for it");
    if (is_read(call->op))
        explain_note("read", name, what);
    else
        explain_note("gathered", name, detail);
}

/*
 * A batch of too few rows stays as it is, so every layer meets it. In training it counts once for a backward pass; in evaluation, where there is none, when the
 * layer comes again that met the first one.
 */
static bool is_new_undivided(long long rows, uint64_t layer) {
    static struct {
        long long rows;
        bool is_training;
        uint64_t layer, steps;
    } met[16];
    static int count;
    bool is_training = grad_mode_is_enabled();
    int i = 0;
    while (i < count && (met[i].rows != rows || met[i].is_training != is_training))
        i++;
    if (i == sizeof met / sizeof *met)
        return true;
    if (i == count) {
        met[count].rows = rows;
        met[count].is_training = is_training;
        met[count++].layer = layer;
    } else if (is_training ? met[i].steps == explain_steps() : met[i].layer != layer) {
        return false;
    }
    met[i].steps = explain_steps();
    return true;
}

void recognise_batch(const struct shard_call *call, long long rows, bool is_divided, uint64_t layer) {
    char name[NAME_CHARS], detail[DETAIL_CHARS];
    if (!shim_records())
        return;
    if (!is_divided && !grad_mode_is_enabled())
        explain_evaluates(layer);
    if (!is_divided && !is_new_undivided(rows, layer))
        return;
    snprintf(name, sizeof name, "%lld rows", rows);
    snprintf(detail, sizeof detail, "%s, %s", call->op->name, grad_mode_is_enabled() ? "training" : "evaluation (no gradients)");
    explain_note(is_divided ? "batch" : "undivided", name, detail);
}
