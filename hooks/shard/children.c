/*
 * Forked children. They have this rank's memory and no other rank: divided rows are out of their reach, but not the copies of whole batches that were made for
 * the program's eyes (read.c). So what a child of multiprocessing is going to work on, a loader's worker above all, is looked at before the fork: what its
 * function, its arguments and the methods of its objects name. Where the child uses one of these tensors, that becomes a tensor of such a copy. What it finds
 * divided without one stops the job (AR-FORKED).
 */
#include <pthread.h>

#include "copies.h"
#include "window.h"

static const char code[] =
    "import collections, functools, itertools, os, sys, types\n"
    "most, first, scalars = 50000, 1000, (str, bytes, int, float, complex, bool, type(None))\n"
    "def names(code):\n"
    "    yield from code.co_names\n"
    "    for part in code.co_consts: # comprehensions, lambdas and inner functions\n"
    "        if isinstance(part, types.CodeType):\n"
    "            yield from names(part)\n"
    "def of_function(function):\n"
    "    yield from (function.__defaults__ or ())\n"
    "    for cell in function.__closure__ or ():\n"
    "        try:\n"
    "            yield cell.cell_contents\n"
    "        except ValueError:\n"
    "            pass\n"
    "    known = function.__globals__\n"
    "    if str(known.get('__name__')).partition('.')[0] not in ('torch', 'multiprocessing'):\n"
    "        for name in names(function.__code__):\n"
    "            if name in known:\n"
    "                yield known[name]\n"
    "def of_class(thing, base):\n"
    "    for name, part in list(vars(base).items()):\n"
    "        if isinstance(part, (staticmethod, classmethod)):\n"
    "            yield part.__func__\n"
    "        elif isinstance(part, property):\n"
    "            yield part.fget\n"
    "        elif isinstance(part, types.MemberDescriptorType): # __slots__\n"
    "            yield getattr(thing, name, None)\n"
    "        elif not name.startswith('__') or isinstance(part, types.FunctionType):\n"
    "            yield part\n"
    "def is_plain(part):\n"
    "    return type(part) in scalars or type(part) is tuple and all(type(one) in scalars for one in part)\n"
    "def within(thing, kind):\n"
    "    if issubclass(kind, (list, tuple)):\n"
    "        ends = thing[:1] + thing[len(thing) // 2:len(thing) // 2 + 1] + thing[-1:]\n"
    "        if len(thing) < first or not all(is_plain(part) for part in ends):\n"
    "            yield from (thing if len(thing) < most else thing[:first])\n"
    "    elif issubclass(kind, dict):\n"
    "        yield from list(itertools.islice(dict.values(thing), most))\n"
    "    elif kind is types.FunctionType:\n"
    "        yield from of_function(thing)\n"
    "    elif kind is types.MethodType:\n"
    "        yield thing.__self__\n"
    "        yield thing.__func__\n"
    "    elif issubclass(kind, functools.partial):\n"
    "        yield from (thing.func, thing.args, thing.keywords)\n"
    "    elif not issubclass(kind, (type, types.ModuleType)) and (hasattr(thing, '__dict__') or hasattr(kind, '__slots__')):\n"
    "        yield from list(getattr(thing, '__dict__', {}).values())\n"
    "        for base in kind.__mro__:\n"
    "            if str(base.__module__).partition('.')[0] not in ('torch', 'multiprocessing', 'builtins'):\n"
    "                yield from of_class(thing, base)\n"
    "def parts(thing, kind):\n"
    "    try:\n"
    "        return [part for part in within(thing, kind) if type(part) not in scalars]\n"
    "    except Exception: # a proxy of what is gone, an object that answers as another\n"
    "        return ()\n"
    "def before():\n"
    "    frame = sys._getframe(1)\n"
    "    while frame is not None and 'process_obj' not in frame.f_code.co_varnames: # f_locals would keep what a frame has\n"
    "        frame = frame.f_back\n"
    "    Tensor = getattr(sys.modules.get('torch'), 'Tensor', None)\n"
    "    if frame is None or Tensor is None or 'process_obj' not in frame.f_locals:\n"
    "        return\n"
    "    waiting, seen = collections.deque([frame.f_locals['process_obj']]), {}\n"
    "    while waiting and len(seen) < most:\n"
    "        thing = waiting.popleft() # what is near goes first: a list of many examples is as long as it likes\n"
    "        if id(thing) in seen:\n"
    "            continue\n"
    "        seen[id(thing)] = thing\n"
    "        kind = type(thing)\n"
    "        if issubclass(kind, Tensor):\n"
    "            show(thing)\n"
    "        else:\n"
    "            waiting.extend(parts(thing, kind))\n"
    "os.register_at_fork(before=before)\n";

/* show(tensor): its whole value will be at hand. */
static struct object *show(struct object *self, struct object *arguments) {
    const struct python_api *python = python_api();
    struct tensor *tensor = python_tensor(python->tuple_get(arguments, 0));
    enum record_kind kind = tensor ? record_get(tensor).kind : RECORD_NONE;
    if ((kind == RECORD_SHARD || kind == RECORD_PARTIAL) && !tensor_requires_grad(tensor) && tensor_is_on_host(tensor))
        read_stand_in(tensor);
    python->retain(python->none);
    return python->none;
}

/* Interpreter's lock held. */
void children_ready(struct object *base) {
    static const struct python_method method = {"show", show, PYTHON_VARARGS, NULL};
    python_extend(code, &method, base);
}

__attribute__((noreturn)) static void refuse(void) {
    shim_problem("AR-FORKED", "Copy it before the fork, e.g. x.detach().numpy().copy(), or compute it in the child.",
                 "a child process forked by the program uses a tensor whose rows were divided among the ranks before the fork");
}

/* ---- one memory: tensors that are views of one another have copies of their own (read.c), which nothing keeps equal in a child. */

/* Where the elements of the whole would lie in the whole's storage. */
struct region {
    struct extent told;
    struct layout_block block;
};

static struct region region_of(const struct copy *copy) {
    struct region region = {.told = extent_told(copy->alias, &copy->record)};
    if (copy->record.kind == RECORD_SHARD && !layout_block(copy->alias, &copy->record, &region.block))
        refuse();
    return region;
}

/* How many elements all regions take; the blocks of rows that they are views of must be the same. */
static int64_t regions_end(const struct place *place) {
    int64_t end = 0;
    const struct copy *first = NULL;
    struct region one;
    LIST_EACH (const struct copy, copy, place->copies, of_place) {
        struct region region = region_of(copy);
        if (!first) {
            first = copy;
            one = region;
        }
        if (copy->record.kind != first->record.kind || tensor_dtype(copy->alias) != tensor_dtype(first->alias) ||
            memcmp(&region.block, &one.block, sizeof region.block) != 0)
            refuse();
        int64_t own = extent_end(&region.told);
        end = own > end ? own : end;
    }
    return end;
}

static bool are_united(const struct place *place) {
    const void *storage = NULL;
    LIST_EACH (const struct copy, copy, place->copies, of_place) {
        if (storage && tensor_storage(copy->whole) != storage)
            return false;
        storage = tensor_storage(copy->whole);
    }
    return true;
}

/* Copies that were equal before the fork become parts of one memory. The old ones are kept: the list knows copies by their storages. */
void children_unite(const struct place *place) {
    if (are_united(place))
        return;
    int64_t elements = regions_end(place);
    struct value all = value_none();
    LIST_EACH (struct copy, copy, place->copies, of_place) {
        struct value seen = value_tensor(copy->whole);
        if (!value_is_tensor(&all))
            all = TORCH_CALL("aten::new_zeros", "", seen, value_int_list(&elements, 1), value_none(), value_none(), value_none(),
                             value_none());
        struct region region = region_of(copy);
        struct value part = window_part(all.tensor, &region.told);
        layout_copy(part, seen);
        copy->whole = part.tensor;
    }
    value_drop(all);
}

/* ---- a tensor becomes its whole: from then on it is one like any other, also to what changes its sizes in place. */

static struct pairs wholes; /* of those that have */
static pthread_mutex_t wholes_mutex = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void children_start(void) {
    threads_renew_in_child(&wholes_mutex);
}

/* Takes part: what lies there. Conjugated and negated as the tensor is. */
static void become(struct tensor *tensor, struct value part) {
    OPAQUE_SCOPE;
    OUTSIDE_TRANSFORM_SCOPE;
    value_replace(&part, layout_read_as(part.tensor, tensor_lazy_bits(tensor)));
    value_drop(TORCH_CALL("aten::set_data", "", value_tensor(tensor), part));
    value_drop(part);
}

static void become_whole(struct tensor *tensor, const struct record *record) {
    struct tensor *whole = tensor_requires_grad(tensor) ? NULL : read_copy_at_hand(tensor, record);
    if (!whole && !tensor_requires_grad(tensor)) { /* stays, as copies do */
        struct value part = read_part_at_hand(tensor, record);
        whole = value_is_tensor(&part) ? part.tensor : NULL;
    }
    if (!whole)
        refuse();
    pthread_mutex_lock(&wholes_mutex);
    pairs_put(&wholes, tensor, whole);
    pthread_mutex_unlock(&wholes_mutex);
    become(tensor, TORCH_CALL("aten::detach", "", value_tensor(whole)));
}

/* A view of rows (h[5]) is one of a copy, which is not the one that the child has of h; of that it becomes a view. */
static void become_view(struct tensor *tensor) {
    struct tensor *source, *seen, *whole;
    struct record record;
    if (!window_find(tensor_own_storage(tensor), &source, &record, &seen) || tensor_requires_grad(tensor) || tensor_requires_grad(source))
        return;
    whole = pairs_get(&wholes, source);
    whole = whole ? whole : read_copy_at_hand(source, &record);
    if (!whole)
        return;
    if (!tensor_same_layout(whole, seen) || tensor_dtype(tensor) != tensor_dtype(seen))
        refuse();
    struct sizes sizes = tensor_sizes(tensor), strides = tensor_strides(tensor);
    int64_t offset = tensor_storage_offset(whole) + tensor_own_offset(tensor) - tensor_storage_offset(seen);
    struct value plain = TORCH_CALL("aten::detach", "", value_tensor(whole));
    struct value part = TORCH_CALL("aten::as_strided", "", plain, value_int_list(sizes.data, sizes.count),
                                   value_int_list(strides.data, strides.count), value_int(offset));
    value_drop(plain);
    become(tensor, part);
}

void children_become(struct tensor *tensor, const struct record *record) {
    if (record->kind == RECORD_GATHERED)
        become_view(tensor);
    else
        become_whole(tensor, record);
}
