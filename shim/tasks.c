/*
 * What Python gives to threads: tasks of its pools, threads, items of queues. Each has a word (threads.h), made by the one that gives it, by which the thread
 * goes that does it.
 *
 * tell() says what a thing is, in words that are the same on all ranks: nothing that changes with time (lists that others append to, what closures count,
 * values of arrays), and nothing of where it lies. A thread that takes items from a queue goes by the item, but not the main thread, and no task of a pool:
 * what they take there is most often a result, or a token. After None, which ends most such loops, it goes by its own word again.
 *
 * All of this is there when the program makes its first thread or its first parameter. A task that was submitted before it, the first of a pool, counts as the
 * main thread's.
 */
#include <string.h>

#include "python.h"
#include "threads.h"

static const char code[] =
    "import enum, functools, importlib, threading, types, zlib\n"
    "local, telling = threading.local(), (int, float, str, bytes, tuple, list, dict, types.FunctionType, functools.partial)\n"
    "def tell(thing, depth=3):\n"
    "    kind, parts = type(thing), ()\n"
    "    if thing is None or kind in (bool, int, float, complex, range):\n"
    "        return repr(thing)\n"
    "    if kind in (str, bytes):\n"
    "        return repr(thing) if len(thing) < 99 else f'{len(thing)} {zlib.crc32(repr((thing[:4096], thing[-4096:])).encode())}'\n"
    "    name = kind.__qualname__\n"
    "    if isinstance(thing, (type, types.FunctionType, types.BuiltinFunctionType)):\n"
    "        name, parts = thing.__qualname__, getattr(thing, '__defaults__', None) or ()\n"
    "    elif isinstance(thing, tuple):\n"
    "        parts = thing[:64]\n"
    "    elif isinstance(thing, types.MethodType):\n"
    "        parts = thing.__func__, thing.__self__\n"
    "    elif isinstance(thing, functools.partial):\n"
    "        parts = thing.func, *thing.args, *thing.keywords.values()\n"
    "    elif isinstance(thing, enum.Enum):\n"
    "        parts = thing.name,\n"
    "    elif hasattr(thing, 'dtype') and hasattr(thing, 'shape'):\n"
    "        parts = str(thing.dtype), tuple(thing.shape)\n"
    "    return f\"{name}({','.join(tell(part, depth - 1) for part in parts)})\" if depth else name\n"
    "def word(*things):\n"
    "    try:\n"
    "        return thread(zlib.crc32(tell(things).encode()), None)\n"
    "    except Exception:\n"
    "        return thread(0, None)\n"
    "def patch(module, kind, name, make):\n"
    "    owner = getattr(importlib.import_module(module), kind, None)\n"
    "    if hasattr(owner, name):\n"
    "        setattr(owner, name, make(getattr(owner, name)))\n"
    "def run_as(task, function, *values, **named):\n"
    "    before, local.is_task = (thread(task), getattr(local, 'is_task', False)), True\n"
    "    try:\n"
    "        return function(*values, **named)\n"
    "    finally:\n"
    "        thread(before[0])\n"
    "        local.is_task = before[1]\n"
    "def known(original):\n"
    "    def __init__(self, future, *values, **named):\n"
    "        original(self, future, *values, **named)\n"
    "        self._accel_run_task = word(*values, *named.values())\n"
    "    return __init__\n"
    "def unknown(item):\n"
    "    before = thread(bytes(8))\n"
    "    task = word(getattr(item, 'fn', None), *getattr(item, 'args', ()), *getattr(item, 'kwargs', {}).values())\n"
    "    thread(before)\n"
    "    return task\n"
    "def as_task(original):\n"
    "    def run(self, *values, **named):\n"
    "        task = getattr(self, '_accel_run_task', None) or unknown(self)\n"
    "        return run_as(task, original, self, *values, **named)\n"
    "    return run\n"
    "def started(original):\n"
    "    def start(self):\n"
    "        self._accel_run_task = word(type(self), getattr(self, '_target', None), getattr(self, '_args', None))\n"
    "        return original(self)\n"
    "    return start\n"
    "def as_thread(original):\n"
    "    def _bootstrap_inner(self):\n"
    "        if hasattr(self, '_accel_run_task'):\n"
    "            thread(self._accel_run_task)\n"
    "        return original(self)\n"
    "    return _bootstrap_inner\n"
    "def uncounted(original):\n"
    "    def _adjust_thread_count(self):\n"
    "        before = thread(b'\\1' * 8)\n"
    "        try:\n"
    "            return original(self)\n"
    "        finally:\n"
    "            thread(before)\n"
    "    return _adjust_thread_count\n"
    "class Task:\n"
    "    def __init__(self, function, *values):\n"
    "        self.function, self.task = function, word(function, *values)\n"
    "    def __call__(self, *values, **named):\n"
    "        return run_as(self.task, self.function, *values, **named)\n"
    "def one(original):\n"
    "    def apply_async(self, function, args=(), *values, **named):\n"
    "        return original(self, Task(function, args), args, *values, **named)\n"
    "    return apply_async\n"
    "def many(original):\n"
    "    def tasks(first, given):\n"
    "        for job, index, function, values, named in given:\n"
    "            before = thread(first)\n"
    "            task = Task(function, values)\n"
    "            thread(before)\n"
    "            yield job, index, task, values, named\n"
    "    return lambda self, *values: tasks(word(), original(self, *values))\n"
    "def words_of(queue):\n"
    "    words = queue.__dict__.setdefault('_accel_run_tasks', [])\n"
    "    if len(words) != len(queue.queue):\n"
    "        words[:] = [None] * len(queue.queue)\n"
    "    return words\n"
    "def are_ours(queue):\n"
    "    kind = type(queue)\n"
    "    return getattr(kind._put, 'accel_run', 0) == getattr(kind._get, 'accel_run', 1)\n"
    "def put_in(name):\n"
    "    def make(original):\n"
    "        def _put(self, item):\n"
    "            words = words_of(self) if are_ours(self) else []\n"
    "            original(self, item)\n"
    "            words.append(word(item) if isinstance(item, telling) or hasattr(item, 'dtype') else None)\n"
    "        _put.accel_run = name\n"
    "        return _put\n"
    "    return make\n"
    "def got_from(name, end):\n"
    "    def make(original):\n"
    "        def _get(self):\n"
    "            task = words_of(self).pop(end) if are_ours(self) else None\n"
    "            item = original(self)\n"
    "            if threading.current_thread() is not threading.main_thread() and not getattr(local, 'is_task', False):\n"
    "                if task:\n"
    "                    before = thread(task)\n"
    "                    local.own = getattr(local, 'own', before)\n"
    "                elif item is None and hasattr(local, 'own'):\n"
    "                    thread(local.own)\n"
    "            return item\n"
    "        _get.accel_run = name\n"
    "        return _get\n"
    "    return make\n"
    "executor, pool = 'concurrent.futures.thread', 'multiprocessing.pool'\n" /* what they import torch has imported */
    "patch(executor, '_WorkItem', '__init__', known)\n"
    "patch(executor, '_WorkItem', 'run', as_task)\n"
    "patch(executor, 'ThreadPoolExecutor', '_adjust_thread_count', uncounted)\n"
    "patch(pool, 'ThreadPool', 'apply_async', one)\n"
    "patch(pool, 'ThreadPool', '_guarded_task_generation', many)\n"
    "patch('threading', 'Thread', 'start', started)\n"
    "patch('threading', 'Thread', '_bootstrap_inner', as_thread)\n"
    "for kind, end in ('Queue', 0), ('LifoQueue', -1):\n"
    "    patch('queue', kind, '_put', put_in(kind))\n"
    "    patch('queue', kind, '_get', got_from(kind, end))\n";

/* thread(kind, None): a word for what this thread gives away. thread(word): goes by it, and returns what it went by before. */
static struct object *thread_word(struct object *self, struct object *arguments) {
    const struct python_api *python = python_api();
    struct object *given = python->tuple_get(arguments, 0);
    uint64_t word;
    if (python->tuple_size(arguments) == 2) {
        word = threads_word_of_new((uint64_t)(uintptr_t)python->number_address(given));
    } else {
        memcpy(&word, python->bytes_text(given), sizeof word);
        word = threads_go_by(word);
    }
    return python->bytes_new(&word, sizeof word);
}

/* Interpreter's lock held. */
void tasks_ready(struct object *base) {
    static const struct python_method method = {"thread", thread_word, PYTHON_VARARGS, NULL};
    if (threads_are_told_apart())
        python_extend(code, &method, base);
}
