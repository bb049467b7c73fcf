// sources: shim/comm/segment.c shim/comm/barrier.c shim/comm/agree.c shim/comm/turn.c shim/comm/stream.c shim/comm/staging.c shim/comm/kernels.c shim/comm/kernels_avx2.c shim/comm/kernels_avx512.c shim/comm/shared_memory.c shim/comm/all_reduce.c shim/comm/hosts.c shim/comm/hosts_reduce.c shim/comm/network.c shim/comm/network_connect.c shim/comm/own.c
// Runs alone: it measures.
/*
 * A network between hosts that is slow: what goes on is not late.
 */
#include "hosts.h"

#include <errno.h>
#include <sys/syscall.h>
#include <time.h>

/* A piece of a message comes now and then, and by this process's clock a second has passed each time. */
static int is_slow;
static time_t passed;

int clock_gettime(clockid_t clock, struct timespec *now) {
    int status = (int)syscall(SYS_clock_gettime, clock, now);
    now->tv_sec += passed;
    return status;
}

ssize_t recvmsg(int socket, struct msghdr *message, int flags) {
    enum { PIECE_BYTES = 16 << 10, EMPTY_LOOKS = 200 };
    static unsigned looks;
    if (is_slow && ++looks % EMPTY_LOOKS) {
        errno = EAGAIN;
        return -1;
    }
    if (is_slow) {
        message->msg_iovlen = 1;
        message->msg_iov->iov_len = message->msg_iov->iov_len < PIECE_BYTES ? message->msg_iov->iov_len : PIECE_BYTES;
    }
    ssize_t bytes = syscall(SYS_recvmsg, socket, message, flags);
    passed += is_slow && bytes > 0;
    return bytes;
}

static void move_slowly(void) {
    enum { COUNT = 65537 };
    static float numbers[COUNT];
    is_slow = 1;
    for (size_t i = 0; i < COUNT; i++) {
        numbers[i] = float_value(self, i);
    }
    comm_all_reduce("floats", &(struct comm_span){numbers, COUNT}, 1, COMM_FLOAT32, COMM_SUM);
    for (size_t i = 0; i < COUNT; i++) {
        float sum = float_value(0, i) + float_value(1, i);
        RANK_EXPECT(!memcmp(&sum, &numbers[i], sizeof sum));
    }
    RANK_EXPECT(passed > 2 * timeout_ms / 1000);
}

TEST("a sum that takes longer than the time limit, while bytes move all the time, is made") {
    timeout_ms = 4000;
    run_on(&(struct layout){{1, 1}}, move_slowly, 0);
    clear_hosts();
}
