/*
 * Where a data loader's fields are. DataLoaderBase and its options are templates, compiled into the program from libtorch's headers; the layout below is that
 * of all releases from 1.13 to 2.15 (optional<milliseconds> takes 16 bytes in both optionals), and nothing is taken on trust: class name, batch size,
 * number of workers and the data set's presence must agree, or the loader is not found.
 */
#include "loader.h"

#include <string.h>

enum {
    OPTION_BATCH = 8,
    OPTION_WORKERS = 16,
    OPTION_JOBS = 24,
    OPTION_ORDERED = 48,
    OPTION_DROP_LAST = 49,
    FIELD_DATASET = 56,
    FIELD_THREADS = 72,      /* std::vector<std::thread>: begin, end, capacity */
    SAMPLER_OFFSET_MIN = 96, /* the sampler is the first member of the derived class: 456 in both builds of the tests */
    SAMPLER_OFFSET_MAX = 472 /* and of 24 bytes: what begins behind a loader is further away */
};

static const char loader_prefix[] = "N5torch4data19StatelessDataLoaderI";

/* A vtable pointer points behind the offset to the top of the object (0) and the type_info, which is {vtable, name, ...} (Itanium C++ ABI 2.5.2, 2.9.5). */
const char *peek_class(const void *object, void **vtable, char *begin, size_t count) {
    struct {
        int64_t offset_to_top;
        char *type_info;
    } head;
    const char *name;
    if (!peek_memory(object, vtable, sizeof *vtable) || (uintptr_t)*vtable < 4096 || (uintptr_t)*vtable % 8)
        return NULL;
    if (!peek_memory((char *)*vtable - sizeof head, &head, sizeof head) || head.offset_to_top || !head.type_info)
        return NULL;
    return peek_memory(head.type_info + 8, &name, sizeof name) && peek_memory(name, begin, count) ? name : NULL;
}

/* The mangled name of the class of the object at `object`, when it is a loader's; NULL otherwise. */
static const char *loader_class(const char *object, void **vtable) {
    char begin[sizeof loader_prefix + 1];
    const char *name = peek_class(object, vtable, begin, sizeof begin);
    if (!name)
        return NULL;
    const char *text = begin[0] == '*' ? begin + 1 : begin; /* a class of one file only */
    return strncmp(text, loader_prefix, sizeof loader_prefix - 1) ? NULL : name + (text - begin);
}

static bool copy_threads(const char *object, struct loader_view *view) {
    const char *threads[2];
    memcpy(threads, object + FIELD_THREADS, sizeof threads);
    if (threads[1] < threads[0] || (size_t)(threads[1] - threads[0]) != view->workers * sizeof *view->threads)
        return false;
    return view->workers == 0 || peek_memory(threads[0], view->threads, view->workers * sizeof *view->threads);
}

static bool read_fields(char *object, struct loader_view *view) {
    view->object = object;
    memcpy(&view->batch, object + OPTION_BATCH, sizeof view->batch);
    memcpy(&view->workers, object + OPTION_WORKERS, sizeof view->workers);
    memcpy(&view->max_jobs, object + OPTION_JOBS, sizeof view->max_jobs);
    memcpy(&view->dataset, object + FIELD_DATASET, sizeof view->dataset);
    unsigned char ordered = (unsigned char)object[OPTION_ORDERED], drop_last = (unsigned char)object[OPTION_DROP_LAST];
    view->enforce_ordering = ordered;
    view->drop_last = drop_last;
    bool sensible =
        ordered <= 1 && drop_last <= 1 && view->workers <= LOADER_WORKERS_MAX && (view->workers == 0) == (view->dataset != NULL);
    return sensible && copy_threads(object, view);
}

void loader_set_drop_last(const struct loader_view *view, bool drops) {
    view->object[OPTION_DROP_LAST] = drops;
}

static bool find_at(void *sampler, int offset, size_t batch, struct loader_view *view) {
    char *object = (char *)sampler - offset;
    view->class_name = loader_class(object, &view->vtable);
    return view->class_name && read_fields(object, view) && view->batch == batch;
}

bool loader_find(void *sampler, size_t batch, struct loader_view *view) {
    static _Atomic int usual = SAMPLER_OFFSET_MIN;
    if (find_at(sampler, usual, batch, view))
        return true;
    for (int offset = SAMPLER_OFFSET_MIN; offset <= SAMPLER_OFFSET_MAX; offset += 8)
        if (find_at(sampler, offset, batch, view)) {
            usual = offset;
            return true;
        }
    return false;
}
