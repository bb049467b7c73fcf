// sources: launcher/hosts/hosts.c launcher/loop.c
/*
 * Messages between launchers of which one reads nothing for a while.
 */
#include "unit.h"

#include <sys/socket.h>

#include "../../launcher/hosts/hosts.h"

enum { BODY_BYTES = 64 << 10, MANY = 200 }; /* together more than waits for anybody */

static struct hosts hosts;
static struct hosts_peer other; /* the same connection at its other end */
static char body[BODY_BYTES], how_gone[128];

static void hear_gone(void *context, uint32_t host, const char *how) {
    snprintf(how_gone, sizeof how_gone, "host %u: %s", host, how);
}

static void connect_both(void) {
    int ends[2];
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    hosts = (struct hosts){.count = 1, .timeout_ms = 1000, .leader_listener = -1, .looks = -1, .events = {.gone = hear_gone}};
    hosts.peers = calloc(1, sizeof *hosts.peers);
    hosts.peers[0] = (struct hosts_peer){.descriptor = ends[0]};
    other = (struct hosts_peer){.descriptor = ends[1]};
}

static void clear_both(void) {
    hosts_clear(&hosts);
    hosts_close(&other);
}

/* What the other one hears, when it reads: how many messages of each type. */
static void read_all(int *heard) {
    struct hosts_header header;
    const char *message;
    do
        hosts_flush(&hosts);
    while (hosts_read(&other, &header, &message) > 0 && ++heard[header.type]);
}

TEST("a launcher that was stopped for hours, while it was told where the ranks are, hears what has happened meanwhile") {
    int heard[HOSTS_CANNOT + 1] = {0};
    connect_both();
    for (int i = 0; i < MANY; i++)
        hosts_tell_ready(&hosts, HOSTS_LINES, body, sizeof body);
    hosts_tell(&hosts, 0, HOSTS_FAILED, body, sizeof body);
    hosts_on_time(&hosts, 0);
    read_all(heard);
    EXPECT(heard[HOSTS_FAILED] == 1 && heard[HOSTS_LINES] >= 1 && heard[HOSTS_LINES] < MANY && !*how_gone);
    hosts_tell_ready(&hosts, HOSTS_LINES, body, sizeof body);
    read_all(heard);
    EXPECT(heard[HOSTS_FAILED] == 1 && heard[HOSTS_LINES] >= 2);
    clear_both();
}

/* It has said so at 0 ms. */
static void pause_other(void) {
    connect_both();
    hosts.pause_ms = 5000;
    hosts.peers[0].is_paused = true;
    *how_gone = 0;
}

TEST("a launcher that is stopped is waited for as long as ranks wait for each other, and not for ever") {
    pause_other();
    hosts_on_time(&hosts, 5999);
    EXPECT_TEXT(how_gone, "");
    hosts_on_time(&hosts, 6000);
    EXPECT_TEXT(how_gone, "host 0: it is stopped (Ctrl-Z), and has not been heard for 6.0 s");
    clear_both();
}

TEST("where the job ends a launcher that is stopped is waited for like any other, from then on") {
    pause_other();
    hosts.ends_ms = 3000;
    hosts_on_time(&hosts, 3999);
    EXPECT_TEXT(how_gone, "");
    hosts_on_time(&hosts, 4000);
    EXPECT_TEXT(how_gone, "host 0: it is stopped (Ctrl-Z), and has not been heard for 4.0 s");
    clear_both();
}

TEST("a launcher that does not read until there is no room for what it must hear is gone, by name") {
    connect_both();
    for (int i = 0; i < MANY; i++)
        hosts_tell(&hosts, 0, HOSTS_COME, body, sizeof body);
    EXPECT(!*how_gone);
    hosts_on_time(&hosts, 0);
    EXPECT(strstr(how_gone, "host 0: it does not read what it is told") != NULL);
    EXPECT(hosts.peers[0].descriptor < 0);
    clear_both();
}
