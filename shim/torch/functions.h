/* libtorch functions by name, resolved once by functions_resolve. For shim/torch/ only. */
#ifndef ACCEL_SHIM_TORCH_FUNCTIONS_H
#define ACCEL_SHIM_TORCH_FUNCTIONS_H

#include "peek.h"
#include "torch.h"

struct torch_functions {
#define TORCH(name, library, need, type, arguments, symbol, other) type(*name) arguments;
#include "functions.def"
#undef TORCH
};
extern struct torch_functions torch_functions;

/* Fills the table. Returns NULL, or the symbol of a REQUIRED function that this libtorch lacks. */
const char *functions_resolve(void);

/* Calibration's steps, in order; each stops the job by name when this libtorch is not understood. */
void calibrate_keys(void);
void calibrate_table(uint16_t key, uint16_t next_key, void *fallback);
void calibrate_values(void);
/* Where a list keeps its elements, of which `tensor` gives two halves; which types lists of ints and bools name, once arguments of schemas are found
   (lists.c). */
void lists_begin(struct tensor *tensor);
void lists_find_types(void);
/* Where a node of the graph keeps its edges (graph.c). */
void graph_begin(void);
void dispatch_register(void);
/* Elements of a list may be written in place from here on: one that others have, too, a variable of a TorchScript function or of the program, becomes a
   copy. */
void lists_unshare(struct value *values, const struct value *end);
/* Cleanup: what lies there still, and the memory. An operator that throws leaves its arguments. */
void stack_free(struct stack *stack);
/* Where an operator keeps which keys count for it; after dispatch_register(). */
void extractor_find(void);
/* From now on the operator does not arrive for parameters alone, if the place was found. */
void extractor_skip_parameters(const struct operator *op);
/* Operators without boxing: is it possible; and from now on, for one. After calibration. */
void direct_begin(void);
void regions_begin(void);
/* The thread is about to be below user level. False: nobody knows on whose behalf, ask again. */
bool regions_register(uint64_t *excluded);
void direct_install(struct operator *op, const struct handle *handle);
/* Puts our functions into tables of virtual functions where the loader has not; `tensor` is a plain one. After calibration. */
void bound_begin(struct tensor *tensor);
/* The same memory, version and layout, without history (rows.c). Owned. */
struct tensor *rows_copy_whole(struct tensor *whole);
/* A tensor that shows the whole one's memory for one call, and is one of ours, not to be released; NULL: none is free, or there are none. */
struct tensor *shell_lend(struct tensor *whole);
/* False: it is none. What the call has kept of it is good for ever. */
bool shell_give_back(struct tensor *tensor);
/* Tries them on a tensor of which the record has less; once rows can be lent. */
void shell_begin(struct tensor *tensor, const struct record *record);
/* Finds the virtual function storage(), which follows has_storage(); `tensor` is a plain one. */
void loan_begin(struct tensor *tensor, void **slot_of_has_storage);
/* From now on, on this thread, who takes the storage of a tensor that has been lent memory is given that of the loan; or no longer. */
void loans_memory_will_do(bool begins);
/* What this thread was lent is given back, and what others have forgotten; with operands, also what another one looks at; of one tensor; everything. */
void loans_return(void);
void loans_return_operands(const struct value *begin, const struct value *end);
void leaf_gone(struct tensor *tensor);
/* Finds the virtual function that makes nodes of the graph anew; `tensor` is a plain one. */
void stale_begin(struct tensor *tensor);
void selfcheck_run(void);
/* Grad mode is on until the end of the block. */
static inline char grad_mode_enable(void) {
    char enabled = torch_functions.grad_mode();
    torch_functions.set_grad_mode(1);
    return enabled;
}
static inline void grad_mode_restore(const char *enabled) {
    torch_functions.set_grad_mode(*enabled);
}
#define GRAD_MODE_SCOPE __attribute__((cleanup(grad_mode_restore), unused)) char grad_mode_scope_ = grad_mode_enable()
/* Until the end of the block this thread's modes and keys are those of one that has set nothing (neutral.c). */
struct neutral {
    uint64_t keys[2];
    unsigned char *flags, value;
};
struct neutral neutral_begin(void);
void neutral_end(const struct neutral *had);
#define NEUTRAL_SCOPE __attribute__((cleanup(neutral_end), unused)) struct neutral neutral_scope_ = neutral_begin()
void record_begin(void);
/* Runs the kernel for an explicit key set (rows that are fallthrough removed). */
void dispatch_kernel(const struct handle *handle, uint64_t key_set, struct stack *stack);
/* Rows of an operator's table: the address of the boxed function; the functor is a word before it, the unboxed function one behind. Of a key; and of the kernel
   that an explicit key set leads to, from which keys whose rows are fallthrough are removed. */
char *dispatch_row(const struct handle *handle, uint16_t key);
char *dispatch_row_below(const struct handle *handle, uint64_t *key_set);
uint64_t dispatch_without_fallthrough(const struct handle *handle, uint64_t key_set);
uint64_t *dispatch_thread_keys(void);  /* {included ^ default, excluded ^ default} of this thread */
uint16_t *dispatch_python_calls(void); /* how deep this thread is in them (python_call.c) */

#endif
