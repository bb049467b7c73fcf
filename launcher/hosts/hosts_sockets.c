#define _GNU_SOURCE
#include "hosts_meet.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "../clock.h"

static void set_number(int descriptor, int level, int option, int number) {
    setsockopt(descriptor, level, option, &number, sizeof number);
}

void meet_set_options(int descriptor) {
    set_number(descriptor, IPPROTO_TCP, TCP_NODELAY, 1);
    set_number(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, 1); /* seconds */
    set_number(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, 1);
    set_number(descriptor, IPPROTO_TCP, TCP_KEEPCNT, MEET_UNHEARD);
    set_number(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1);
}

void meet_end_options(int descriptor) {
    set_number(descriptor, SOL_SOCKET, SO_KEEPALIVE, 0);
}

bool meet_is_heard_since(int descriptor, uint64_t since_ms) {
    struct tcp_info info;
    socklen_t size = sizeof info;
    return getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 && clock_ms() - info.tcpi_last_ack_recv > since_ms;
}

static void set_port(struct sockaddr_storage *address, uint32_t port) {
    if (address->ss_family == AF_INET6)
        ((struct sockaddr_in6 *)address)->sin6_port = htons((uint16_t)port);
    else
        ((struct sockaddr_in *)address)->sin_port = htons((uint16_t)port);
}

static uint32_t port_of(const struct sockaddr_storage *address) {
    return ntohs(address->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)address)->sin6_port
                                                : ((const struct sockaddr_in *)address)->sin_port);
}

/* Any address of the family. */
static struct sockaddr_storage any_of(int family, uint32_t port) {
    struct sockaddr_storage address = {.ss_family = (sa_family_t)family};
    set_port(&address, port);
    return address;
}

socklen_t meet_size_of(const struct sockaddr_storage *address) {
    return address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

static bool is_any_of_both(const struct sockaddr_storage *address) {
    return address->ss_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)address)->sin6_addr);
}

static int listen_at(const struct sockaddr_storage *address) {
    struct sockaddr_storage any = any_of(address->ss_family, port_of(address));
    int no = 0, yes = 1, made = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (made < 0)
        return -1;
    setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (address->ss_family == AF_INET6)
        setsockopt(made, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    if (bind(made, (const struct sockaddr *)address, meet_size_of(address)) &&
        (errno != EADDRNOTAVAIL || bind(made, (const struct sockaddr *)&any, meet_size_of(&any)))) {
        int error = errno;
        close(made);
        errno = error;
        return -1;
    }
    return listen(made, 1024) ? -1 : made;
}

int meet_listen(const struct sockaddr_storage *address) {
    int made = listen_at(address);
    if (made >= 0 || errno != EAFNOSUPPORT || !is_any_of_both(address))
        return made;
    struct sockaddr_storage any = any_of(AF_INET, port_of(address)); /* a kernel without IPv6 */
    return listen_at(&any);
}

int meet_peer_of(int descriptor, struct sockaddr_storage *address) {
    socklen_t size = sizeof *address;
    memset(address, 0, sizeof *address);
    if (getpeername(descriptor, (struct sockaddr *)address, &size))
        return -1;
    struct sockaddr_in6 six;
    memcpy(&six, address, sizeof six);
    if (address->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&six.sin6_addr)) {
        struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = six.sin6_port};
        memcpy(&four.sin_addr, &six.sin6_addr.s6_addr[12], sizeof four.sin_addr);
        memset(address, 0, sizeof *address);
        memcpy(address, &four, sizeof four);
    }
    return 0;
}

int meet_open_leaders(struct meet *meet, struct sockaddr_storage address) {
    socklen_t size = sizeof address;
    set_port(&address, 0);
    meet->hosts->leader_listener = meet_listen(&address);
    if (meet->hosts->leader_listener < 0 || getsockname(meet->hosts->leader_listener, (struct sockaddr *)&address, &size))
        return meet_fail(meet, "AR-HOSTS-PORT", "raise 'ulimit -n', or free ports of this host", "no port for the ranks of this host: %s",
                         strerror(errno));
    meet->own.port = port_of(&address);
    return 0;
}

int meet_resolve(const struct meet *meet, struct meet_addresses *addresses) {
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found = NULL;
    int status = getaddrinfo(meet->master, NULL, &hints, &found);
    if (status)
        return status;
    memset(addresses, 0, sizeof *addresses);
    for (const struct addrinfo *one = found; one && addresses->count < MEET_ADDRESSES; one = one->ai_next) {
        struct sockaddr_storage *address = &addresses->list[addresses->count++];
        memcpy(address, one->ai_addr, one->ai_addrlen);
        set_port(address, meet->port);
    }
    freeaddrinfo(found);
    return 0;
}

static bool is_loopback(const struct sockaddr_storage *address) {
    if (address->ss_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
    return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

/* At any address where the name has several, or one that is only this host's: the others may know it by another (nss-myhostname lists all that the host
   has, a container is on several networks). A number that the user has given, and his own "localhost", are meant; a launcher's "localhost" is what it tells the
   first host alone (PyTorch jobs of Kubeflow's first operator). */
struct sockaddr_storage meet_place(const struct meet *meet, const struct meet_addresses *addresses) {
    struct in6_addr number;
    bool is_number = inet_pton(AF_INET, meet->master, &number) == 1 || inet_pton(AF_INET6, meet->master, &number) == 1;
    bool is_local = false, is_localhost = !strcasecmp(meet->master, "localhost") || is_number;
    for (uint32_t i = 0; i < addresses->count; i++)
        is_local |= is_loopback(&addresses->list[i]);
    bool is_any = is_local ? !is_localhost || meet->config->origin[CONFIG_ID_master_addr] == CONFIG_FROM_LAUNCHER
                           : !is_number && addresses->count > 1;
    return is_any ? any_of(AF_INET6, meet->port) : addresses->list[0];
}

void meet_name_of(const struct sockaddr_storage *address, char *name) {
    if (getnameinfo((const struct sockaddr *)address, meet_size_of(address), name, BOARD_HOST_CHARS, NULL, 0, NI_NUMERICHOST))
        snprintf(name, BOARD_HOST_CHARS, "unknown address");
}

void meet_set_address(struct board_host *line, struct sockaddr_storage address, uint32_t port) {
    set_port(&address, port);
    memcpy(line->address, &address, sizeof line->address);
    line->address_bytes = meet_size_of(&address);
}
