/*
 * The template of a rule: what one operator does to a tensor of which this rank holds some rows. docs/adding-a-rule.md walks through it. It stands here and not
 * in hooks/shard/ because only the shim of the tests has it; it includes what a file of hooks/shard/ includes.
 *
 * The operator: renorm(self, p, dim, maxnorm). It looks at each slice of self along dimension `dim` by itself, and shrinks the slice when its p-norm is greater
 * than maxnorm. When the rows are divided along that same dimension, a slice lies on one rank whole: each rank does its own. Along any other dimension every
 * slice is spread over the ranks, and its norm is nobody's: the rows have to be gathered.
 *
 * RATIONALE for a decision that looks at so little. All ranks must decide alike, or one waits in a collective that another never enters. So a rule looks at
 * global facts only: records, sizes of the whole batch (argument_size, never tensor_size), numbers among the arguments, the world size. Never at a value in
 * a tensor, at this rank's own rows, at the time or at the environment.
 */
#include "shard.h"

/* call: the operator's arguments, with a record for each tensor. rule: the row, whose numbers a and b belong to the function (positions of arguments, usually):
   here a is where `dim` stands. Called only when at least one argument is a shard; call->lead is the first, call->record its record. */
RULE_FUNCTION(null) {
    struct argument *self = call_argument(call, 0); /* NULL: not a tensor, or undefined */
    /* What the function was not written for is gathered: always right, only slower. */
    if (!self || call->lead != self || call->argument_count != 1)
        return RULE_GATHER;
    /* -1 is the last dimension; the number of dimensions is the same on all ranks. */
    if (wrap_dim(call_int(call, rule->a, 0), argument_dims(self)) != call->record.dim)
        return RULE_GATHER;
    /* The decision, written into the call: result 0 has the lead's rows along the same dimension. Nothing is computed here; the executor runs the
       kernel on the rows and marks the result, and stops the job if it has not the size decided here. */
    decide_shard(call, 0, call->record.dim);
    return RULE_LOCAL;
}
