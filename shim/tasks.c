/*
 * What Python gives to threads: tasks of its pools, threads, items of queues. Each has a word (threads.h), made by the one that gives it, by which the thread
 * goes that does it.
 *
 * tell() says what a thing is, in words that are the same on all ranks: nothing that changes with time (lists that others append to, what closures count,
 * values of arrays), and nothing of where it lies. Numbers of many digits are most often times, addresses or results: only their type is told. Times and
 * process numbers in what is left become one mark (moment.h); the host's name is left out, and so are names in temporary folders, which each rank draws.
 * Things that are then told alike are told apart by their number.
 *
 * A thread that takes items from a queue goes by the item, but not the main thread, and no task of a pool: what they take there is most often a result, or
 * a token. Nor one that takes what a thread or task puts there that it has started itself: its result. After None or object(), which end most such loops, it
 * goes by its own word again.
 *
 * A callback goes by a word of its job's. What it gives away with what its job has found, or with what it was made with, is its own, too; the next job, when
 * one has ended, is as if whoever asked for the callback gave it: which has ended first is another one on each rank. Who has asked may give the first ones, and
 * one of those end meanwhile: both count together.
 *
 * All of this is there when the program makes its first thread or its first parameter. A task that was submitted before it, the first of a pool, counts as the
 * main thread's.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "checksum.h"
#include "link.h"
#include "moment.h"
#include "python.h"
#include "shim.h"
#include "threads.h"

static const char code[] =
    "import collections, dataclasses, enum, functools, importlib, os, pathlib, re, threading, types\n"
    "from concurrent.futures import Future\n"
    "local = threading.local()\n"
    "told = (str, bytes, int, bool, type(None), type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)\n"
    "host = re.compile('(?<![A-Za-z0-9])' + re.escape(os.uname().nodename) + '(?![A-Za-z0-9])')\n"
    "def spelled(text):\n"
    "    if text[:1] == '/':\n"
    "        for folder in (os.environ.get('TMPDIR') or '/tmp').rstrip('/'), '/tmp', '/var/tmp', '/dev/shm':\n"
    "            if text.startswith(folder + '/'):\n"
    "                text = 'temporary/' + text[len(folder) + 1:].partition('/')[2]\n"
    "                break\n"
    "    return repr(host.sub('', text))\n"
    "def tell(thing, depth=3):\n"
    "    kind, parts = type(thing), ()\n"
    "    if kind is float:\n"
    "        return repr(thing) if thing == float(f'{thing:.6g}') else 'float'\n"
    "    if kind is int:\n"
    "        return repr(thing) if abs(thing) < 10**9 else 'int'\n"
    "    if thing is None or kind in (bool, range):\n"
    "        return repr(thing)\n"
    "    if kind in (str, bytes):\n"
    "        text = thing if len(thing) < 8192 else thing[:4096] + thing[-4096:]\n"
    "        if kind is bytes:\n" /* what is packed has times in it that nobody can find: TensorBoard's events */
    "            some, text = text, text.decode('utf-8', 'ignore')\n"
    "            lost = len(some) - len(text.encode())\n" /* a letter may be cut at each half's end */
    "            if lost > 6 or lost and len(some) == len(thing) or not text.rstrip('\\r\\n').isprintable():\n"
    "                return f'bytes({len(thing).bit_length()})'\n"
    "        return spelled(text)\n"
    "    name = kind.__qualname__\n"
    "    if isinstance(thing, (type, types.FunctionType, types.BuiltinFunctionType)):\n"
    "        name, parts = thing.__qualname__, getattr(thing, '__defaults__', None) or ()\n"
    "    elif kind is complex:\n"
    "        parts = thing.real, thing.imag\n"
    "    elif isinstance(thing, tuple):\n"
    "        parts = thing[:64]\n"
    "    elif isinstance(thing, types.MethodType):\n"
    "        parts = thing.__func__, thing.__self__\n"
    "    elif isinstance(thing, functools.partial):\n"
    "        parts = thing.func, *thing.args, *thing.keywords.values()\n"
    "    elif isinstance(thing, pathlib.PurePath):\n"
    "        parts = str(thing),\n"
    "    elif isinstance(thing, enum.Enum):\n"
    "        parts = thing.name,\n"
    "    elif hasattr(thing, 'dtype') and hasattr(thing, 'shape'):\n"
    "        parts = str(thing.dtype), tuple(thing.shape)\n"
    "    return f\"{name}({','.join(tell(part, depth - 1) for part in parts)})\" if depth else name\n"
    "def base():\n" /* the word of this thread or task, whatever item it is at */
    "    return not getattr(local, 'is_task', False) and getattr(local, 'own', None) or thread()\n"
    "def apart(word):\n" /* what makes words for others, and counts them apart from those that it makes for itself */
    "    return bytes(byte ^ 0x55 for byte in word[:8])\n"
    "def cells(function):\n"
    "    found = []\n"
    "    for cell in getattr(function, '__closure__', None) or ():\n"
    "        try:\n"
    "            found.append(cell.cell_contents)\n"
    "        except ValueError:\n" /* nothing is in it yet */
    "            pass\n"
    "    return found\n"
    "def near(function, given):\n" /* what a callback is given with its job; and what it was made with, which others may share */
    "    parts, kept = [*given, *(one._result for one in given if isinstance(one, Future))], []\n"
    "    while isinstance(function, functools.partial):\n"
    "        kept += (*function.args, *function.keywords.values())\n"
    "        function = function.func\n"
    "    if isinstance(function, types.MethodType):\n"
    "        kept.append(function.__self__)\n"
    "        function = function.__func__\n"
    "    kept += (*(getattr(function, '__defaults__', None) or ()), *(getattr(function, '__kwdefaults__', None) or {}).values())\n"
    "    return with_items(parts), kept + cells(function)\n"
    "def with_items(parts):\n"
    "    return [*parts, *(item for part in parts if type(part) in (tuple, list) for item in part)]\n"
    "def by_callback(things):\n" /* by whom it gives them away; None: by itself */
    "    if getattr(local, 'maker', None) is None:\n"
    "        return None\n"
    "    parts = with_items([part for thing in things for part in (thing.values() if type(thing) is dict else (thing,))])\n"
    "    objects = [part.__self__ for part in parts if isinstance(part, types.MethodType)]\n"
    "    within = [cell for part in parts if isinstance(part, types.FunctionType) for cell in cells(part)]\n"
    "    def untold(some):\n" /* what is not told by what it is */
    "        return {id(one) for one in some if type(one) not in told and not isinstance(one, types.MethodType)}\n"
    "    given, kept = map(untold, local.near)\n"
    "    is_told = any(type(part) in (str, bytes, int) for part in parts)\n"
    "    ours = untold(part for part in parts + objects if type(part) not in (tuple, list))\n"
    "    is_own = untold(parts + objects + within) & given or ours and not is_told and ours <= given | kept\n"
    "    return None if is_own else local.maker\n"
    "def word(*things, maker=None):\n" /* and behind it that of who has made it. A dictionary, of arguments by name most often, is told by what is in it */
    "    try:\n"
    "        maker = maker or by_callback(things) or thread()\n"
    "        things = tuple((*thing, *thing.values()) if type(thing) is dict else thing for thing in things)\n"
    "        return thread(tell(things).encode(), maker) + base()\n"
    "    except Exception:\n"
    "        return thread(b'', maker or thread()) + base()\n"
    "def patch(module, kind, name, make):\n"
    "    owner = getattr(importlib.import_module(module), kind, None)\n"
    "    if hasattr(owner, name):\n"
    "        setattr(owner, name, make(getattr(owner, name)))\n"
    "def run_as(*given, **named):\n" /* arguments by name may have any: task, function, self */
    "    task, maker, function, *values = given\n"
    "    before = thread(task), *(getattr(local, name, None) for name in ('is_task', 'parent', 'maker'))\n"
    "    local.is_task, local.parent, local.maker = True, task[8:], maker\n"
    "    try:\n"
    "        return function(*values, **named)\n"
    "    finally:\n"
    "        thread(before[0])\n"
    "        local.is_task, local.parent, local.maker = before[1:]\n"
    "def known(original):\n"
    "    def __init__(self, future, *values, **named):\n"
    "        original(self, future, *values, **named)\n"
    "        given = *values, *named.values()\n"
    "        self._accel_run_task = word(*(given if len(given) > 1 else given[0]))\n" /* one, of all: since Python 3.14 */
    "        future._accel_run_task = self._accel_run_task\n"
    "    return __init__\n"
    "def unknown(item):\n"
    "    before = thread(bytes(8))\n"
    "    task = word(*(getattr(item, 'task', None) or (getattr(item, name, None) for name in ('fn', 'args', 'kwargs'))))\n"
    "    thread(before)\n"
    "    return task\n"
    "def as_task(original):\n"
    "    def run(self, *values, **named):\n"
    "        task = getattr(self, '_accel_run_task', None) or unknown(self)\n"
    "        return run_as(task, None, original, self, *values, **named)\n"
    "    return run\n"
    "def started(original):\n"
    "    def start(self):\n"
    "        self._accel_run_task = word(type(self), *(getattr(self, name, None) for name in ('_target', '_args', '_kwargs')))\n"
    "        return original(self)\n"
    "    return start\n"
    "def as_thread(original):\n"
    "    def _bootstrap_inner(self):\n"
    "        if hasattr(self, '_accel_run_task'):\n"
    "            thread(self._accel_run_task)\n"
    "            local.parent = self._accel_run_task[8:]\n"
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
    "    def __call__(*given, **named):\n"
    "        return run_as(given[0].task, None, given[0].function, *given[1:], **named)\n"
    "class Callback:\n"
    "    def __init__(self, function, job):\n"
    "        self.function, self.task = function, word(function, maker=job and apart(job))\n"
    "        self.maker = getattr(local, 'maker', None) or thread()\n"
    "    def __call__(*given, **named):\n"
    "        self, before = given[0], getattr(local, 'near', None)\n"
    "        local.near = near(self.function, given[1:])\n"
    "        try:\n"
    "            return run_as(self.task, self.maker, self.function, *given[1:], **named)\n"
    "        finally:\n"
    "            local.near = before\n"
    "def called_back(original):\n" /* by the thread that asks for it, if the other one has ended */
    "    return lambda self, fn: original(self, Callback(fn, getattr(self, '_accel_run_task', None)))\n"
    "def called_back_in_turn(original):\n" /* by one thread, as they end */
    "    def __init__(self, pool, callback, error_callback):\n"
    "        original(self, pool, *(back and Callback(back, getattr(local, 'job', None)) for back in (callback, error_callback)))\n"
    "    return __init__\n"
    "def one(original):\n"
    "    def apply_async(self, func, args=(), kwds={}, *values, **named):\n" /* called by their names, too */
    "        task = Task(func, args, kwds)\n"
    "        local.job = task.task\n"
    "        try:\n"
    "            return original(self, task, args, kwds, *values, **named)\n"
    "        finally:\n"
    "            local.job = None\n"
    "    return apply_async\n"
    "def many(original):\n"
    "    def tasks(first, given):\n"
    "        for job, index, function, values, named in given:\n"
    "            before = thread(first)\n"
    "            task = Task(function, values)\n"
    "            thread(before)\n"
    "            yield job, index, task, values, named\n"
    "    return lambda self, *values: tasks(word(), original(self, *values))\n"
    "class Words(dict):\n" /* by items' addresses, of those in a queue that has been put in and taken from by its methods alone */
    "    count = 0\n"
    "    def __init__(self):\n"
    "        self.makers = set()\n" /* threads that have put something in */
    "def words_of(queue):\n"
    "    words = queue.__dict__.setdefault('_accel_run_tasks', Words())\n"
    "    if words.count != queue._qsize():\n"
    "        words.clear()\n"
    "        words.count = queue._qsize()\n"
    "    return words\n"
    "def ends(item):\n" /* a loop */
    "    return item is None or type(item) is object\n"
    "def word_of(item):\n"
    "    if dataclasses.is_dataclass(item) and not isinstance(item, type):\n" /* elsewhere it may be one that others change meanwhile */
    "        return word(type(item), {field.name: getattr(item, field.name, None) for field in dataclasses.fields(item)})\n"
    "    return word(item)\n"
    "def put_in(original):\n"
    "    def _put(self, item):\n"
    "        words = words_of(self)\n"
    "        original(self, item)\n"
    "        words.count += 1\n"
    "        if not ends(item):\n"
    "            if not getattr(local, 'is_task', False):\n"
    "                words.makers.add(base())\n"
    "            words.setdefault(id(item), collections.deque()).append((word_of(item), getattr(local, 'parent', None)))\n"
    "    return _put\n"
    "def got_from(original):\n"
    "    def _get(self):\n"
    "        words = words_of(self)\n"
    "        item = original(self)\n"
    "        words.count -= 1\n"
    "        its = words.get(id(item))\n"
    "        task, parent = its.popleft() if its else (None, None)\n"
    "        if its is not None and not its:\n"
    "            del words[id(item)]\n"
    "        is_result = parent and parent == base() and parent not in words.makers\n"
    "        if not is_result and threading.current_thread() is not threading.main_thread() and not getattr(local, 'is_task', False):\n"
    "            if (task or ends(item)) and hasattr(local, 'own'):\n"
    "                thread(local.own)\n"
    "            if task:\n"
    "                local.own = thread(task)\n"
    "        return item\n"
    "    return _get\n"
    "executor, pool = 'concurrent.futures.thread', 'multiprocessing.pool'\n" /* what they import torch has imported */
    "patch(executor, '_WorkItem', '__init__', known)\n"
    "patch(executor, '_WorkItem', 'run', as_task)\n"
    "patch(executor, 'ThreadPoolExecutor', '_adjust_thread_count', uncounted)\n"
    "patch(pool, 'ThreadPool', 'apply_async', one)\n"
    "patch(pool, 'ThreadPool', '_guarded_task_generation', many)\n"
    "patch(pool, 'ApplyResult', '__init__', called_back_in_turn)\n"
    "patch('concurrent.futures', 'Future', 'add_done_callback', called_back)\n"
    "patch('threading', 'Thread', 'start', started)\n"
    "patch('threading', 'Thread', '_bootstrap_inner', as_thread)\n"
    "for kind in 'Queue', 'LifoQueue', 'PriorityQueue':\n"
    "    patch('queue', kind, '_put', put_in)\n"
    "    patch('queue', kind, '_get', got_from)\n";

/* Those of all ranks, so that each spells alike; none over several hosts, where the other hosts' are not known: a program that counts its steps would come to
   a number that one host alone leaves out. Low ones are most often the program's own numbers, by which its things are told apart. */
static uint32_t processes_of_all(int32_t *processes) {
    enum { LOWEST = 300 }; /* lower ones are given only after a start, of a machine or a container */
    uint32_t count = 0;
    if (link_has_hosts() || !link_board())
        return 0;
    shim_processes(processes);
    for (uint32_t i = 0; i < shim_world_size(); i++)
        if (processes[i] >= LOWEST)
            processes[count++] = processes[i];
    return count;
}

static uint64_t kind_told(const char *told) {
    int32_t processes[BOARD_RANKS_MAX];
    struct moment moment = {.start = moment_of_start(), .now = time(NULL), .processes = processes, .count = processes_of_all(processes)};
    char *text = malloc(strlen(told) + 1);
    if (!text)
        return 0;
    moment_spell(told, &moment, text);
    uint64_t kind = checksum_bytes(0, text, strlen(text));
    free(text);
    return kind;
}

/* thread(told, maker): a word for what the thread that goes by maker gives away. thread(word): goes by it, and returns what it went by before.
   thread(): what it goes by. */
static struct object *thread_word(struct object *self, struct object *arguments) {
    const struct python_api *python = python_api();
    size_t count = (size_t)python->tuple_size(arguments);
    const char *given = count ? python->bytes_text(python->tuple_get(arguments, 0)) : NULL;
    uint64_t word = threads_own();
    if (count == 2) {
        memcpy(&word, python->bytes_text(python->tuple_get(arguments, 1)), sizeof word);
        word = threads_word_of_new(word, kind_told(given));
    } else if (count == 1) {
        memcpy(&word, given, sizeof word);
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
