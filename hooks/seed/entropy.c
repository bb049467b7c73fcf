/* Entropy asked for by call: libtorch's, the C++ library's and libc's. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "seed.h"

uint64_t hook_torch_entropy(char is_cuda) {
    if (!seed_is_agreed())
        return ORIGINAL(torch_entropy)(is_cuda);
    uint64_t word = seed_draw_word(SEED_TORCH);
    return is_cuda ? word >> 11 : word; /* 64 bits, or 53 that a double holds exactly: as libtorch draws them */
}

unsigned hook_random_device(void *device) {
    return seed_is_agreed() ? (unsigned)seed_draw_word(SEED_RANDOM_DEVICE) : ORIGINAL(random_device)(device);
}

unsigned hook_random_device_old(void *device) {
    return seed_is_agreed() ? (unsigned)seed_draw_word(SEED_RANDOM_DEVICE) : ORIGINAL(random_device_old)(device);
}

long hook_getrandom(void *bytes, size_t count, unsigned flags) {
    if (!seed_is_agreed())
        return ORIGINAL(getrandom)(bytes, count, flags);
    seed_draw(SEED_GETRANDOM, bytes, count);
    return (long)count;
}

/* As libc's syscall(). */
static long enter_kernel(long number, long first, long second, long third, long fourth, long fifth, long sixth) {
#if defined(__x86_64__)
    register long in_r10 __asm__("r10") = fourth, in_r8 __asm__("r8") = fifth, in_r9 __asm__("r9") = sixth;
    __asm__ volatile("syscall"
                     : "+a"(number)
                     : "D"(first), "S"(second), "d"(third), "r"(in_r10), "r"(in_r8), "r"(in_r9)
                     : "rcx", "r11", "memory");
    if ((unsigned long)number < -4095ul)
        return number;
    errno = (int)-number;
    return -1;
#else
    return ORIGINAL(syscall)(number, first, second, third, fourth, fifth, sixth);
#endif
}

/* Programs built for a libc before 2.25 (many a Python) ask the kernel so. */
long hook_syscall(long number, long first, long second, long third, long fourth, long fifth, long sixth) {
    if (number == SYS_getrandom && seed_is_agreed())
        return hook_getrandom((void *)first, (size_t)second, (unsigned)third);
    return (NEXT(syscall) ? NEXT(syscall) : enter_kernel)(number, first, second, third, fourth, fifth, sixth);
}

/* glibc has arc4random since 2.36 only, and a program that looks for it by dlsym finds ours: without the original the kernel is asked. */
void hook_arc4random_buf(void *bytes, size_t count) {
    if (seed_is_agreed()) {
        seed_draw(SEED_ARC4RANDOM, bytes, count);
        return;
    }
    if (NEXT(arc4random_buf)) {
        NEXT(arc4random_buf)(bytes, count);
        return;
    }
    for (size_t done = 0; done < count;) {
        long got = syscall(SYS_getrandom, (char *)bytes + done, count - done, 0);
        done += got > 0 ? (size_t)got : 0;
    }
}

uint32_t hook_arc4random(void) {
    uint32_t word;
    hook_arc4random_buf(&word, sizeof word);
    return word;
}

/* Uniform below the bound: values from the incomplete last interval are drawn again. */
uint32_t hook_arc4random_uniform(uint32_t bound) {
    if (bound < 2)
        return 0;
    uint32_t word, reject = -bound % bound;
    do
        word = hook_arc4random();
    while (word < reject);
    return word % bound;
}
