/*
 * How much a process computes, as a figure that no other work on the machine changes: the bytes of all tensors that libtorch makes in it, in
 * $ACCEL_TEST_DUMP.work.<pid> when the process ends. An activation, or its gradient, of half the rows is half the bytes. Include it and nothing else.
 */
#pragma once

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <unistd.h>

struct Work {
    std::atomic<unsigned long long> bytes{0};

    ~Work() {
        const char *stem = std::getenv("ACCEL_TEST_DUMP");
        FILE *file = stem ? std::fopen((std::string(stem) + ".work." + std::to_string(getpid())).c_str(), "w") : nullptr;
        if (file) {
            std::fprintf(file, "%llu\n", bytes.load());
            std::fclose(file);
        }
    }
};

inline Work work;

/* A program's own function comes before libc's, for its libraries too; libtorch takes all memory of its tensors by this one. */
extern "C" int posix_memalign(void **memory, size_t alignment, size_t size) noexcept {
    work.bytes += size;
    void *block = aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
    if (!block) {
        return ENOMEM;
    }
    *memory = block;
    return 0;
}
