/*
 * A libtorch that accel-run cannot support, in three parts: tests/unsupported.bats compiles this file once for each.
 *
 *   -DFAKE_LIBC10     libc10.so: the function by which a parameter is made known, where a process claims its rank
 *   -DFAKE_PROGRAM    a program that makes one parameter and says "trained"; writes its process number to the file argv[1].RANK first
 *   neither           libtorch_cpu.so: nothing
 *
 * With -DSTUBS="file" the libraries have, besides, what the file lists: STUB("mangled symbol") for each function, which does nothing and returns 0.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct tensor;
void set_requires_grad(struct tensor *tensor, char requires_grad) __asm__("_ZN3c1010TensorImpl17set_requires_gradEb");

#ifdef STUBS
#define STUB(symbol) __asm__(".weak \"" symbol "\"\n.type \"" symbol "\", @function\n\"" symbol "\":\n xorl %eax, %eax\n ret\n");
#include STUBS
#endif

#ifdef FAKE_LIBC10
void set_requires_grad(struct tensor *tensor, char requires_grad) {
    ((char *)tensor)[0] = requires_grad;
}
#endif

#ifdef FAKE_PROGRAM
int main(int argc, char **argv) {
    static char tensor[512];
    char path[256];
    const char *rank = getenv("ACCEL_RUN_RANK");
    if (argc > 1) {
        snprintf(path, sizeof path, "%s.%s", argv[1], rank ? rank : "0");
        FILE *file = fopen(path, "w");
        if (!file)
            return 2;
        fprintf(file, "%d\n", (int)getpid());
        fclose(file);
    }
    set_requires_grad((struct tensor *)tensor, 1);
    puts(tensor[0] == 1 ? "trained" : "the original was not called");
    return 0;
}
#endif
