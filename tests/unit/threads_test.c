// sources: shim/threads.c shim/pairs.c shim/checksum.c
#define _GNU_SOURCE
#include "unit.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../shim/checksum.h"
#include "../../shim/python.h"
#include "../../shim/shim.h"
#include "../../shim/threads.h"

/* ---- what threads.c asks of the rest of the shim */

_Atomic uint8_t shim_active_now;
struct hook_row hook_table[HOOK_COUNT];

static __typeof__(&pthread_create) create; /* NULL: libc's */

void *resolve_original(enum hook_id id) {
    (void)id;
    return create ? (void *)create : dlsym(RTLD_NEXT, "pthread_create");
}

const char *shim_job_secret(void) {
    return "a job";
}

const char *shim_file_at(const void *address) {
    (void)address;
    return "program";
}

bool shim_is_file_of_libtorch(const char *file) {
    (void)file;
    return false;
}

void leaves_pass_on(uint64_t word) {
    (void)word;
}

void legacy_begin(void) {
}

void python_keep_state(void) {
}

static uint64_t noted; /* the word whose notes there are */

int comm_has_notes(void) {
    return noted != 0;
}

void comm_note_no_more(uint64_t thread) {
    if (thread == noted)
        noted = 0;
}

void shim_note_lock(void) {
}

void shim_note_unlock(int *unused) {
    (void)unused;
}

/* ---- */

static int ended; /* how often something kept has been freed */

static void count_end(void *memory) {
    ended += *(int *)memory;
}

static int of_main;
static const struct threads_kept kept = {&of_main, sizeof of_main, count_end};

static int *own(void) {
    return threads_own_kept(&kept);
}

TEST("what is kept for a task begins with zeros and is freed when the task is done; its thread's is as it was before") {
    atomic_store(&threads_are_several, 1);
    *own() = 7;
    for (uint64_t word = 11; word < 1000; word += 2) {
        EXPECT(threads_go_by(word) == 0);
        EXPECT(*own() == 0);
        *own() = 1;
        EXPECT(threads_go_by(0) == word);
        EXPECT(*own() == 7);
    }
    EXPECT(ended == 495);
}

TEST("of tasks within a task, the inner ones are done with the outer one") {
    atomic_store(&threads_are_several, 1);
    threads_go_by(11);
    *own() = 1;
    threads_go_by(13);
    *own() = 10;
    threads_go_by(15);
    *own() = 100;
    EXPECT(threads_go_by(13) == 15);
    EXPECT(ended == 100 && *own() == 10);
    threads_go_by(17);
    *own() = 1000;
    threads_go_by(11);
    EXPECT(ended == 1110 && *own() == 1);
    threads_go_by(11);
    EXPECT(ended == 1110 && *own() == 1);
    threads_go_by(0);
    EXPECT(ended == 1111 && threads_own() == 0);
}

TEST("what a task has noted for the other ranks, and never told them, goes with it") {
    atomic_store(&threads_are_several, 1);
    atomic_store(&shim_active_now, 1);
    noted = 13;
    threads_go_by(11);
    threads_go_by(0);
    EXPECT(noted == 13);
    threads_go_by(13);
    EXPECT(noted == 13);
    threads_go_by(0);
    EXPECT(!noted);
}

/* The words of what is made after more kinds than are counted for themselves, these of one rank's own contents. */
static void make_after_own_kinds(uint64_t contents, uint64_t *words, size_t count) {
    enum { KINDS = 3 << 19 };
    for (uint64_t i = 0; i < KINDS; i++)
        threads_word_of_new(threads_own(), checksum_mix(contents, i));
    for (size_t i = 0; i < count; i++)
        words[i] = threads_word_of_new(threads_own(), i / 2);
}

TEST("what is made after a million contents of this rank's own is known by the number that it has on the others, and no two are alike") {
    enum { COUNT = 64 };
    uint64_t *words = mmap(NULL, 2 * COUNT * sizeof *words, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int rank = 0; rank < 2; rank++)
        if (!fork()) {
            make_after_own_kinds(100 + (uint64_t)rank, words + rank * COUNT, COUNT);
            _exit(0);
        }
    while (wait(NULL) > 0)
        ;
    EXPECT(!memcmp(words, words + COUNT, COUNT * sizeof *words));
    for (int i = 0; i < COUNT; i++)
        for (int j = 0; j < i; j++)
            EXPECT(words[i] && words[i] != words[j]);
}

static pthread_key_t last_key;
static uint64_t word_at_end;

static void note_word(void *unused) {
    (void)unused;
    word_at_end = threads_own();
}

static void *work(void *unused) {
    pthread_setspecific(last_key, unused);
    EXPECT(*own() == 0);
    *own() = 1;
    threads_go_by(11);
    *own() = 10;
    return NULL;
}

TEST("what is kept for a thread, and for its task, is freed at its end, behind what else the thread does there; it never sees another "
     "one's") {
    pthread_key_create(&last_key, note_word);
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        EXPECT(!hook_pthread_create(&thread, NULL, work, &ended));
        pthread_join(thread, NULL);
        EXPECT(word_at_end == 11);
        EXPECT(ended == 11 * (i + 1));
    }
    EXPECT(*own() == 0);
}

static pthread_barrier_t is_looked_at;
static _Atomic uint64_t word_of_second;
static pthread_t second;

static void *wait_for_look(void *unused) {
    atomic_store(&word_of_second, threads_own());
    pthread_barrier_wait(&is_looked_at);
    return unused;
}

/* Before the one that makes the thread comes back, it has ended, and a second one, by another maker, has its number. */
static int create_two(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument) {
    create = NULL;
    __typeof__(&pthread_create) original = resolve_original(HOOK_pthread_create);
    int error = original(thread, attributes, start, argument);
    pthread_join(*thread, NULL);
    EXPECT(!hook_pthread_create(&second, NULL, wait_for_look, NULL));
    return error;
}

static void *nothing(void *unused) {
    return unused;
}

TEST("a thread that has the number of one that has ended is known by its own word, whenever the other's maker comes to tell of that") {
    pthread_t first;
    pthread_barrier_init(&is_looked_at, NULL, 2);
    create = create_two;
    EXPECT(!hook_pthread_create(&first, NULL, nothing, NULL));
    EXPECT(first == second);
    struct threads_birth birth = threads_birth(second);
    pthread_barrier_wait(&is_looked_at);
    pthread_join(second, NULL);
    EXPECT(birth.word == word_of_second && !birth.has_ended);
    EXPECT(threads_birth(second).has_ended);
}

/* As a thread that frees what its maker has given it, its number with it, does before its maker comes back. */
static int create_and_free(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument) {
    create = NULL;
    __typeof__(&pthread_create) original = resolve_original(HOOK_pthread_create);
    int error = original(thread, attributes, start, argument);
    pthread_join(*thread, NULL);
    munmap(thread, sizeof *thread);
    return error;
}

TEST("a thread that has freed what holds its number is not looked for there") {
    pthread_t *place = mmap(NULL, sizeof *place, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    create = create_and_free;
    EXPECT(!hook_pthread_create(place, NULL, nothing, NULL));
}
