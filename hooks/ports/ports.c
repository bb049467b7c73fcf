/*
 * Ports that the program listens on: a store of torch.distributed for one process, a server of its numbers.
 *
 * Rules of hooks/ports/
 *  - Rank 0 has the port. Each other rank listens on one that is free, is told the number that it asked for, and reaches itself there: what it says to
 *    itself on that port it hears itself, as the one process would. Nobody else sees the other ranks' ports.
 *  - So it is with a rank's children, and before `import torch`: who listens, and who reaches whom, is known in all processes that the rank has started,
 *    by a table in memory that has the job's and the rank's number in its name (removed by launcher/shared_names.c). Below another launcher, in the rank alone.
 *  - A rank that does not listen there yet is not served by rank 0's: whoever tries until its server is up would go on with another rank's. So what rank 0's
 *    processes listen on is known, too, and refuses the others' connections as a port on which nobody listens does.
 *  - Only numbered ports of internet addresses. What a rank may not bind (below 1024) fails on all alike.
 *  - Entries are for ever, few: a rank asks for a number again and again, or leaves it.
 */
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../shim/shim.h"

enum { PORTS = 64, PRIVILEGED = 1024, PATIENCE_S = 60 };

struct table {
    _Atomic uint64_t ports[PORTS]; /* one word each: asked << 32 | own << 16 | type of socket; 0: free. Network byte order. */
    _Atomic uint32_t count;
};

static struct table alone; /* of this process, where no name for one of all is known */
static struct shared_table rank_0s = {.begin = "/dev/shm/accel_ports", .rank = 0, .bytes = sizeof(struct table)};
static struct shared_table shared = {.begin = "/dev/shm/accel_ports", .bytes = sizeof(struct table)};

static uint64_t entry_of(uint16_t asked, uint16_t own, int type) {
    return (uint64_t)asked << 32 | (uint64_t)own << 16 | (uint64_t)type;
}
static uint16_t asked_of(uint64_t entry) {
    return (uint16_t)(entry >> 32);
}
static uint16_t own_of(uint64_t entry) {
    return (uint16_t)(entry >> 16);
}
static int type_of(uint64_t entry) {
    return (int)(entry & 0xffff);
}

/* The place of the port in an address; NULL: it has none. */
static uint16_t *port_in(const struct sockaddr *address, unsigned length) {
    if (address && length >= sizeof(struct sockaddr_in) && address->sa_family == AF_INET)
        return &((struct sockaddr_in *)address)->sin_port;
    if (address && length >= sizeof(struct sockaddr_in6) && address->sa_family == AF_INET6)
        return &((struct sockaddr_in6 *)address)->sin6_port;
    return NULL;
}

static int socket_type(int descriptor) {
    int type = 0;
    socklen_t size = sizeof type;
    return getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &size) ? 0 : type;
}

static bool is_other_rank(void) {
    return shim_active() ? shim_rank() > 0 : shim_job_name() && shim_slot() > 0;
}

/* The rank's table, or this process's alone where that is not to be had. */
static struct table *table_of(bool to_enter) {
    if (!shim_job_name())
        return &alone;
    if (!atomic_load(&shared.memory))
        shared.rank = shim_slot();
    struct table *table = shared_table_of(&shared, to_enter);
    return table ? table : &alone;
}

/* NULL: nothing has been entered, or this is rank 0's process. */
static const struct table *entries(void) {
    const struct table *table = is_other_rank() ? table_of(false) : NULL;
    return table && atomic_load(&table->count) ? table : NULL;
}

/* The last one that was asked for under this number; or, by own, who has it. 0: none. table: NULL: empty. */
static uint64_t find_in(const struct table *table, uint16_t port, int descriptor, uint16_t (*number_of)(uint64_t entry)) {
    if (!table)
        return 0;
    int type = socket_type(descriptor);
    uint32_t count = atomic_load(&table->count), few = count < PORTS ? count : PORTS;
    for (uint32_t i = 1; i <= few; i++) {
        uint64_t entry = atomic_load(&table->ports[(count - i) % PORTS]);
        if (entry && number_of(entry) == port && type_of(entry) == type)
            return entry;
    }
    return 0;
}

static uint64_t find(uint16_t port, int descriptor, uint16_t (*number_of)(uint64_t entry)) {
    return find_in(entries(), port, descriptor, number_of);
}

/* Has this process children, one of which may be the server that is not up yet? One that rank 0 alone has started, by a command for all, is for all. */
static bool has_children(void) {
    siginfo_t unused;
    return !waitid(P_ALL, 0, &unused, WEXITED | WNOHANG | WNOWAIT);
}

/* Does rank 0 listen there, or has it, and this rank not yet? */
static bool is_rank_0s(uint16_t port, int descriptor) {
    bool may_be = is_other_rank() && shim_job_name() && socket_type(descriptor) == SOCK_STREAM && has_children();
    return may_be && find_in(shared_table_of(&rank_0s, false), port, descriptor, asked_of);
}

/* Its own server has a while to begin, from when it was asked for first. */
static bool may_begin_yet(uint16_t port) {
    static _Atomic uint32_t asked[UINT16_MAX + 1]; /* when, in seconds */
    uint32_t now = (uint32_t)(clock_ms() / 1000), first = 0;
    return atomic_compare_exchange_strong(&asked[port], &first, now) || now < first + PATIENCE_S;
}

static void remember(struct table *table, uint64_t entry) {
    atomic_store(&table->ports[atomic_fetch_add(&table->count, 1) % PORTS], entry);
}

static int bind_of_rank_0(int descriptor, const void *address, unsigned length) {
    int result = ORIGINAL(bind)(descriptor, address, length), saved_errno = errno;
    const uint16_t *asked = port_in(address, length);
    struct table *table = !result && asked && *asked && !is_other_rank() && shim_job_name() ? shared_table_of(&rank_0s, true) : NULL;
    if (table && !find_in(table, *asked, descriptor, asked_of))
        remember(table, entry_of(*asked, *asked, socket_type(descriptor)));
    errno = saved_errno;
    return result;
}

/* A number that it has asked for before stands for the same one again: whether that is in use, by which address and which family, the system knows. */
int hook_bind(int descriptor, const void *address, unsigned length) {
    const uint16_t *asked = port_in(address, length);
    if (!asked || !*asked || !is_other_rank() || (ntohs(*asked) < PRIVILEGED && geteuid()))
        return bind_of_rank_0(descriptor, address, length);
    struct sockaddr_storage any, got;
    unsigned size = sizeof got;
    uint64_t before = find(*asked, descriptor, asked_of);
    memcpy(&any, address, length < sizeof any ? length : sizeof any);
    *port_in((struct sockaddr *)&any, length) = before ? own_of(before) : 0;
    int result = ORIGINAL(bind)(descriptor, &any, length);
    if (before)
        return result;
    if (!result && !ORIGINAL(getsockname)(descriptor, &got, &size))
        remember(table_of(true), entry_of(*asked, *port_in((struct sockaddr *)&got, size), socket_type(descriptor)));
    return result;
}

/* The program is shown the number that it has asked for. */
static void show_asked(int descriptor, void *address, const unsigned *length) {
    uint16_t *port = port_in(address, *length);
    uint64_t entry = port ? find(*port, descriptor, own_of) : 0;
    if (entry)
        *port = asked_of(entry);
}

int hook_getsockname(int descriptor, void *address, unsigned *length) {
    int result = ORIGINAL(getsockname)(descriptor, address, length);
    if (!result)
        show_asked(descriptor, address, length);
    return result;
}

/* ---- who is meant */

static bool same_host(const struct sockaddr *one, const struct sockaddr *other) {
    if (!one || one->sa_family != other->sa_family)
        return false;
    if (one->sa_family == AF_INET)
        return ((const struct sockaddr_in *)one)->sin_addr.s_addr == ((const struct sockaddr_in *)other)->sin_addr.s_addr;
    return one->sa_family == AF_INET6 && !memcmp(&((const struct sockaddr_in6 *)one)->sin6_addr,
                                                 &((const struct sockaddr_in6 *)other)->sin6_addr, sizeof(struct in6_addr));
}

/* Is it an address of this host? One of four bytes in the form of one of sixteen is taken as what it stands for. */
static bool is_here(const struct sockaddr *address) {
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)address;
    struct sockaddr_in four = {.sin_family = AF_INET};
    if (address->sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&six->sin6_addr)) {
        memcpy(&four.sin_addr, six->sin6_addr.s6_addr + 12, sizeof four.sin_addr);
        address = (const struct sockaddr *)&four;
    } else if (address->sa_family == AF_INET6 && (IN6_IS_ADDR_LOOPBACK(&six->sin6_addr) || IN6_IS_ADDR_UNSPECIFIED(&six->sin6_addr))) {
        return true;
    }
    if (address->sa_family == AF_INET) {
        uint32_t host = ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr);
        if (!host || host >> 24 == IN_LOOPBACKNET)
            return true;
    }
    struct ifaddrs *all;
    bool found = false;
    if (getifaddrs(&all))
        return false;
    for (const struct ifaddrs *one = all; one && !found; one = one->ifa_next)
        found = same_host(one->ifa_addr, address);
    freeifaddrs(all);
    return found;
}

/* The address that is meant, in *own where it is another one. */
static const void *meant(int descriptor, const void *address, unsigned length, struct sockaddr_storage *own) {
    const uint16_t *asked = port_in(address, length);
    uint64_t entry = asked ? find(*asked, descriptor, asked_of) : 0;
    if (!entry || !is_here(address))
        return address;
    memcpy(own, address, length < sizeof *own ? length : sizeof *own);
    *port_in((struct sockaddr *)own, length) = own_of(entry);
    return own;
}

int hook_connect(int descriptor, const void *address, unsigned length) {
    struct sockaddr_storage own;
    const void *whom = meant(descriptor, address, length, &own);
    const uint16_t *port = port_in(address, length);
    if (whom == address && port && is_rank_0s(*port, descriptor) && is_here(address) && may_begin_yet(*port)) {
        errno = ECONNREFUSED;
        return -1;
    }
    return ORIGINAL(connect)(descriptor, whom, length);
}

ssize_t hook_sendto(int descriptor, const void *data, size_t bytes, int flags, const void *address, unsigned length) {
    struct sockaddr_storage own;
    return ORIGINAL(sendto)(descriptor, data, bytes, flags, meant(descriptor, address, length, &own), length);
}

ssize_t hook_sendmsg(int descriptor, const void *message, int flags) {
    struct sockaddr_storage own;
    if (!entries()) /* also of one that is nowhere: the system says so */
        return ORIGINAL(sendmsg)(descriptor, message, flags);
    struct msghdr sent = *(const struct msghdr *)message;
    sent.msg_name = (void *)meant(descriptor, sent.msg_name, sent.msg_namelen, &own);
    return ORIGINAL(sendmsg)(descriptor, &sent, flags);
}

/* ---- who has spoken */

/* One that is not here may have the same number. */
static void show_asked_here(int descriptor, void *address, const unsigned *length) {
    if (port_in(address, *length) && entries() && is_here(address))
        show_asked(descriptor, address, length);
}

int hook_getpeername(int descriptor, void *address, unsigned *length) {
    int result = ORIGINAL(getpeername)(descriptor, address, length);
    if (!result)
        show_asked_here(descriptor, address, length);
    return result;
}

ssize_t hook_recvfrom(int descriptor, void *data, size_t bytes, int flags, void *address, unsigned *length) {
    ssize_t result = ORIGINAL(recvfrom)(descriptor, data, bytes, flags, address, length);
    if (result >= 0 && address && length)
        show_asked_here(descriptor, address, length);
    return result;
}
