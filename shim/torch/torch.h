/*
 * libtorch seen from C: values, tensors, operators, calls, and the dispatch key that makes every operator on a marked tensor arrive in one place.
 *
 * Rules of shim/torch/
 *  - The only folder that knows an offset, a tag or a mangled name's variant. All offsets are found at run time by calling known operators on private
 *    tensors (calibrate.c) and proven by a live self-check (selfcheck.c); no libtorch version number stands in the code.
 *  - Two dispatch keys that nobody uses (TESTING_ONLY_GenericWrapper and ...Mode) are ours: SHARD marks tensors with a record (record.c), PARAMETER
 *    marks leaves. They stand above Autograd and Autocast, so operators arrive as the program called them. One client (hooks/shard) decides.
 *  - Two levels. At user level a marked tensor shows the sizes of the whole batch; opaque (both keys excluded in this thread: inside kernels,
 *    autograd and our own calls) it shows the rows that are really there. The level is libtorch's own thread-local key set, so it travels with
 *    libtorch's thread state into the autograd threads.
 *  - References: a tensor pointer is a TensorImpl*. "owned" means the holder drops one reference.
 */
#ifndef ACCEL_SHIM_TORCH_H
#define ACCEL_SHIM_TORCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../comm/comm.h"
#include "layout.h"
#include "leaf.h"
#include "record.h"
#include "types.h"

/* What calibration found. Read-only once shim_active(). */
struct torch_facts {
    int backend_count;       /* low bits of a key set */
    int functionality_count; /* entries of offset/mask */
    uint16_t offset[256], mask[256];
    uint64_t bit_shard, bit_parameter, bit_tracer, bit_cpu, bit_autograd, bit_sparse, bit_zero, bit_conjugate, bit_negative;
    uint64_t bits_mode;                   /* Python is told of every operator (TorchDispatchMode) */
    uint64_t bits_transform, bit_wrapped; /* torch.func: within one of its transforms; a tensor that one has wrapped to differentiate */
    uint64_t plain_keys;                  /* of an ordinary tensor on the host */
    uint64_t default_included, default_excluded;
    uint16_t key_shard, key_parameter, key_composite;
    long table, table_stride;       /* first boxed function of the dispatch table within OperatorDef, and the distance of two */
    long key_set;                   /* TensorImpl::key_set_; the policy byte stands two bytes before it */
    long weak_count;                /* TensorImpl::weakcount_: 16, after a word, or 12, after 32 bits; the strong count is at 8 */
    long dtype;                     /* TensorImpl::data_type_ */
    long storage;                   /* TensorImpl::storage_ */
    long storage_data;              /* StorageImpl: the data pointer */
    long storage_offset;            /* TensorImpl::storage_offset_ */
    long version, elements;         /* TensorImpl::version_counter_ and numel_; 0: not found */
    bool lends_rows;                /* both were found, and rows made with them are right: rows_lend() need not slice */
    long list;                      /* ListImpl: the vector */
    long arguments, argument_bytes; /* FunctionSchema's arguments within OperatorDef, sizeof(c10::Argument) */
    long overload;                  /* overload name within OperatorDef (the name is at 0) */
    long alias, alias_write;        /* c10::Argument: the AliasInfo, NULL for most; AliasInfo: is it written, (a!), or only viewed, (a)? */
    uint32_t tag_bool, tag_list;
    bool is_bound;            /* libtorch's calls to itself do not reach us: bound.c */
    long node_leaf;           /* then: the leaf within an AccumulateGrad node */
    void *leaf_meta;          /* then: the table of virtual functions of a leaf's AutogradMeta */
    struct tensor *undefined; /* UndefinedTensorImpl's singleton */
    void *tensor_vtable;      /* of a plain TensorImpl */
};
extern struct torch_facts torch_facts;

/* Calibrates, registers the fallback, runs the self-check. Stops the job when libtorch is not supported. */
void torch_begin(void);
/* Before the above, in any process of a job: in a libtorch that is bound to itself (bound.c), sees that seeds are set. Every draw calls it; it acts once. */
void bound_begin_seeds(void);
bool torch_has_function(const void *function); /* is the code one of libtorch_cpu's own? */
/* Runs a small network forward and backward through every hook, on private tensors; stops the job when something is not as it must be. Hooks are active. */
void torch_selfcheck(void);

/* The two dispatch keys that bring operators to us. */
static inline uint64_t keys_ours(void) {
    return torch_facts.bit_shard | torch_facts.bit_parameter;
}

/* ---- values and lists */
static inline struct value value_none(void) {
    return (struct value){.integer = 0, .tag = TAG_NONE};
}
static inline struct value value_int(int64_t integer) {
    return (struct value){.integer = integer, .tag = TAG_INT};
}
static inline struct value value_real(double real) {
    return (struct value){.real = real, .tag = TAG_DOUBLE};
}
static inline struct value value_bool(bool flag) {
    return (struct value){.integer = flag, .tag = torch_facts.tag_bool};
}
static inline struct value value_tensor(struct tensor *tensor) { /* borrowed */
    return (struct value){.tensor = tensor, .tag = TAG_TENSOR};
}
static inline bool value_is_tensor(const struct value *value) { /* and defined */
    return value->tag == TAG_TENSOR && value->tensor != torch_facts.undefined;
}
static inline bool value_is_list(const struct value *value) {
    return value->tag == torch_facts.tag_list;
}
static inline bool value_flag(const struct value *value) {
    return value->integer & 1;
}
/* The elements of a list value. An operator's own may be written in place (lists_unshare). */
static inline struct stack *value_list(const struct value *value) {
    return (struct stack *)((char *)value->pointer + torch_facts.list);
}
/* A new list of ints; the callee of the call it is passed to owns it. */
struct value value_int_list(const int64_t *integers, size_t count);
bool value_bool_list(const bool *flags, size_t count, struct value *list);   /* false: this libtorch does not say how */
struct value value_tensor_list(struct tensor *const *tensors, size_t count); /* takes references of its own */
struct value value_list_copy(const struct value *list);                      /* of tensors, or none; the same */
/* Drops what the value owns (tensors; lists made here and results of calls). */
void value_drop(struct value value);
/* Takes `fresh`, drops what was there. */
static inline void value_replace(struct value *value, struct value fresh) {
    struct value old = *value;
    *value = fresh;
    value_drop(old);
}

/* ---- tensors (tensor.c) */
static inline uint64_t *tensor_key_set(struct tensor *tensor) {
    return (uint64_t *)((char *)tensor + torch_facts.key_set);
}
static inline bool tensor_is_marked(struct tensor *tensor) { /* may have a record */
    return *tensor_key_set(tensor) & torch_facts.bit_shard;
}
/* Are its elements conjugated or negated as they are read (z.conj(), z.conj().imag)? */
static inline uint64_t tensor_lazy_bits(struct tensor *tensor) {
    return *tensor_key_set(tensor) & (torch_facts.bit_conjugate | torch_facts.bit_negative);
}
static inline bool tensor_is_lazy(struct tensor *tensor) {
    return tensor_lazy_bits(tensor) != 0;
}
static inline bool tensor_is_parameter(struct tensor *tensor) {
    return *tensor_key_set(tensor) & torch_facts.bit_parameter;
}
static inline enum torch_dtype tensor_dtype(struct tensor *tensor) {
    return (enum torch_dtype)(*(uint16_t *)((char *)tensor + torch_facts.dtype));
}
static inline bool dtype_is_narrow(enum torch_dtype dtype) {
    return dtype == DTYPE_FLOAT16 || dtype == DTYPE_BFLOAT16;
}
static inline bool dtype_is_floating(enum torch_dtype dtype) {
    return dtype == DTYPE_FLOAT32 || dtype == DTYPE_FLOAT64 || dtype_is_narrow(dtype);
}
static inline bool dtype_is_differentiable(enum torch_dtype dtype) {
    return dtype_is_floating(dtype) || dtype == DTYPE_COMPLEX64 || dtype == DTYPE_COMPLEX128;
}
size_t dtype_bytes(enum torch_dtype dtype);
/* The type a reduction carries a dtype as; false: cannot be reduced (quantised, ...). Complex goes as pairs: *factor elements each. */
bool dtype_for_comm(enum torch_dtype dtype, enum comm_dtype *comm, size_t *factor);

struct sizes tensor_sizes(struct tensor *tensor);   /* local, whatever the level */
struct sizes tensor_strides(struct tensor *tensor); /* local */
static inline int tensor_dims(struct tensor *tensor) {
    return (int)tensor_sizes(tensor).count;
}
static inline int64_t tensor_size(struct tensor *tensor, int dim) {
    return tensor_sizes(tensor).data[dim];
}
int64_t tensor_elements(struct tensor *tensor); /* local */
/* First byte of the tensor's own elements / of its storage. Host address only for CPU tensors. */
void *tensor_data(struct tensor *tensor);
void *tensor_storage(struct tensor *tensor);          /* identity of the storage */
int64_t tensor_storage_offset(struct tensor *tensor); /* elements */
void *tensor_own_data(struct tensor *tensor);         /* the same three, also while it is lent other memory (loan.c) */
void *tensor_own_storage(struct tensor *tensor);
int64_t tensor_own_offset(struct tensor *tensor);
void *tensor_lent_storage(struct tensor *tensor); /* that this thread is lent for it; NULL: none */
bool tensor_is_on_host(struct tensor *tensor);
static inline bool tensor_is_sparse(struct tensor *tensor) { /* indices and values (COO) */
    return *tensor_key_set(tensor) & torch_facts.bit_sparse;
}
size_t tensor_bytes(struct tensor *tensor);  /* of its elements, however they lie */
bool tensor_is_plain(struct tensor *tensor); /* strided TensorImpl itself, no subclass (sparse, quantised, nested, functional wrapper) */
/* Of the meta device: has nothing to train, and takes other data (x.data = y) only from what has its very keys (VariableHooks::set_data). */
bool tensor_has_no_values(struct tensor *tensor);
bool tensor_has_memory(struct tensor *tensor);    /* plain, and not of a class of Python's that only looks so (fake tensors, wrappers) */
bool tensor_is_ordinary(struct tensor *tensor);   /* plain, on the host, neither conjugated nor negated, with no gradient asked for */
bool tensor_is_contiguous(struct tensor *tensor); /* row by row, also in dimensions of one element, of which a stride may be anything */
bool tensor_is_dense(struct tensor *tensor);      /* elements fill their memory without holes or overlap, in some order of dimensions */
bool tensor_same_layout(struct tensor *one, struct tensor *other); /* the same type, sizes and strides */
bool tensor_requires_grad(struct tensor *tensor);
void *tensor_node(struct tensor *tensor);                /* grad_fn's Node*, or NULL */
bool tensor_is_view(struct tensor *tensor);              /* as autograd has it: a write to it changes the history of what it is a view of */
struct tensor **tensor_grad_slot(struct tensor *tensor); /* .grad in place */
void tensor_retain(struct tensor *tensor);
bool tensor_retain_living(struct tensor *tensor); /* false: nobody owns it; its end waits for us, without Python's lock, which this takes */
/* How many own the object, a tensor or a storage: its strong count. And how many own a storage, but for Python's object of it where nobody has that. */
uint32_t tensor_owners(const void *object);
uint32_t storage_owners(const void *storage);
/* Only we, who own it so often, have it: nor has Python by its object, which is an owner, too, since 2.13. Takes Python's lock. */
bool tensor_is_let_go(struct tensor *tensor, uint32_t own);
void tensor_release(struct tensor *tensor);
void tensor_mark_parameter(struct tensor *tensor);
unsigned tensor_add_hook(struct tensor *tensor, struct hook_closure closure); /* the hook's number */
/* True when autograd records what is done with the tensor now: it requires grad, grad mode is on and autograd is not excluded (torch::randn_like and its like
   run below autograd). */
bool tensor_is_recorded(struct tensor *tensor);
/* In a hook: true when the backward itself is recorded (create_graph). */
bool grad_mode_is_enabled(void);
/* ---- operators (operator.c) */
struct operator{
    char *definition;
    const char *name;       /* "aten::add" */
    const char *short_name; /* "add": without the aten:: */
    const char *overload;   /* "Tensor" */
    int argument_count, result_count;
    bool is_composite;    /* CompositeImplicitAutograd: written in terms of other operators */
    bool is_in_place;     /* add_ */
    bool is_out;          /* writes another argument than the first (out= overloads, running statistics), or, of the program, any */
    uint64_t written;     /* the arguments that it writes, by position: what its schema marks (a!) */
    bool may_alias;       /* its schema says that a result may be, or may share memory with, an argument: (a) */
    uint64_t origin_name; /* the client's: hooks/shard/origin.c */
    uint8_t origin_kind, origin_noise; /* of hooks/shard/origin.c */
    uint8_t writes;                    /* the client's word: enum written_values of hooks/shard */
    uint64_t without_interest;         /* arguments that are not read where it is called without boxing */
    const void *client;                /* what the client attached: its rule */
    bool only_records;                 /* the client's word: nothing is to be done without a record among its arguments */
    bool suits_direct;                 /* the client's word: direct_decide() may say what becomes of it */
};

/* A call of our own to a named operator: static storage, resolved on first use. */
struct operator_reference {
    const char *name, *overload;
    struct handle handle;
};

struct operator *operator_of(const struct handle *handle);
int operator_argument_count(struct operator_reference *reference); /* differs between releases */
/* Runs an operator opaquely with borrowed tensor arguments (lists are consumed); returns its first result, owned. Results beyond the first go, owned, into
   more[0..more_count) when more is given and are dropped otherwise. */
struct value operator_call(struct operator_reference *reference, int count, const struct value *arguments, struct value *more,
                           int more_count);

#define TORCH_CALL(operator_name, overload_name, ...)                                                                                      \
    ({                                                                                                                                     \
        static struct operator_reference reference_ = {operator_name, overload_name, {NULL, NULL}};                                        \
        struct value arguments_[] = {__VA_ARGS__};                                                                                         \
        operator_call(&reference_, (int)(sizeof arguments_ / sizeof arguments_[0]), arguments_, NULL, 0);                                  \
    })

/* ---- dispatch (dispatch.c) */
bool dispatch_is_opaque(void);                  /* this thread runs below user level */
bool dispatch_in_transform(void);               /* within one of torch.func's */
bool dispatch_in_mode(void);                    /* within a TorchDispatchMode of Python */
bool dispatch_is_of_subclass(uint64_t key_set); /* a tensor's class has a __torch_dispatch__ */
/* Within PyTorch's own modes alone: proxies, fake tensors, which know tensors by their identity. Releases before 2.2 do not tell them apart: in any mode. */
bool dispatch_in_trace(void);
bool dispatch_in_python(void); /* within a __torch_dispatch__ (python_call.c) */
/* regions.c: this thread is a helper of a kernel, below user level though its key set may not say so. */
bool regions_is_helper(void);
/* Before a collective: stops in a parallel region of the program's own. */
void regions_refuse(void);

struct opaque_scope {
    uint64_t *excluded; /* NULL: was opaque already */
};
struct opaque_scope opaque_enter(void);
void opaque_leave(struct opaque_scope *scope);
#define OPAQUE_SCOPE __attribute__((cleanup(opaque_leave), unused)) struct opaque_scope opaque_scope_ = opaque_enter()
void loans_return_all(void); /* before what names no tensors (loan.c) */
void loans_return_of(struct tensor *tensor);
/* Outside of all transforms of torch.func, and of all modes, until the end of the block. */
struct transform_scope {
    uint64_t included, excluded; /* the thread's keys, to be so again */
};
struct transform_scope transform_leave(void);
void transform_return(struct transform_scope *scope);
#define OUTSIDE_TRANSFORM_SCOPE                                                                                                            \
    __attribute__((cleanup(transform_return), unused)) struct transform_scope transform_scope_ = transform_leave()
/* Back to user level for code of the program that is called from inside (hooks, custom backward functions). */
struct opaque_scope user_enter(void);
void user_leave(struct opaque_scope *scope);

/* Runs the kernel below our keys. Opaque: its inner operators are not seen and it sees local sizes. At user level: for composites, whose inner operators
   come back to us. The stack holds arguments before and results after. */
void dispatch_run_opaque(struct operator *op, const struct handle *handle, uint64_t key_set, struct stack *stack);
void dispatch_run_user(struct operator *op, const struct handle *handle, uint64_t key_set, struct stack *stack);

/* The client: called for every operator at user level with a marked argument. arguments: exactly op->argument_count values on the stack. */
struct dispatch_call {
    struct operator *op;
    const struct handle *handle;
    uint64_t key_set; /* without our keys */
    struct stack *stack;
};
struct direct_call;
struct dispatch_client {
    void (*operator_met)(struct operator *op); /* once per operator: attach op->client, say op->only_records */
    void (*call)(struct dispatch_call *call);
    /* The whole value of a marked tensor, owned, part of the graph where its rows are. Every rank must call it alike. */
    struct tensor *(*whole)(struct tensor *tensor);
    /* A value that takes the place of one that was divided, or not, as a record says: in that form, owned, marked where it is divided. The value itself where
       it has the form; its whole where it has other sizes. Every rank must call it alike. */
    struct tensor *(*in_form)(struct tensor *tensor, const struct record *wanted);
    bool (*is_gathered)(void *node); /* a node of the graph: does a whole value there come from divided rows? Every rank answers alike. */
    /* The tensor whose memory the program sees, from *offset of its storage on, where it looks at a marked one's, or whose storage where it takes that; NULL:
       its own. Borrowed. */
    struct tensor *(*memory)(struct tensor *tensor, int64_t *offset), *(*storage)(struct tensor *tensor);
    /* Before a backward, and after code of the program that it has called back: takes back what the program wrote through pointers. Every rank calls it. */
    void (*settle)(void);
    /* May the operator be run on these tensors as it is? Sets call->record. Then: what has come of it is marked. Only of operators that suits_direct. */
    bool (*decide_direct)(struct direct_call *call);
    void (*mark_direct)(const struct direct_call *call, struct tensor *result);
    /* The rows of the batch that was cut last, by which one-dimensional indices are known for a batch. What is computed again later is told what it was. */
    int64_t *(*last_batch)(void);
    void (*saves_are_seen)(
        void); /* from now on: the program may look at, and change, what is saved for the backward; let it be the program's alone */
    struct record (*saved_record)(struct tensor *tensor); /* what an unmarked tensor is that the operator that is running saves */
    uint64_t (*batches)(void);                            /* how many have come to this thread, as the ranks count them */
    /* A whole tensor, its values already there, takes the place of a divided one that the program may have, too: what is written to either by an operator, or
       told of below, reaches the other. No collective. And: a marked tensor has been written to under OPAQUE_SCOPE, so that its views and copies are made
       anew; a collective. */
    void (*stand_for)(struct tensor *tensor, struct tensor *whole);
    void (*written)(struct tensor *tensor);
    void (*replaced)(struct tensor *tensor, bool is_done); /* x.data = y: before, and once it has another memory */
    /* A hook of the program's on the gradient of what this node of the graph has computed has run, after those of the client's: what it has made of it. */
    void (*hook_returned)(void *node, struct tensor *gradient);
    /* What this thread has learned about where batches are cut, malloc's, of so many bytes that may be moved; and the time in which a thread computes again
       what was computed when that was known: it is divided as it was, and what it learns is forgotten. */
    struct learned_known *(*keep_learned)(size_t *bytes);
    struct learned_again *(*begin_again)(const struct learned_known *known);
    void (*end_again)(struct learned_again **again);
};
extern const struct dispatch_client dispatch_client; /* defined by hooks/shard */

/* An exception passes the operator, on this rank alone, perhaps (thrown.c). The name is copied. */
void thrown_note(const char *operator);
#define THROWN_NOTE "exception of " /* then its name */
/* In this scope the operator runs, until RUNNING_ENDS; what leaves it before throws. */
static inline void thrown_leave(const char *const *running) {
    if (__builtin_expect(*running != NULL, 0))
        thrown_note(*running);
}
#define RUNNING_SCOPE(operator) __attribute__((cleanup(thrown_leave))) const char *running_ = (operator)
#define RUNNING_ENDS running_ = NULL

/* Has a call of this thread worked on divided rows since this was set to false? Set to true by the client. */
void dispatch_set_divided(bool has_divided);
bool dispatch_has_divided(void);

/* An operator whose arguments are words in registers (direct.c). */
enum { DIRECT_ARGUMENTS_MAX = 4 };
struct direct_call {
    struct operator *op;
    uint64_t key_set; /* without our keys */
    struct value
        values[DIRECT_ARGUMENTS_MAX]; /* borrowed tensors, integers, one TAG_INTS that the client may write to; TAG_NONE: of no interest */
    int count;
    unsigned lent;        /* bits: values that the client has replaced by owned tensors, whatever it has decided */
    struct record record; /* the client's decision: what the result will be */
};

/* ---- this rank's rows of a whole tensor (rows.c). Opaque; along dim the whole has record_total() elements. */
/* The rows, with the tensor's history; a view where nothing is merged before them, else a copy in the same order of dimensions. Owned. */
struct tensor *rows_take(struct tensor *whole, const struct record *record, int dim);
/* The same for an operator that reads them and makes something new: whole requires no gradient. At a third of the cost where it is contiguous and cut along
   its first dimension: the memory and its version are the whole's, as ever, but autograd does not know of a view. */
struct tensor *rows_lend(struct tensor *whole, const struct record *record, int dim);
bool rows_can_be_lent(struct tensor *whole, const struct record *record, int dim);
/* Another tensor of the same elements, not marked, writes to which count as writes to `other`: to write as libtorch's kernels write, past the version by
   which a backward sees that what it has saved was changed. The whole itself where a build's layout is not known. Owned. */
struct tensor *rows_alias_uncounted(struct tensor *whole, struct tensor *other);
/* The same of what can be lent, for one call of the caller's, which whole outlives, at a tenth of the cost. Given back after the call, not released. */
struct tensor *rows_lend_for_call(struct tensor *whole, const struct record *record);
void rows_give_back(struct tensor *lent);
/* Writes the rows, with their history, into the whole tensor's: where that is expanded, the rows are, too. */
void rows_put(struct tensor *whole, const struct record *record, struct tensor *rows);

/* ---- tensors on an accelerator (host.c). Owned results without history or record. */
/* Memory of the host's with the tensor's sizes, and its strides where it is dense (else contiguous); its values too. */
struct tensor *host_empty(struct tensor *like);
struct tensor *host_copy(struct tensor *tensor);
/* The values where `like` is: a copy, or the tensor itself where that is the host. */
struct tensor *host_to_device_of(struct tensor *host, struct tensor *like);
/* Between any two places; the tensors have the same sizes. */
void host_copy_values(struct tensor *to, struct tensor *from);

/* ---- the graph of a backward (graph.c). Edges are std::vector<Edge>: the engine's roots, what gradients are asked for, a node's. */
typedef bool graph_visitor(void *node, const void *context);
/* Do they lead to a node that is sought? True where a node's edges were not found. */
bool graph_leads_to(const struct vector *edges, graph_visitor *is_sought, const void *context);
/* For a visitor. */
const struct vector *graph_edges_of(void *node);
bool graph_is_among(const struct vector *edges, const void *node);
size_t graph_edges(const struct vector *edges);             /* how many */
void *graph_edge(const struct vector *edges, size_t index); /* the node that it leads to, or NULL */
/* The leaf of which it accumulates the gradient; NULL: it is another node, or nobody knows. */
struct tensor *graph_leaf(void *node);
bool graph_is_kept(void); /* by a call of the engine (keep_graph, create_graph), whichever thread's: what hooks hold of nodes must stay */
void graph_note_keeper(bool begins); /* by hooks/reduce: such a call begins, or ends */
/* Has it cast a tensor to float16, so that the gradient passes through that type? False where nodes do not say. */
bool graph_is_cast_to_half(const void *node);
/* The first hook of the node itself, before or after it (no tensor's), that is sought: a FunctionPreHook or FunctionPostHook. NULL: none, or nobody found
   where they are. */
void *graph_hook_of(void *node, bool (*is_sought)(void *hook));

/* ---- virtual functions (virtual.c). Calls must not overlap: the interpreter's lock, or the lock of the caller's table. */
typedef void *node_apply(void *result, void *node, void *gradients); /* variable_list Node::apply(variable_list &&) */
/* From now on the engine calls `apply` for this node of a custom function: the same one for all nodes. */
void node_replace_apply(void *node, node_apply *apply);
/* What it called before. */
node_apply *node_original_apply(void *node);
bool node_is_replaced(void *node);
bool node_is_accumulator(void *node); /* an AccumulateGrad */
/* Puts a function into a slot of an object's table, for all objects of its class; returns what stood there, NULL when it is there already. Tables of shared
   libraries only (their pages are never executable). */
void *virtual_replace(void *object, int slot, void *function);
/* Puts a function into a slot of a table. */
void virtual_write(void **slot, void *function);
/* The class of an object with virtual functions, mangled, or as C++ writes it, allocated; NULL: it has no name. */
const char *virtual_class(void *object);
/* Is the class libtorch's own, be its table in the program, as that of a custom function's node? Not: called as if it were. */
bool virtual_is_of_libtorch(void *object);
char *virtual_class_shown(void *object);

/* Says that this libtorch is not supported, naming the check that failed. */
void torch_unsupported(const char *check, const char *format, ...) __attribute__((format(printf, 2, 3), noreturn));

/* Where Python may have made its types: hands them out to features, once (legacy.c). Any thread. */
void legacy_begin(void);

#endif
