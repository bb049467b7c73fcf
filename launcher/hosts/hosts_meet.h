/*
 * How the hosts of a job come together: the first one waits at --master-addr (hosts_first.c), the others connect (hosts_meet.c), each says what it was told
 * (struct hosts_hello), and when all have come all are answered. Nothing runs yet: whoever waits here can be ended with Ctrl-C.
 */
#ifndef ACCEL_RUN_HOSTS_MEET_H
#define ACCEL_RUN_HOSTS_MEET_H

#include <sys/socket.h>

#include "hosts.h"

#define MEET_MAGIC 0x61726831u
#define MEET_STRANGERS 64 /* that have not said yet who they are; the oldest makes room */
#define MEET_ADDRESSES 8  /* that are tried */
#define MEET_UNHEARD 10   /* questions of a kernel, a second apart, that nobody answers before a host is gone */
#define MEET_AGAIN_MS 200 /* between looks, and tries to connect */

/* A stranger that says that it is a host that has come already: it waits until that one is known to be there, or gone. */
struct meet_second {
    struct hosts_hello hello;
    uint64_t since_ms; /* 0: it is none */
};

struct meet {
    struct hosts *hosts;
    const struct config *config;
    struct problem *problem;
    struct hosts_hello own;
    char master[256];
    uint32_t port;
    uint64_t begin_ms;
    bool is_said; /* who is waited for */
    struct hosts_hello said[BOARD_RANKS_MAX];
    struct hosts_peer strangers[MEET_STRANGERS];
    struct meet_second seconds[MEET_STRANGERS]; /* of the same index */
    uint32_t next_stranger;
};

/* What a name leads to: of both families, or to several interfaces. */
struct meet_addresses {
    struct sockaddr_storage list[MEET_ADDRESSES];
    uint32_t count;
};

/* Sets the problem. Returns -1. */
int meet_fail(struct meet *meet, const char *id, const char *cure, const char *format, ...) __attribute__((format(printf, 4, 5)));
/* As it is told to other hosts. */
struct protocol_problem meet_refusal(const struct problem *problem);
/* Is --start-timeout over? */
bool meet_is_over(const struct meet *meet);
/* After a while, once. */
void meet_say_waiting(struct meet *meet, const char *for_whom, const char *reason); /* NULL: not known */
/* One try at each of the first host's addresses, of at most a second. A descriptor, and which it was, or -1 with the reason in words. */
int meet_connect(const struct meet *meet, struct sockaddr_storage *address, const char **reason);
/* Whoever knocks becomes a stranger; the oldest makes room. */
void meet_take_strangers(struct meet *meet, int listener);
/* The first host's part. */
int meet_as_first(struct meet *meet);

/* ---- hosts_sockets.c */

/* The first host's addresses, the best one first: 0, or what gai_strerror() knows. Names may not be known yet while a cluster comes up. */
int meet_resolve(const struct meet *meet, struct meet_addresses *addresses);
/* Where the first host listens. Its own name may be a loopback address there (127.0.1.1 in /etc/hosts of Debian, Ubuntu and cloud images), where no other host
   comes: then any address is listened at, of both families. A loopback address that is written as a number, and localhost, are meant. */
struct sockaddr_storage meet_place(const struct meet *meet, const struct meet_addresses *addresses);
/* Listens at the address, or at any of the family where it is not one of this host's (a service's name, a translated address). -1 with errno. */
int meet_listen(const struct sockaddr_storage *address);
/* Who is at the other end: 0, or -1 with errno. An address of IPv4 is one, whatever socket it came to. */
int meet_peer_of(int descriptor, struct sockaddr_storage *address);
/* Where this host's leader will listen: own address, any port. Returns 0, or -1 with the problem. */
int meet_open_leaders(struct meet *meet, struct sockaddr_storage address);
socklen_t meet_size_of(const struct sockaddr_storage *address);
void meet_name_of(const struct sockaddr_storage *address, char *name);
void meet_set_address(struct board_host *line, struct sockaddr_storage address, uint32_t port);
/* Who waits in the meeting says nothing, so the kernels ask: one that has lost its power, or its network, is waited for again. */
void meet_set_options(int descriptor);
/* The meeting is over: --host-timeout counts. */
void meet_end_options(int descriptor);
/* Has the other end's kernel been heard since? */
bool meet_is_heard_since(int descriptor, uint64_t since_ms);

#endif
