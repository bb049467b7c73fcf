/*
 * Same start, same stream: a program that seeds itself from nowhere draws the same numbers on all ranks.
 *
 * Rules of hooks/seed/
 *  - A draw is a function of the job's secret and of facts that are the same on all ranks: the program's path (over several hosts its
 *    name) and arguments, the chain of forks that led to this process, the source, the number of the draw. No message is exchanged, so
 *    draws work before a process is a rank and in loader workers, which never are: the k-th worker of each rank draws what the k-th worker
 *    of the other ranks draws, and not what its neighbour draws.
 *  - What is promised: as long as each rank makes the same draws in the same order on its main thread, they are equal, whatever its other
 *    threads do. The other threads of a process share one stream per source; in which order they draw is their race, as it is without us.
 *    The checksum of what enters a step (shim/start_check.h) catches ranks that have parted.
 *  - Who draws so: processes below a launcher that train or belong to training: libtorch is mapped, or the process is a Python interpreter
 *    (its hash seed and its random module are drawn before torch is imported). Everything else (shells, compilers, git, ssh) gets the
 *    system's entropy. The same command run twice in one job draws the same numbers twice.
 *  - The secret is 128 random bits of this job, the generator is a keyed pseudo-random function: with one rank or many, a run draws other
 *    numbers than the run before, and nobody outside the job can compute them.
 *  - getentropy and RDRAND inside libraries are left alone (keys of TLS); programs that seed from a clock's nanoseconds or from their pid
 *    are not seen.
 *  - The rows run in every process below the launcher: no allocation, no lock of ours, errno kept. They must not claim the rank: libtorch
 *    draws its first seed inside the construction of its generator, which our self-check would enter again.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "seed.h"

static struct siphash_key secret;
static uint64_t program;                        /* program.c */
static uint64_t lineage;                        /* hash of the forks from the exec to here */
static _Atomic uint64_t forks[2];               /* by others and by the main thread */
static _Atomic uint64_t draws[SEED_SOURCES][2]; /* likewise */
static _Atomic uint8_t agreed;                  /* 1: seed_is_agreed(), for good */
static atomic_flag preparing = ATOMIC_FLAG_INIT;

static bool is_main_thread(void) {
    return syscall(SYS_gettid) == getpid();
}

/* ---- what a draw depends on */

static uint64_t hexadecimal(const char *text) {
    uint64_t word = 0;
    for (int i = 0; i < 16; i++)
        word = word << 4 | (uint64_t)(text[i] <= '9' ? text[i] - '0' : (text[i] | 32) - 'a' + 10);
    return word;
}

static void prepare(const char *text) {
    while (atomic_flag_test_and_set_explicit(&preparing, memory_order_acquire)) {
    }
    if (!atomic_load(&agreed)) {
        secret = (struct siphash_key){hexadecimal(text), hexadecimal(text + 16)};
        program = program_hash(secret);
        atomic_store(&agreed, 1);
    }
    atomic_flag_clear_explicit(&preparing, memory_order_release);
}

bool seed_is_agreed(void) {
    if (atomic_load_explicit(&agreed, memory_order_acquire))
        return true;
    const char *text = shim_job_secret();
    if (!text) /* no launcher */
        return false;
    int saved_errno = errno;
    if (shim_may_train()) /* not cached when false: Python and plugins load libtorch late */
        prepare(text);
    errno = saved_errno;
    return atomic_load_explicit(&agreed, memory_order_acquire);
}

uint64_t seed_program(void) {
    const uint64_t facts[] = {program, lineage};
    return seed_is_agreed() ? siphash(secret, facts, 2) | 1 : 0;
}

static struct siphash_key key_of_draw(enum seed_source source) {
    shim_note_draw();
    bool is_main = is_main_thread();
    uint64_t number = atomic_fetch_add(&draws[source][is_main], 1);
    uint64_t facts[] = {program, lineage, source, is_main, number, 0};
    struct siphash_key key = {.low = siphash(secret, facts, 6)};
    facts[5] = 1;
    key.high = siphash(secret, facts, 6);
    return key;
}

uint64_t seed_name_call(enum seed_source source) {
    return key_of_draw(source).low | 1;
}

void seed_draw(enum seed_source source, void *bytes, size_t count) {
    struct siphash_key key = key_of_draw(source);
    for (uint64_t i = 0; i * 8 < count; i++) {
        uint64_t word = siphash(key, &i, 1);
        memcpy((char *)bytes + i * 8, &word, count - i * 8 < 8 ? count - i * 8 : 8);
    }
}

/* ---- forks */

/* The forking thread's answer, which the child cannot find out any more: there it has become the main thread. */
static _Thread_local uint8_t forking_main;

static void before_fork(void) {
    forking_main = shim_job_secret() && is_main_thread();
}

/* Not a command's child: below Python 3.10, and as another user, subprocess.run() forks, on rank 0 alone. */
static void after_fork_in_parent(void) {
    if (!shim_is_for_all())
        atomic_fetch_add_explicit(&forks[forking_main], 1, memory_order_relaxed);
}

/* Its draws are numbered anew: how many the parent's main thread has made by the time at which another thread forks is a race. */
static void after_fork_in_child(void) {
    uint64_t facts[] = {lineage, forking_main, atomic_load_explicit(&forks[forking_main], memory_order_relaxed) + 1};
    lineage = siphash(secret, facts, 3);
    atomic_store(&forks[0], 0);
    atomic_store(&forks[1], 0);
    for (int source = 0; source < SEED_SOURCES; source++)
        for (int by_main = 0; by_main < 2; by_main++)
            atomic_store(&draws[source][by_main], 0);
    atomic_flag_clear(&preparing);
}

/* ---- start */

/* libc's own functions, by RTLD_NEXT: they are in the global scope of every process (style.md fact 1 is about libtorch), and other
   preloaded libraries that stand between us and libc (fakechroot, faketime) keep their turn. Here and not at the first call: dlsym may
   allocate, and open is called by allocators. */
__attribute__((constructor)) static void seed_start(void) {
    for (int id = 0; id < HOOK_COUNT; id++)
        if (!strcmp(hook_table[id].library, "libc") && !atomic_load(&hook_table[id].original))
            atomic_store(&hook_table[id].original, dlsym(RTLD_NEXT, hook_table[id].symbol));
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}
