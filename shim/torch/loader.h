/* The data loaders of C++ programs (torch::data::StatelessDataLoader), seen from the sampler that stands inside of one. */
#ifndef ACCEL_SHIM_TORCH_LOADER_H
#define ACCEL_SHIM_TORCH_LOADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* Finds the loader that a sampler is a member of. batch: what the loader has just asked it for, which must be its batch size. False: the sampler is
   used by something else, or the loader is not laid out as in any libtorch that we know. Reads memory around the sampler through the kernel, so it may be
   called for any address. */
bool loader_find(void *sampler, size_t batch, struct loader_view *view);

/* From now on the loader takes a list shorter than its batch size for a whole one, whatever its option drop_last says. */
void loader_accept_short(struct loader_view *view);

/* The class is one whose batches are, by the rules of C++, examples read one by one and stacked: a chain of MapDataset over a data set that has get() and
   inherits get_batch(), transforms of single examples, Stack at the end, libtorch's random or sequential sampler. Returns how many tensors are stacked (1 or
   2), or 0 with the reason in words in *why (a literal). Reads the symbol table of the program's file: slow, once for each class. */
int loader_stacked_tensors(const struct loader_view *view, const char **why);

#endif
