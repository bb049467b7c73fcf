/* The data loaders of C++ programs (torch::data::StatelessDataLoader), seen from the sampler that stands inside of one. */
#ifndef ACCEL_SHIM_TORCH_LOADER_H
#define ACCEL_SHIM_TORCH_LOADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "peek.h"

enum { LOADER_WORKERS_MAX = 64 };

/* A copy of what a loader says about itself. */
struct loader_view {
    char *object;                         /* the loader; valid as long as its sampler is */
    void *vtable;                         /* which class it is */
    const char *class_name;               /* mangled, in the program's read-only data */
    size_t batch, workers, max_jobs;      /* DataLoaderOptions */
    bool enforce_ordering, drop_last;     /* likewise */
    void *dataset;                        /* the data set of a loader without workers, an allocation of its own; else NULL */
    uint64_t threads[LOADER_WORKERS_MAX]; /* pthread_t of its workers */
};

/* Where the mangled name of an object's class stands, and its first `count` bytes in *begin, as far as what is at that address looks like an object with
   virtual functions; NULL: it does not. */
const char *peek_class(const void *object, void **vtable, char *begin, size_t count);

/* Of what the program has in its output's buffers. */
uint64_t output_sum(void);

/* Finds the loader that a sampler is a member of. batch: what the loader has just asked it for, which must be its batch size. False: the sampler is
   used by something else, or the loader is not laid out as in any libtorch that we know. Reads memory around the sampler through the kernel, so it may be
   called for any address. */
bool loader_find(void *sampler, size_t batch, struct loader_view *view);

/* The loader's option drop_last: whether it ends at a list shorter than its batch size. Of a loader that is there: it is written. */
void loader_set_drop_last(const struct loader_view *view, bool drops);

/* Is the sampler anything but libtorch's random or sequential one, as far as its class says? One of the program's own may call libtorch's for itself. */
bool loader_has_own_sampler(const struct loader_view *view);

/* The class is one whose batches are, by the rules of C++, examples read one by one and stacked: a chain of MapDataset over a data set that has get() and
   inherits get_batch(), transforms of single examples, Stack at the end, libtorch's random or sequential sampler. Returns how many tensors are stacked (1 or
   2), or 0 with the reason in words in *why (a literal). Reads the symbol table of the program's file: slow, once for each class. */
int loader_stacked_tensors(const struct loader_view *view, const char **why);

#endif
