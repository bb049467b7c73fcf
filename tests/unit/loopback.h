/* A host's leader, reached over the loopback device. */
#ifndef ACCEL_TESTS_LOOPBACK_H
#define ACCEL_TESTS_LOOPBACK_H

#include "../../config/board.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* A socket that listens there; its address to *line. */
static int loopback_listen(struct board_host *line) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int made = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (made < 0 || bind(made, (struct sockaddr *)&address, size) || listen(made, 256) ||
        getsockname(made, (struct sockaddr *)&address, &size)) {
        abort();
    }
    memcpy(line->address, &address, size);
    line->address_bytes = size;
    return made;
}

#endif
