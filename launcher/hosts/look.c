#define _GNU_SOURCE
#include "look.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../job.h"

static size_t sent_bytes(const struct look_sent *sent) {
    return offsetof(struct look_sent, path) + sent->look.path_bytes;
}

/* Fills in a message of unknown origin; body begins with what stands at `from` in the struct. False: it is none. */
static bool take(struct look_sent *sent, size_t from, const char *body, uint32_t bytes) {
    size_t head = offsetof(struct look_sent, path) - from;
    if (bytes < head || bytes - head >= sizeof sent->path)
        return false;
    memcpy((char *)sent + from, body, bytes);
    sent->path[bytes - head] = 0;
    return sent->look.path_bytes == bytes - head;
}

/* ---- asking */

/* Paths below the folder that this accel-run was started in mean the first host's folder. */
static void spell_for_all(struct look_sent *sent) {
    const char *below = look_below_start(sent->path);
    sent->is_below = below != NULL;
    if (!below)
        return;
    size_t length = strlen(below);
    memmove(sent->path, below, length + 1);
    sent->look.path_bytes = (uint32_t)length;
}

void look_ask(struct job *job, uint32_t rank, const char *body, uint32_t bytes) {
    struct look_sent sent = {.rank = rank};
    if (!job->hosts || hosts_is_first(job->hosts) || !take(&sent, offsetof(struct look_sent, look), body, bytes))
        return;
    spell_for_all(&sent);
    hosts_tell(job->hosts, 0, HOSTS_LOOK, &sent, sent_bytes(&sent));
}

void look_hear_answer(struct job *job, const char *body, uint32_t bytes) {
    struct look_answer answer;
    size_t head = offsetof(struct look_answer, looked);
    if (bytes < offsetof(struct look_answer, data))
        return;
    memcpy(&answer, body, offsetof(struct look_answer, data));
    if (answer.rank >= job->first && answer.rank - job->first < job->local_size)
        claims_tell(&job->claims, answer.rank, PROTOCOL_LOOKED, body + head, bytes - head);
}

/* ---- on the first host */

/* Ends with the launcher, or when that closes its end. Signals are blocked: it was started with the launcher's mask. */
static void *look_thread(void *descriptor) {
    int socket = (int)(intptr_t)descriptor;
    static struct look_sent sent;
    static struct look_answer answer;
    ssize_t got;
    while ((got = recv(socket, &sent, sizeof sent, 0)) > 0) {
        look_serve(&sent, &answer);
        send(socket, &answer, look_answer_bytes(&answer), MSG_NOSIGNAL);
    }
    close(socket);
    return NULL;
}

static bool start_thread(struct hosts *hosts) {
    int ends[2];
    pthread_t thread;
    if (hosts->looks >= 0)
        return true;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
        return false;
    if (pthread_create(&thread, NULL, look_thread, (void *)(intptr_t)ends[1])) {
        close(ends[0]);
        close(ends[1]);
        return false;
    }
    pthread_detach(thread);
    hosts->looks = ends[0];
    return true;
}

static void answer_host(struct job *job, const void *answer, size_t bytes, uint32_t rank) {
    for (uint32_t host = 1; host < job->hosts->count; host++)
        if (rank >= job->hosts->list[host].first && rank - job->hosts->list[host].first < job->hosts->list[host].count)
            hosts_tell(job->hosts, host, HOSTS_LOOKED, answer, bytes);
}

void look_hear(struct job *job, const char *body, uint32_t bytes) {
    static struct look_sent sent;
    memset(&sent, 0, sizeof sent);
    if (!take(&sent, 0, body, bytes))
        return;
    if (start_thread(job->hosts) && send(job->hosts->looks, &sent, sent_bytes(&sent) + 1, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
        return;
    struct look_answer late = {.rank = sent.rank, .looked = {.number = sent.look.number, .error = PROTOCOL_LOOK_LATER}};
    answer_host(job, &late, look_answer_bytes(&late), sent.rank);
}

static void looks_ready(void *context, size_t index, short events) {
    static struct look_answer answer;
    struct job *job = context;
    ssize_t got;
    while ((got = recv(job->hosts->looks, &answer, sizeof answer, MSG_DONTWAIT)) > 0)
        answer_host(job, &answer, (size_t)got, answer.rank);
    if (!got || (errno != EAGAIN && errno != EINTR)) {
        close(job->hosts->looks);
        job->hosts->looks = -1;
    }
}

void look_add(struct job *job, struct loop *loop) {
    loop_add(loop, job->hosts->looks, POLLIN, looks_ready, job, 0);
}
