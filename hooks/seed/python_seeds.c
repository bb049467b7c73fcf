/*
 * Python's generators seeded by the time: random.seed(time.time()), numpy.random.seed(int(time.time())), and generators that are made so, random.Random() and
 * numpy.random.default_rng(). All ranks get rank 0's number, as for libtorch's (clock.c): from `import torch` on, and on the main thread. Otherwise the
 * functions are as they were.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "seed.h"

static const char code[] =
    "import functools, importlib.util, numbers, random, struct, sys\n"
    "def rank_0s(value):\n"
    "    is_whole = isinstance(value, numbers.Integral) and type(value) is not bool\n" /* also NumPy's */
    "    if not (is_whole or type(value) is float) or not 0 < value < 1 << 63:\n"
    "        return value\n"
    "    if is_whole:\n"
    "        heard = int(agreed(int(value), int(value)) or value)\n"
    "        return value if heard == value else type(value)(heard)\n" /* of a class that may take no other */
    "    heard = agreed(int(value), int.from_bytes(struct.pack('<d', value), 'little'))\n"
    "    number = struct.unpack('<d', int(heard).to_bytes(8, 'little'))[0] if heard else value\n"
    "    return number if 0 < number < 1 << 63 else float(int(heard))\n" /* drawn */
    "def for_all(original, place, name):\n"
    "    @functools.wraps(original)\n"
    "    def seed(*given, **named):\n"
    "        if len(given) > place:\n"
    "            given = *given[:place], rank_0s(given[place]), *given[place + 1:]\n"
    "        elif name in named:\n"
    "            named[name] = rank_0s(named[name])\n"
    "        return original(*given, **named)\n"
    "    return seed\n"
    "def is_same(value, other):\n" /* a method is made anew where it is asked for; before 3.8 its hash is that of its object */
    "    return value is other or (type(value) is type(other) and value.__name__ == other.__name__ and\n"
    "        getattr(value, '__self__', value) is getattr(other, '__self__', other))\n"
    "def exchange(changed):\n"
    "    kinds = set(map(type, changed))\n"
    "    for _, known in names_of_modules():\n"
    "        for name, value in list(known.items()):\n"
    "            for original in changed if type(value) in kinds else ():\n"
    "                if is_same(value, original):\n"
    "                    known[name] = changed[original]\n"
    "def for_numpy(module, original):\n"
    "    seed = for_all(original, 0, 'seed')\n"
    "    if '.' in seed.__qualname__:\n" /* before 1.24 a method of an object that has no name */
    "        seed.__module__, seed.__qualname__ = module.__name__, original.__name__\n"
    "    return seed\n"
    "def change_numpys(module):\n"
    "    originals = [getattr(module, name) for name in ('seed', 'default_rng') if hasattr(module, name)]\n"
    "    exchange({original: for_numpy(module, original) for original in originals})\n"
    "class Finder:\n"
    "    is_asked = False\n"
    "    def find_spec(self, wanted, path=None, target=None):\n"
    "        if wanted != 'numpy.random' or self.is_asked:\n"
    "            return None\n"
    "        self.is_asked = True\n"
    "        try:\n"
    "            spec = importlib.util.find_spec(wanted)\n"
    "        finally:\n"
    "            self.is_asked = False\n"
    "        if spec is not None:\n"
    "            execute = spec.loader.exec_module\n"
    "            def exec_module(module):\n"
    "                execute(module)\n"
    "                if self in sys.meta_path:\n"
    "                    sys.meta_path.remove(self)\n"
    "                    change_numpys(module)\n"
    "            spec.loader.exec_module = exec_module\n"
    "        return spec\n"
    "module_seed = random.seed\n"
    "random.Random.seed = for_all(random.Random.seed, 1, 'a')\n"
    "if 'numba.cpython.randomimpl' not in sys.modules:\n" /* which knows the functions by what they are */
    "    exchange({module_seed: random.Random.seed.__get__(module_seed.__self__)})\n"
    "    if 'numpy.random' in sys.modules:\n"
    "        change_numpys(sys.modules['numpy.random'])\n"
    "    else:\n"
    "        sys.meta_path.insert(0, Finder())\n";

/* agreed(time, number): rank 0's number in digits; None where the time is none, or on another thread. */
static struct object *agreed(struct object *self, struct object *arguments) {
    const struct python_api *python = python_api();
    uint64_t time = (uint64_t)(uintptr_t)python->number_address(python->tuple_get(arguments, 0));
    uint64_t number = (uint64_t)(uintptr_t)python->number_address(python->tuple_get(arguments, 1));
    char digits[24];
    if (syscall(SYS_gettid) != getpid() || !seed_is_time(time)) {
        python->retain(python->none);
        return python->none;
    }
    void *state = python_let_go(); /* it may wait for rank 0 */
    number = seed_agree_on(number);
    python_take_again(state);
    return python->bytes_new(digits, snprintf(digits, sizeof digits, "%llu", (unsigned long long)number));
}

/* Interpreter's lock held. */
void python_seeds_ready(struct object *base) {
    static const struct python_method method = {"agreed", agreed, PYTHON_VARARGS, NULL};
    python_extend(code, &method, base);
}
