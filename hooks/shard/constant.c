/*
 * Tensors of one number, as factors that autograd records. A C++ scalar is made a tensor at every call, as double, and cast to what it meets: twice in
 * forward, twice in backward, 15 us in all (tests/bench/mlp.cpp). A training loop has the same few numbers in every step: they are kept.
 */
#include "shard.h"

#include <pthread.h>

enum { CONSTANTS = 8 };

struct constant {
    struct tensor *tensor; /* owned; NULL: none */
    int64_t length;
    double number;
    enum torch_dtype dtype;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct constant kept[CONSTANTS];
static unsigned next;

__attribute__((constructor)) static void constants_start(void) {
    threads_renew_in_child(&mutex);
}

/* Owned, or NULL. */
static struct tensor *find(const struct constant *wanted) {
    struct tensor *found = NULL;
    pthread_mutex_lock(&mutex);
    for (struct constant *constant = kept; constant < kept + CONSTANTS && !found; constant++)
        if (constant->tensor && constant->length == wanted->length && constant->number == wanted->number &&
            constant->dtype == wanted->dtype)
            found = constant->tensor;
    if (found)
        tensor_retain(found);
    pthread_mutex_unlock(&mutex);
    return found;
}

/* In the place of the oldest. */
static void keep(const struct constant *constant) {
    tensor_retain(constant->tensor);
    pthread_mutex_lock(&mutex);
    struct tensor *oldest = kept[next].tensor;
    kept[next] = *constant;
    next = (next + 1) % CONSTANTS;
    pthread_mutex_unlock(&mutex);
    tensor_release(oldest);
}

struct value constant_tensor(int64_t length, double number, enum torch_dtype dtype) {
    struct constant constant = {NULL, length, number, dtype};
    constant.tensor = find(&constant);
    if (!constant.tensor) { /* made without the lock: whatever libtorch calls meanwhile may come here */
        struct value shape = value_int_list(&length, length == CONSTANT_SCALAR ? 0 : 1);
        constant.tensor =
            TORCH_CALL("aten::full", "", shape, value_real(number), value_int(dtype), value_none(), value_none(), value_none()).tensor;
        keep(&constant);
    }
    return value_tensor(constant.tensor);
}

/* Saved by autograd they would go through saved_tensors_hooks, which may round what is not theirs. */
static _Atomic bool have_ended;

void constants_end(void) {
    atomic_store(&have_ended, true);
}

bool constant_suits(struct tensor *tensor) {
    enum torch_dtype dtype = tensor_dtype(tensor);
    if (atomic_load_explicit(&have_ended, memory_order_relaxed))
        return false;
    return (dtype == DTYPE_FLOAT32 || dtype == DTYPE_FLOAT64) && tensor_is_plain(tensor) && tensor_is_on_host(tensor) &&
           tensor_is_recorded(tensor);
}
