/* One normalisation over the batch, as its derivatives need it (normalise.c; normalise_twice.c where they are differentiated again). */
#ifndef ACCEL_HOOKS_SHARD_NORMALISE_H
#define ACCEL_HOOKS_SHARD_NORMALISE_H

#include <stdlib.h>

#include "shard.h"

/* Shared by the hooks of one normalisation; lives with the graph. Tensors are owned; these and the sums are NULL once the graph has been freed. */
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
    void *node;     /* of the result */
    struct tensor *gradient; /* create_graph: of the output, this rank's rows; NULL: not kept */
};

static inline void normalise_free_numbers(double **numbers) {
    free(*numbers);
}
#define NUMBERS __attribute__((cleanup(normalise_free_numbers))) double *

/* batch_norm or instance_norm: the input's rows, and nothing else, are divided; weight, bias, running mean and variance, where they are, have one element per
   channel. */
bool normalise_only_rows_are_divided(const struct shard_call *call);
bool normalise_channels_fit(struct shard_call *call);
bool normalise_has_elements(const struct shard_call *call);

/* ---- normalise_statistics.c: numbers for each channel */

struct tensor *normalise_as_type(struct tensor *tensor, enum torch_dtype dtype, bool copy); /* owned */
/* Without history and mark; half precision as float, for sums. Owned. */
struct tensor *normalise_plain(struct tensor *tensor);
struct tensor *normalise_wide(struct tensor *tensor);
/* A vector's elements; a vector of them, where `like` is (owned). */
void normalise_read_channels(struct tensor *tensor, double *numbers);
struct tensor *normalise_channels(const double *numbers, int64_t count, enum torch_dtype dtype, struct tensor *like);
/* Mean and biased variance per channel, of this rank's rows. */
void normalise_own_statistics(struct tensor *input, double *mean, double *variance);
/* The same of all rows. A collective. */
void normalise_statistics(struct tensor *input, const struct record *record, double *mean, double *variance);
/* Argument `position`, where it is: running = (1 - momentum) * running + momentum * factor * now, rounded once. counts: does a graph that has saved it, of a
   forward in evaluation mode, see the write? libtorch's batch_norm writes past that, its instance_norm does not. */
void normalise_update_running(struct shard_call *call, int position, const double *now, double factor, int64_t channels, bool counts);

/* normalise_layout.c: the result of an instance_norm such that its gradient is read as one process reads it. Takes and returns a reference. */
struct value normalise_watch_gradient(struct value result, const struct record *record);

/* The output's gradient is to be differentiated again: keeps it for the two below, and no other normalisation's. In a hook of a backward, as these are. */
void normalise_keep_gradient(struct normalised *normalised, struct tensor *gradient);
/* The node of its result, as long as it lives; NULL: not any more. */
void normalise_note_result(void *node, struct normalised *normalised);
/* Whichever is kept; or only this one's. */
void normalise_forget_gradients(void);
void normalise_forget_gradient(struct normalised *normalised);
/* The gradients of this rank's rows, and this rank's part of the weight's, as functions of the rows, the weight and the output's gradient. Owned. */
struct tensor *normalise_input_gradient(const struct normalised *normalised);
struct tensor *normalise_weight_gradient(const struct normalised *normalised);

#endif
