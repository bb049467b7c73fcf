/* One normalisation over the batch, as its derivatives need it (normalise.c; normalise_twice.c where they are differentiated again). */
#ifndef ACCEL_HOOKS_SHARD_NORMALISE_H
#define ACCEL_HOOKS_SHARD_NORMALISE_H

#include "shard.h"

/* Shared by the hooks of one normalisation; lives with the graph. Tensors are owned. */
struct normalised {
    _Atomic int references;
    struct tensor *input, *mean, *variance; /* input shares the memory that the kernel's own derivative keeps */
    struct tensor *source, *weight;         /* with their history; weight may be NULL */
    double epsilon;
    double count; /* elements per channel, of all rows */
    struct origin origin;
    double *slope;  /* weight / deviation; NULL: there are no gradients of weight and bias that could be used */
    double *sums;   /* per channel the sum of the output's gradient, then of the output's gradient * normalised: this rank's rows */
    int sums_known; /* bits: 1 the former, 2 the latter, kept from this backward */
    struct tensor *gradient; /* create_graph: of the output, this rank's rows; NULL: not kept */
};

/* The output's gradient is to be differentiated again: keeps it for the two below, and no other normalisation's. In a hook of a backward, as these are. */
void normalise_keep_gradient(struct normalised *normalised, struct tensor *gradient);
/* Whichever is kept; or only this one's. */
void normalise_forget_gradients(void);
void normalise_forget_gradient(struct normalised *normalised);
/* The gradients of this rank's rows, and this rank's part of the weight's, as functions of the rows, the weight and the output's gradient. Owned. */
struct tensor *normalise_input_gradient(const struct normalised *normalised);
struct tensor *normalise_weight_gradient(const struct normalised *normalised);

#endif
