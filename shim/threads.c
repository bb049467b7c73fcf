#define _GNU_SOURCE
#include "threads.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "python.h"
#include "shim.h"

enum { MAKERS = 1024 };

_Atomic uint8_t threads_are_several;

static pthread_key_t own_word;
static bool has_own_word;

/* How many a thread has made with the same code: entries are never freed. */
static struct maker {
    uint64_t what;
    uint64_t made;
} makers[MAKERS];
static pthread_mutex_t makers_mutex = PTHREAD_MUTEX_INITIALIZER;

/* The finaliser of splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t mix(uint64_t one, uint64_t other) {
    uint64_t word = (one ^ other * 0x9e3779b97f4a7c15u) + 0x9e3779b97f4a7c15u;
    word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9u;
    word = (word ^ word >> 27) * 0x94d049bb133111ebu;
    return word ^ word >> 31;
}

uint64_t threads_own(void) {
    if (!atomic_load_explicit(&threads_are_several, memory_order_relaxed))
        return 0;
    return (uint64_t)(uintptr_t)pthread_getspecific(own_word);
}

static uint64_t exchange_own(uint64_t word) {
    uint64_t before = threads_own();
    pthread_setspecific(own_word, (void *)(uintptr_t)word);
    return before;
}

/* 0, 1, ... of those that this thread has made of a kind. */
static uint64_t number_of(uint64_t what) {
    uint64_t number = 0;
    pthread_mutex_lock(&makers_mutex);
    for (size_t i = 0; i < MAKERS; i++) {
        struct maker *maker = &makers[(what + i) % MAKERS];
        if (maker->what && maker->what != what)
            continue;
        maker->what = what;
        number = maker->made++;
        break;
    }
    pthread_mutex_unlock(&makers_mutex);
    return number;
}

static uint64_t word_of_new(uint64_t kind) {
    uint64_t what = mix(threads_own(), kind) | 1;
    return mix(what, number_of(what)) | 1;
}

/* What an address in a library or program is, not where it lies. */
static uint64_t word_of_place(const void *address, const Dl_info *info) {
    const char *base = strrchr(info->dli_fname, '/');
    uint64_t word = 0;
    for (const char *c = base ? base + 1 : info->dli_fname; *c; c++)
        word = mix(word, (unsigned char)*c);
    return mix(word, (uint64_t)((const char *)address - (const char *)info->dli_fbase));
}

/* Helpers of kernels, made when they are first needed, which need not be on every rank: they meet nobody. */
static bool is_helper(const char *library) {
    static const char *const libraries[] = {"libgomp", "libomp", "libiomp", "libopenblas", "libblis", "libmkl"};
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++)
        if (strstr(library, libraries[i]))
            return true;
    return false;
}

/* The code that a new thread is to run; false: it is none of the program's. std::thread starts all of them with a function of its library: what they run is
   told by the table of virtual functions that the argument begins with. */
static bool find_kind(void *(*start)(void *), void *argument, uint64_t *kind) {
    Dl_info info, of_class;
    const void *address;
    memcpy(&address, &start, sizeof address);
    *kind = 0;
    if (!dladdr(address, &info) || !info.dli_fname)
        return true;
    *kind = word_of_place(address, &info);
    if (argument && strstr(info.dli_fname, "libstdc++") && dladdr(*(void **)argument, &of_class) && of_class.dli_fname)
        *kind = mix(*kind, word_of_place(*(void **)argument, &of_class));
    return !is_helper(info.dli_fname);
}

struct birth {
    void *(*start)(void *);
    void *argument;
    uint64_t word;
};

static void *begin(void *given) {
    struct birth birth = *(struct birth *)given;
    free(given);
    pthread_setspecific(own_word, (void *)(uintptr_t)birth.word);
    return birth.start(birth.argument);
}

int hook_pthread_create(void *thread, const void *attributes, void *(*start)(void *), void *argument) {
    uint64_t kind;
    struct birth *birth = has_own_word && find_kind(start, argument, &kind) ? malloc(sizeof *birth) : NULL;
    if (!birth)
        return ORIGINAL(pthread_create)(thread, attributes, start, argument);
    *birth = (struct birth){start, argument, word_of_new(kind)};
    atomic_store(&threads_are_several, 1);
    int error = ORIGINAL(pthread_create)(thread, attributes, begin, birth);
    if (error)
        free(birth);
    return error;
}

/* ---- tasks of Python's pools */

static const char code[] =
    "import importlib\n"
    "def patch(module, kind, name, make):\n"
    "    owner = getattr(importlib.import_module(module), kind, None)\n"
    "    if hasattr(owner, name):\n"
    "        setattr(owner, name, make(getattr(owner, name)))\n"
    "def known(original):\n"
    "    def __init__(self, *values, **named):\n"
    "        original(self, *values, **named)\n"
    "        self._accel_run_task = thread(None)\n"
    "    return __init__\n"
    "def as_task(original):\n"
    "    def run(self, *values, **named):\n"
    "        before = thread(self._accel_run_task)\n"
    "        try:\n"
    "            return original(self, *values, **named)\n"
    "        finally:\n"
    "            thread(before)\n"
    "    return run\n"
    "def uncounted(original):\n"
    "    def _adjust_thread_count(self):\n"
    "        before = thread(b'\\1' * 8)\n"
    "        try:\n"
    "            return original(self)\n"
    "        finally:\n"
    "            thread(before)\n"
    "    return _adjust_thread_count\n"
    "class Task:\n"
    "    def __init__(self, function):\n"
    "        self.function, self.task = function, thread(None)\n"
    "    def __call__(self, *values, **named):\n"
    "        before = thread(self.task)\n"
    "        try:\n"
    "            return self.function(*values, **named)\n"
    "        finally:\n"
    "            thread(before)\n"
    "def one(original):\n"
    "    return lambda self, function, *values, **named: original(self, Task(function), *values, **named)\n"
    "def many(original):\n"
    "    def tasks(first, given):\n"
    "        for job, index, function, values, named in given:\n"
    "            before = thread(first)\n"
    "            task = Task(function)\n"
    "            thread(before)\n"
    "            yield job, index, task, values, named\n"
    "    return lambda self, *values: tasks(thread(None), original(self, *values))\n"
    "executor, pool = 'concurrent.futures.thread', 'multiprocessing.pool'\n" /* what they import torch has imported */
    "patch(executor, '_WorkItem', '__init__', known)\n"
    "patch(executor, '_WorkItem', 'run', as_task)\n"
    "patch(executor, 'ThreadPoolExecutor', '_adjust_thread_count', uncounted)\n"
    "patch(pool, 'ThreadPool', 'apply_async', one)\n"
    "patch(pool, 'ThreadPool', '_guarded_task_generation', many)\n";

/* thread(None): a word for a task that this thread submits; thread(word): goes by it, and returns what it went by before. */
static struct object *thread_word(struct object *self, struct object *arguments) {
    const struct python_api *python = python_api();
    struct object *given = python->tuple_get(arguments, 0);
    uint64_t word;
    if (given == python->none) {
        word = word_of_new(2);
    } else {
        memcpy(&word, python->bytes_text(given), sizeof word);
        word = exchange_own(word);
    }
    return python->bytes_new(&word, sizeof word);
}

/* Interpreter's lock held. */
void threads_ready(struct object *base) {
    static const struct python_method method = {"thread", thread_word, PYTHON_VARARGS, NULL};
    if (has_own_word)
        python_extend(code, &method, base);
}

/* ---- start */

static void after_fork_in_child(void) {
    pthread_mutex_init(&makers_mutex, NULL);
}

__attribute__((constructor)) static void threads_start(void) {
    if (!shim_job_secret())
        return;
    has_own_word = !pthread_key_create(&own_word, NULL);
    pthread_atfork(NULL, NULL, after_fork_in_child);
}
