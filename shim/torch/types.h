/* libtorch's own types, as they lie in memory in every release. Nothing that has to be found out. */
#ifndef ACCEL_SHIM_TORCH_TYPES_H
#define ACCEL_SHIM_TORCH_TYPES_H

#include <stddef.h>
#include <stdint.h>

enum { TORCH_DIMS_MAX = 12 }; /* of a tensor that can be divided */

/* ---- values: c10::IValue, 16 bytes in every release */

struct tensor; /* c10::TensorImpl */

struct value {
    union {
        int64_t integer;
        double real;
        struct tensor *tensor;
        void *pointer;
        uint64_t bits;
        int64_t *integers; /* of TAG_INTS: borrowed */
    };
    uint32_t tag;
    uint32_t count; /* of TAG_INTS; elsewhere nothing */
};

struct stack { /* std::vector<c10::IValue> */
    struct value *begin, *end, *capacity;
};

struct vector { /* std::vector<T> */
    char *begin, *end, *capacity;
};

struct handle { /* c10::OperatorHandle */
    char *definition;
    void *entry;
};

enum { TAG_NONE = 0, TAG_TENSOR = 1, TAG_DOUBLE = 3, TAG_INT = 5 }; /* the same in every release 1.13 .. 2.15; proven by calibrate.c */
enum { TAG_INTS = 1 << 30 }; /* our own, which libtorch never sees: a list of integers in a call without boxing */

/* dtype codes of c10::ScalarType */
enum torch_dtype {
    DTYPE_UINT8 = 0,
    DTYPE_INT8 = 1,
    DTYPE_INT16 = 2,
    DTYPE_INT32 = 3,
    DTYPE_INT64 = 4,
    DTYPE_FLOAT16 = 5,
    DTYPE_FLOAT32 = 6,
    DTYPE_FLOAT64 = 7,
    DTYPE_COMPLEX64 = 9,
    DTYPE_COMPLEX128 = 10,
    DTYPE_BOOL = 11,
    DTYPE_BFLOAT16 = 15
};

/* c10::ArrayRef<anything> as an argument: in two registers or, where only one is left, on the stack (2.15's _wrap_outputs), so never written as two. */
struct array_ref {
    void *data;
    size_t count;
};

struct sizes { /* c10::ArrayRef<int64_t> */
    const int64_t *data;
    size_t count;
};

/* What flows back through a tensor (must require grad; tensor_add_hook) is replaced by what function returns for it (owned), borrowed in. Lives with the
   graph; data is passed as is, released by release (may be NULL) when the graph goes. */
struct hook_closure {
    struct tensor *(*function)(struct tensor *gradient, void *data);
    void (*release)(void *data);
    void *data;
    bool sees_none; /* also called for a gradient that is not there (undefined), which else flows on */
};

#endif
