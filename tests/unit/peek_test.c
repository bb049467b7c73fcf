// sources: shim/torch/peek.c
#include "unit.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "../../shim/torch/peek.h"

enum { PAGE = 4096 };

/* Two pages that can be read, and none behind them. */
static unsigned char *two_pages(void) {
    unsigned char *pages = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 2 * PAGE; i++)
        pages[i] = (unsigned char)(i * 7 + 1);
    munmap(pages + 2 * PAGE, PAGE);
    return pages;
}

static int reads(const unsigned char *address, size_t count) {
    static unsigned char copy[3 * PAGE];
    return peek_memory(address, copy, count) && !memcmp(copy, address, count);
}

static void look(void) {
    void *word;
    unsigned char *pages = two_pages();
    EXPECT(reads(pages, 2 * PAGE) && reads(pages + 5, 2 * PAGE - 5) && reads(pages + 2 * PAGE - 1, 1));
    EXPECT(!reads(pages + 1, 2 * PAGE) && !reads(pages + 2 * PAGE - 1, 2) && !reads(pages + 2 * PAGE, 1));
    EXPECT(peek_word(pages + 8, &word) && !memcmp(&word, pages + 8, sizeof word));
    EXPECT(!peek_word(pages + 2 * PAGE, &word) && !peek_word(pages + 9, &word) && !peek_word(NULL, &word));
    EXPECT(!peek_word((void *)0xdead000000000000, &word));
    errno = ERANGE;
    EXPECT(!reads(pages + 2 * PAGE, 1) && errno == ERANGE);
}

static void limit_descriptors(rlim_t limit) {
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){limit, 1024});
}

static void forbid_reading(void) {
    struct sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                                   BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
                                   BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    EXPECT(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    EXPECT(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &(struct sock_fprog){sizeof filter / sizeof *filter, filter}));
}

TEST("memory is read where it is, and what is not there is told") {
    look();
}

TEST("so it is with no descriptor left") {
    limit_descriptors(0);
    look();
    limit_descriptors(1024); /* a sanitizer's own */
}

TEST("so it is where process_vm_readv is forbidden") {
    forbid_reading();
    look();
}
