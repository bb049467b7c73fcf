#define _GNU_SOURCE
#include "threads.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "shim.h"

enum { KINDS_MAX = 1 << 20 };

_Atomic uint8_t threads_are_several;

static pthread_t main_thread;
static pthread_key_t own_word;
static bool has_own_word;

/* How many a thread has made of a kind; beyond KINDS_MAX kinds, some are counted together. */
static struct pairs made;
static size_t kinds;
static pthread_mutex_t made_mutex = PTHREAD_MUTEX_INITIALIZER;

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

bool threads_is_main(void) {
    return pthread_equal(main_thread, pthread_self());
}

bool threads_are_told_apart(void) {
    return has_own_word;
}

uint64_t threads_go_by(uint64_t word) {
    uint64_t before = threads_own();
    pthread_setspecific(own_word, (void *)(uintptr_t)word);
    return before;
}

/* 0, 1, ... of those that this thread has made of a kind. */
static uint64_t number_of(uint64_t what) {
    pthread_mutex_lock(&made_mutex);
    if (kinds >= KINDS_MAX && !pairs_get(&made, (void *)(uintptr_t)what))
        what = what % KINDS_MAX + 1;
    uint64_t number = (uint64_t)(uintptr_t)pairs_get(&made, (void *)(uintptr_t)what);
    kinds += !number;
    pairs_put(&made, (void *)(uintptr_t)what, (void *)(uintptr_t)(number + 1));
    pthread_mutex_unlock(&made_mutex);
    return number;
}

uint64_t threads_word_of_new(uint64_t kind) {
    uint64_t what = mix(threads_own(), kind) | 1;
    uint64_t word = mix(what, number_of(what)) | 1;
    leaves_pass_on(word);
    return word;
}

void *threads_own_kept(struct threads_kept *kept) {
    void *word = (void *)(uintptr_t)threads_own(), *block = word ? pairs_get(&kept->of_others, word) : kept->of_main;
    if (block)
        return block;
    pthread_mutex_lock(&made_mutex);
    pairs_put(&kept->of_others, word, block = calloc(1, kept->bytes));
    pthread_mutex_unlock(&made_mutex);
    return block;
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

static struct pairs
    given_arguments; /* pthread_t → what it was given; an entry outlives its thread and is replaced when the number is used again */

void *threads_argument(uint64_t thread) {
    return pairs_get(&given_arguments, (void *)(uintptr_t)thread);
}

static void remember_argument(uintptr_t thread, void *argument) {
    pthread_mutex_lock(&made_mutex);
    pairs_put(&given_arguments, (void *)thread, argument);
    pthread_mutex_unlock(&made_mutex);
}

int hook_pthread_create(void *thread, const void *attributes, void *(*start)(void *), void *argument) {
    uint64_t kind;
    if (shim_active())
        legacy_begin();
    struct birth *birth = has_own_word && find_kind(start, argument, &kind) ? malloc(sizeof *birth) : NULL;
    if (!birth)
        return ORIGINAL(pthread_create)(thread, attributes, start, argument);
    *birth = (struct birth){start, argument, threads_word_of_new(kind)};
    atomic_store(&threads_are_several, 1);
    int error = ORIGINAL(pthread_create)(thread, attributes, begin, birth);
    if (error)
        free(birth);
    else
        remember_argument(*(uintptr_t *)thread, argument);
    return error;
}

/* ---- start */

static void after_fork_in_child(void) {
    pthread_mutex_init(&made_mutex, NULL);
}

__attribute__((constructor)) static void threads_start(void) {
    main_thread = pthread_self();
    if (!shim_job_secret())
        return;
    has_own_word = !pthread_key_create(&own_word, NULL);
    pthread_atfork(NULL, NULL, after_fork_in_child);
}
