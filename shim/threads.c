#define _GNU_SOURCE
#include "threads.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "python.h"
#include "shim.h"

enum { KINDS_MAX = 1 << 20 };

_Atomic uint8_t threads_are_several;
_Atomic uint64_t threads_keep_python;

static pthread_t main_thread;
static pthread_key_t own_life, is_living;
static bool has_own_word;
static _Atomic uint32_t living;

bool threads_are_living(void) {
    return atomic_load(&living) > 0;
}

/* Also of one that ends by pthread_exit(), or is cancelled. */
static void living_ends(void *unused) {
    (void)unused;
    atomic_fetch_sub(&living, 1);
}

/* ---- the word that a thread goes by, and what is kept for it */

struct block {
    const struct threads_kept *whose;
    struct block *next;
    max_align_t memory[];
};

/* While a thread goes by a word. */
struct life {
    uint64_t word;
    struct life *before; /* what it goes by when this one is done */
    struct block *blocks;
    int rounds; /* of the end of its thread */
};

static struct life of_main;

static struct life *life_own(void) {
    struct life *life = has_own_word ? pthread_getspecific(own_life) : NULL;
    return life ? life : &of_main;
}

static struct life *life_begin(uint64_t word, struct life *before) {
    struct life *life = calloc(1, sizeof *life);
    *life = (struct life){.word = word, .before = before};
    pthread_setspecific(own_life, life);
    return life;
}

static void forget_notes(uint64_t word) {
    if (!word || !shim_active() || !comm_has_notes())
        return;
    SHIM_NOTE_SCOPE;
    comm_note_no_more(word);
}

/* Returns what was before it. */
static struct life *life_end(struct life *life) {
    struct life *before = life->before;
    forget_notes(life->word);
    for (struct block *block = life->blocks, *next; block; block = next) {
        next = block->next;
        if (block->whose->end)
            block->whose->end(block->memory);
        free(block);
    }
    free(life);
    return before;
}

/* At the end of a thread, whose other keys are destroyed in the same rounds by code that may ask who it is. */
static void lives_end(void *last) {
    struct life *life = last;
    if (++life->rounds < PTHREAD_DESTRUCTOR_ITERATIONS)
        pthread_setspecific(own_life, life);
    else
        while (life && life != &of_main)
            life = life_end(life);
}

uint64_t threads_own(void) {
    return atomic_load_explicit(&threads_are_several, memory_order_relaxed) ? life_own()->word : 0;
}

bool threads_is_main(void) {
    if (!has_own_word) /* a library of the program's, whose constructors run before ours, makes its model */
        return syscall(SYS_gettid) == getpid();
    return pthread_equal(main_thread, pthread_self());
}

bool threads_is_in_task(void) {
    return threads_own() && life_own()->before;
}

bool threads_are_told_apart(void) {
    return has_own_word;
}

uint64_t threads_go_by(uint64_t word) {
    struct life *own = life_own(), *known = own;
    uint64_t before = own->word;
    while (known && known->word != word)
        known = known->before;
    if (!known && has_own_word)
        life_begin(word, own);
    else if (known && known != own) {
        pthread_setspecific(own_life, known == &of_main ? NULL : known);
        while (own != known)
            own = life_end(own);
    }
    return before;
}

void *threads_own_kept(const struct threads_kept *kept) {
    struct life *life = threads_own() ? life_own() : &of_main;
    if (life == &of_main)
        return kept->of_main;
    struct block *block = life->blocks;
    while (block && block->whose != kept)
        block = block->next;
    if (!block) {
        block = calloc(1, sizeof *block + kept->bytes);
        block->whose = kept;
        block->next = life->blocks;
        life->blocks = block;
    }
    return block->memory;
}

/* ---- words */

/* How many a thread has made of a kind. Beyond KINDS_MAX kinds, new ones are counted together, for each thread: a kind may be this rank's own (a text with
   what it has computed), and must not count with what others of its make. As many threads and tasks count so; of more, some are counted together. */
static struct pairs made;
static size_t kinds;
static pthread_mutex_t made_mutex = PTHREAD_MUTEX_INITIALIZER;

/* 0, 1, ... of those that this maker has made of a kind. */
static uint64_t number_of(uint64_t maker, uint64_t what) {
    pthread_mutex_lock(&made_mutex);
    if (kinds >= KINDS_MAX && !pairs_get(&made, (void *)(uintptr_t)what))
        what = checksum_mix(maker, 0) | 1;
    if (kinds >= 2 * KINDS_MAX && !pairs_get(&made, (void *)(uintptr_t)what))
        what = what % KINDS_MAX + 1;
    uint64_t number = (uint64_t)(uintptr_t)pairs_get(&made, (void *)(uintptr_t)what);
    kinds += !number;
    pairs_put(&made, (void *)(uintptr_t)what, (void *)(uintptr_t)(number + 1));
    pthread_mutex_unlock(&made_mutex);
    return number;
}

uint64_t threads_word_of_new(uint64_t maker, uint64_t kind) {
    uint64_t what = checksum_mix(maker, kind) | 1;
    uint64_t word = checksum_mix(what, number_of(maker, what)) | 1;
    leaves_pass_on(word);
    return word;
}

/* What an address in a library or program is, not where it lies. */
static uint64_t word_of_place(const void *address, const Dl_info *info) {
    const char *file = shim_file_at(address);
    return checksum_mix(checksum_bytes(0, file, strlen(file)), (uint64_t)((const char *)address - (const char *)info->dli_fbase));
}

/* Helpers of kernels, made when they are first needed, which need not be on every rank: they meet nobody. */
static bool is_helper(const char *file) {
    static const char *const libraries[] = {"libgomp",         "libomp",     "libiomp",   "libblis",    "libmkl",
                                            "libpthreadpool.", "libcuda.so", "libcudart", "libnvidia-", "libcublas",
                                            "libcudnn",        "libnvrtc.",  "libcupti."};
    /* numpy brings libscipy_openblas64_-HASH.so */
    return strstr(file, "openblas") || shim_begins_with_any(file, libraries, sizeof libraries / sizeof *libraries);
}

/* Of the pthreadpool within libtorch_cpu, which torch::set_num_threads() makes (1.13; Debian's is a library of its own): what its threads are given
   begins with a number, and what those of std::thread are given with an address in a library. */
static bool is_of_pool(const char *file, void *const *argument) {
    Dl_info info;
    return !strncmp(file, "libtorch_cpu.", 13) && argument && !dladdr(*argument, &info);
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
    static const char *const of_std[] = {"libstdc++.", "libc10."};
    const char *file = shim_file_at(address); /* libtorch's files before 2.0 have its function, too */
    bool is_of_std = shim_begins_with_any(file, of_std, sizeof of_std / sizeof *of_std) || shim_is_file_of_libtorch(file);
    if (argument && is_of_std && dladdr(*(void **)argument, &of_class) && of_class.dli_fname)
        *kind = checksum_mix(*kind, word_of_place(*(void **)argument, &of_class));
    return !is_helper(shim_file_at(address)) && !is_of_pool(shim_file_at(address), argument);
}

/* Freed by the second one that tells of it. */
struct birth {
    void *(*start)(void *);
    void *argument;
    uint64_t word;
    bool keeps_python, is_told;
};

static struct pairs births; /* pthread_t → struct threads_birth, which outlives its thread until the number is used again */

struct threads_birth threads_birth(uint64_t thread) {
    pthread_mutex_lock(&made_mutex);
    const struct threads_birth *birth = pairs_get(&births, (void *)(uintptr_t)thread);
    struct threads_birth copy = birth ? *birth : (struct threads_birth){0, NULL, false};
    pthread_mutex_unlock(&made_mutex);
    return copy;
}

/* Lock held. NULL: no memory. */
static struct threads_birth *place_of(uintptr_t thread) {
    struct threads_birth *place = pairs_get(&births, (void *)thread);
    if (!place)
        pairs_put(&births, (void *)thread, place = calloc(1, sizeof *place));
    return place;
}

/* By the thread itself and by the one that has made it, and whoever is first is believed: when the other comes, a later thread may have the number, and what
   holds it may be gone. */
static void birth_tell(struct birth *birth, const pthread_t *thread) {
    pthread_mutex_lock(&made_mutex);
    bool is_second = birth->is_told;
    struct threads_birth *place = is_second ? NULL : place_of((uintptr_t)*thread);
    if (place)
        *place = (struct threads_birth){birth->word, birth->argument, false};
    birth->is_told = true;
    pthread_mutex_unlock(&made_mutex);
    if (is_second)
        free(birth);
}

static void birth_end(uintptr_t thread) {
    pthread_mutex_lock(&made_mutex);
    struct threads_birth *place = place_of(thread);
    if (place)
        place->has_ended = true;
    pthread_mutex_unlock(&made_mutex);
}

static void *begin(void *given) {
    struct birth birth = *(struct birth *)given;
    pthread_t thread = pthread_self();
    birth_tell(given, &thread);
    life_begin(birth.word, NULL);
    pthread_setspecific(is_living, &living);
    if (birth.keeps_python)
        python_keep_state();
    void *result = birth.start(birth.argument);
    birth_end((uintptr_t)thread);
    return result;
}

int hook_pthread_create(void *thread, const void *attributes, void *(*start)(void *), void *argument) {
    uint64_t kind;
    if (shim_active())
        legacy_begin();
    struct birth *birth = has_own_word && find_kind(start, argument, &kind) ? malloc(sizeof *birth) : NULL;
    if (!birth)
        return ORIGINAL(pthread_create)(thread, attributes, start, argument);
    *birth = (struct birth){start, argument, threads_word_of_new(threads_own(), kind),
                            atomic_load(&threads_keep_python) == (uint64_t)pthread_self(), false};
    atomic_store(&threads_are_several, 1);
    atomic_fetch_add(&living, 1);
    int error = ORIGINAL(pthread_create)(thread, attributes, begin, birth);
    if (error) {
        free(birth);
        living_ends(NULL);
    } else
        birth_tell(birth, thread);
    return error;
}

/* ---- start */

static pthread_mutex_t **renewed;
static size_t renewed_count;

void threads_renew_in_child(pthread_mutex_t *mutex) {
    renewed = realloc(renewed, (renewed_count + 1) * sizeof *renewed);
    renewed[renewed_count++] = mutex;
}

static void after_fork_in_child(void) {
    pthread_mutex_init(&made_mutex, NULL);
    for (size_t i = 0; i < renewed_count; i++)
        pthread_mutex_init(renewed[i], NULL);
    atomic_store(&living, 0);
    atomic_store(&threads_keep_python, 0);
}

__attribute__((constructor)) static void threads_start(void) {
    main_thread = pthread_self();
    if (!shim_job_secret())
        return;
    has_own_word = !pthread_key_create(&own_life, lives_end) && !pthread_key_create(&is_living, living_ends);
    pthread_atfork(NULL, NULL, after_fork_in_child);
}
