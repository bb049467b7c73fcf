/* Rows of what programs save with: torch::save (an OutputArchive) and torch::jit::Module::save. */
#include "save.h"

/* ---- to a file, by name */

/* The scope of a save: save_abandon acts when an exception passes. libtorch's own file writer, inside, sees save_current and leaves the
   rest to us. */
static void leave(struct save **save) {
    save_current = NULL;
    save_abandon(*save);
}

#define SAVE_SCOPE(path) /* defines `save`, begun */                                                                                       \
    struct save save_storage_;                                                                                                             \
    struct save *save __attribute__((cleanup(leave))) = &save_storage_;                                                                    \
    SHIM_FILES_ASIDE;                                                                                                                      \
    save_begin(save, save_text(path));                                                                                                     \
    save_current = save

/* Whether this call is a save of the whole program, not the inner part of one. */
static bool is_outermost(void) {
    return shim_training_begins() && !save_current;
}

void hook_save_path_new(void *archive, void *path) {
    if (!is_outermost()) {
        ORIGINAL(save_path_new)(archive, path);
        return;
    }
    SAVE_SCOPE(path);
    ORIGINAL(save_path_new)(archive, &save->opened);
    save_finish(save);
}

void hook_save_path_old(void *archive, void *path) {
    if (!is_outermost()) {
        ORIGINAL(save_path_old)(archive, path);
        return;
    }
    SAVE_SCOPE(path);
    ORIGINAL(save_path_old)(archive, &save->opened);
    save_finish(save);
}

void hook_save_module_new(void *module, void *path, void *extra_files) {
    if (!is_outermost()) {
        ORIGINAL(save_module_new)(module, path, extra_files);
        return;
    }
    SAVE_SCOPE(path);
    ORIGINAL(save_module_new)(module, &save->opened, extra_files);
    save_finish(save);
}

void hook_save_module_old(void *module, void *path, void *extra_files) {
    if (!is_outermost()) {
        ORIGINAL(save_module_old)(module, path, extra_files);
        return;
    }
    SAVE_SCOPE(path);
    ORIGINAL(save_module_old)(module, &save->opened, extra_files);
    save_finish(save);
}

/* ---- what is saved */

static void release(struct tensor **tensor) {
    if (*tensor)
        tensor_release(*tensor);
}

/* The whole value of a shard or partial sum, owned; NULL: the tensor is whole. A collective when it is not. */
static struct tensor *whole(struct tensor *tensor) {
    if (!shim_active() || !tensor_is_marked(tensor))
        return NULL;
    enum record_kind kind = record_get(tensor).kind;
    return kind == RECORD_SHARD || kind == RECORD_PARTIAL ? dispatch_client.whole(tensor) : NULL;
}

#define WHOLE __attribute__((cleanup(release))) struct tensor *

void hook_save_tensor_new(void *archive, void *key, struct tensor **tensor, char is_buffer) {
    WHOLE complete = whole(*tensor);
    ORIGINAL(save_tensor_new)(archive, key, complete ? &complete : tensor, is_buffer);
}

void hook_save_tensor_old(void *archive, void *key, struct tensor **tensor, char is_buffer) {
    WHOLE complete = whole(*tensor);
    ORIGINAL(save_tensor_old)(archive, key, complete ? &complete : tensor, is_buffer);
}

void hook_save_value_new(void *archive, void *key, struct value *value) {
    WHOLE complete = shim_active() && value_is_tensor(value) ? whole(value->tensor) : NULL;
    struct value replaced = complete ? value_tensor(complete) : *value;
    ORIGINAL(save_value_new)(archive, key, &replaced);
}

void hook_save_value_old(void *archive, void *key, struct value *value) {
    WHOLE complete = shim_active() && value_is_tensor(value) ? whole(value->tensor) : NULL;
    struct value replaced = complete ? value_tensor(complete) : *value;
    ORIGINAL(save_value_old)(archive, key, &replaced);
}
