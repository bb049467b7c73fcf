/*
 * Forked children. They have this rank's memory and no other rank: divided rows are out of their reach, but not the copies of whole batches that were made for
 * the program's eyes (read.c). So what a child of multiprocessing is going to work on, a loader's worker above all, is looked at before the fork: what its
 * function, its arguments and the methods of its objects name. What it finds divided without such a copy stops the job (AR-FORKED).
 */
#include "shard.h"

static const char code[] = "import functools, os, sys, types\n"
                           "most, scalars = 50000, (str, bytes, int, float, complex, type(None))\n"
                           "def of_function(function):\n"
                           "    yield from (function.__defaults__ or ())\n"
                           "    for cell in function.__closure__ or ():\n"
                           "        try:\n"
                           "            yield cell.cell_contents\n"
                           "        except ValueError:\n"
                           "            pass\n"
                           "    known = function.__globals__\n"
                           "    if str(known.get('__name__')).partition('.')[0] not in ('torch', 'multiprocessing'):\n"
                           "        for name in function.__code__.co_names:\n"
                           "            if name in known:\n"
                           "                yield known[name]\n"
                           "def within(thing):\n"
                           "    if isinstance(thing, (list, tuple)):\n"
                           "        if not (len(thing) > 1000 and isinstance(thing[0], scalars)):\n"
                           "            yield from thing\n"
                           "    elif isinstance(thing, dict):\n"
                           "        yield from list(thing.values())\n"
                           "    elif isinstance(thing, types.FunctionType):\n"
                           "        yield from of_function(thing)\n"
                           "    elif isinstance(thing, types.MethodType):\n"
                           "        yield thing.__self__\n"
                           "        yield thing.__func__\n"
                           "    elif isinstance(thing, functools.partial):\n"
                           "        yield from (thing.func, thing.args, thing.keywords)\n"
                           "    elif not isinstance(thing, (type, types.ModuleType)) and hasattr(thing, '__dict__'):\n"
                           "        yield from list(vars(thing).values())\n"
                           "        for kind in type(thing).__mro__:\n"
                           "            if str(kind.__module__).partition('.')[0] not in ('torch', 'multiprocessing', 'builtins'):\n"
                           "                yield from [part for part in vars(kind).values() if isinstance(part, types.FunctionType)]\n"
                           "def before():\n"
                           "    frame = sys._getframe(1)\n"
                           "    while frame is not None and 'process_obj' not in frame.f_locals:\n"
                           "        frame = frame.f_back\n"
                           "    Tensor = getattr(sys.modules.get('torch'), 'Tensor', None)\n"
                           "    if frame is None or Tensor is None:\n"
                           "        return\n"
                           "    waiting, seen = [frame.f_locals['process_obj']], {}\n"
                           "    while waiting and len(seen) < most:\n"
                           "        thing = waiting.pop()\n"
                           "        if isinstance(thing, scalars) or id(thing) in seen:\n"
                           "            continue\n"
                           "        seen[id(thing)] = thing\n"
                           "        if isinstance(thing, Tensor):\n"
                           "            show(thing)\n"
                           "        else:\n"
                           "            waiting.extend(within(thing))\n"
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

struct tensor *children_whole(struct tensor *tensor, const struct record *record) {
    struct tensor *whole = tensor_requires_grad(tensor) ? NULL : read_copy_at_hand(tensor, record);
    if (!whole)
        shim_problem("AR-FORKED", "Copy it before the fork, e.g. x.detach().numpy().copy(), or compute it in the child.",
                     "a child process forked by the program uses a tensor whose rows were divided among the ranks before the fork");
    return whole;
}
