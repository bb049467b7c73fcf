/*
 * What Python's workers have done is handed out in the order in which it was asked for, not in the one in which they end: that is another one on each rank,
 * and in each run of one process. Any order is right, then; this one all ranks know.
 *
 * as_completed has most often been imported by name before this: its code is replaced, not the function. With a time limit it is left alone.
 */
#include "python.h"

static const char code[] =
    "import itertools, multiprocessing.pool, types\n"
    "import concurrent.futures._base as base\n"
    "import torch.utils.data.dataloader as loaders\n"
    "numbers = itertools.count()\n"
    "def numbered(original):\n"
    "    def __init__(self, *values, **named):\n"
    "        self._accel_run_number = next(numbers)\n"
    "        original(self, *values, **named)\n"
    "    return __init__\n"
    "def as_completed(fs, timeout=None):\n" /* its names are those of base */
    "    if timeout is not None:\n"
    "        yield from _accel_run_as_completed(fs, timeout)\n"
    "        return\n"
    "    fs = sorted(dict.fromkeys(fs), key=lambda future: getattr(future, '_accel_run_number', -1))\n"
    "    fs.reverse()\n"
    "    while fs:\n"
    "        wait(fs[-1:])\n"
    "        yield fs.pop()\n" /* nothing keeps it, and its result, any more */
    "original = base.as_completed\n"
    "base._accel_run_as_completed = types.FunctionType(original.__code__, original.__globals__, 'as_completed', original.__defaults__)\n"
    "base.Future.__init__ = numbered(base.Future.__init__)\n"
    "original.__code__ = as_completed.__code__\n"
    "multiprocessing.pool.Pool.imap_unordered = multiprocessing.pool.Pool.imap\n"
    "def in_order(original):\n"
    "    def __init__(self, loader):\n"
    "        wanted = loader.in_order\n"
    "        loader.in_order = True\n"
    "        try:\n"
    "            original(self, loader)\n"
    "        finally:\n"
    "            loader.in_order = wanted\n"
    "    return __init__\n"
    "if 'in_order' in loaders.DataLoader.__init__.__code__.co_varnames:\n"
    "    loaders._MultiProcessingDataLoaderIter.__init__ = in_order(loaders._MultiProcessingDataLoaderIter.__init__)\n";

/* Interpreter's lock held. */
void arrivals_ready(struct object *base) {
    (void)base;
    struct object *names = python_run(code, NULL, NULL);
    if (names)
        python_api()->release(names);
}
