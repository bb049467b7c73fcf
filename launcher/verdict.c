#define _GNU_SOURCE
#include "verdict.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

struct signal_words {
    int signal;
    const char *words, *cure;
};

static const struct signal_words signal_table[] = {
    {SIGSEGV, "invalid memory access",
     "does it also happen without accel-run? If not, please report it with a backtrace (gdb, or 'coredumpctl gdb')"},
    {SIGBUS, "memory that is not there", "is a file system or /dev/shm full? Does it also happen without accel-run?"},
    {SIGABRT, "abort: an uncaught exception, an assertion or heap corruption",
     "the lines above say which; does it also happen without accel-run?"},
    {SIGFPE, "arithmetic fault", "does it also happen without accel-run?"},
    {SIGILL, "instruction this processor does not have", "was the program built for this processor?"},
    {SIGKILL, "kill -9 by a user, a job scheduler or the kernel",
     "look for who sent it; too little memory is the usual reason: 'dmesg | tail'"},
    {SIGTERM, "asked to end", "look for who sent it: a job scheduler's time limit?"},
    {SIGXCPU, "CPU time limit", "raise 'ulimit -t'"},
    {SIGXFSZ, "file size limit", "raise 'ulimit -f'"},
};

static const struct signal_words *words_of(int signal) {
    for (size_t i = 0; i < sizeof(signal_table) / sizeof(*signal_table); i++)
        if (signal_table[i].signal == signal)
            return &signal_table[i];
    return NULL;
}

const char *verdict_signal_words(int signal, char *text) {
    const struct signal_words *words = words_of(signal);
    const char *name = sigabbrev_np(signal);
    if (name)
        snprintf(text, VERDICT_SIGNAL_CHARS, "SIG%s%s%s%s", name, words ? " (" : "", words ? words->words : "", words ? ")" : "");
    else
        snprintf(text, VERDICT_SIGNAL_CHARS, "signal %d", signal);
    return text;
}

static int code_of(const struct rank *rank) {
    return rank->signal ? 128 + rank->signal : rank->exit_code;
}

static uint32_t count_ended_like(const struct verdict_facts *facts, const struct rank *rank) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < facts->world_size; i++)
        count += !facts->ranks[i].ended_by_us && code_of(&facts->ranks[i]) == code_of(rank);
    return count;
}

static void signalled(const struct verdict_facts *facts, const struct rank *rank, const char *who, struct verdict *verdict) {
    char text[VERDICT_SIGNAL_CHARS];
    const struct signal_words *words = words_of(rank->signal);
    bool memory = rank->signal == SIGKILL && facts->out_of_memory;
    const char *cure = memory  ? "the kernel killed it for want of memory: run fewer ranks, a smaller batch, or raise the memory limit"
                       : words ? words->cure
                               : "look for who sent it";
    problem_set(&verdict->report, verdict->exit_code, memory ? "AR-RANK-MEMORY" : "AR-RANK-KILLED", cure, "%s of '%s' killed by %s%s%s",
                who, facts->program, verdict_signal_words(rank->signal, text), *facts->where ? ", " : "", facts->where);
}

static uint32_t total_of(const struct verdict_facts *facts) {
    return facts->total ? facts->total : facts->world_size;
}

enum { WHO_CHARS = 192 };

/* Who has failed. alike: that many of this host. */
static void name_them(const struct verdict_facts *facts, const struct rank *rank, uint32_t alike, char *who) {
    const char *whose = facts->host ? "this host's " : "";
    if (total_of(facts) == 1)
        snprintf(who, WHO_CHARS, "the only rank (process %d)", (int)rank->pid);
    else if (alike > 1 && alike == facts->world_size)
        snprintf(who, WHO_CHARS, "every one of %s%u ranks", whose, facts->world_size);
    else if (alike > 1)
        snprintf(who, WHO_CHARS, "%u of %s%u ranks", alike, whose, facts->world_size);
    else
        snprintf(who, WHO_CHARS, "rank %u of %u (process %d%s%s)", rank->number, total_of(facts), (int)rank->pid, facts->host ? " on " : "",
                 facts->host ? facts->host : "");
}

static void failed(const struct verdict_facts *facts, const struct rank *rank, struct verdict *verdict) {
    char who[WHO_CHARS];
    uint32_t alike = count_ended_like(facts, rank);
    bool all = alike == facts->world_size && (facts->world_size > 1 || total_of(facts) == 1);
    bool some = alike > 1 && !rank->signal; /* who is killed is named */
    verdict->exit_code = code_of(rank);
    verdict->failed = (uint32_t)(rank - facts->ranks);
    name_them(facts, rank, all || some ? alike : 1, who);
    verdict->show_tail = !all && rank->number > 0;
    /* What the user did, or what one process alone would do without a word: SIGPIPE of "| head", an exit code of the only rank. */
    verdict->is_silent = (facts->user_signal && (rank->signal == facts->user_signal || rank->exit_code == 128 + facts->user_signal)) ||
                         (rank->signal == SIGPIPE && rank->number == 0) || (total_of(facts) == 1 && !rank->signal);
    if (rank->signal)
        signalled(facts, rank, who, verdict);
    else
        problem_set(
            &verdict->report, verdict->exit_code, "AR-RANK-FAILED",
            facts->reader_is_gone && rank->number == 0 && alike == 1
                ? "nobody reads its output any more (the end of \"| head\"?), and this rank alone has noticed"
            : all  ? "the program says why above; does it also happen without accel-run?"
            : some ? "the program says why above; the others did not end so, in the time that all were given"
            : facts->host
                ? "no other rank is known to have failed before: does it also happen without accel-run? If not, does the program "
                  "depend on its process, time or place?" /* other hosts' ends come later, or never: all are ended */
                : "no other rank ended so, in the time that all were given: does the program depend on its process, time or place, or "
                  "is it a script, whose commands (mv, mkdir, a tool) run once for each rank?",
            "%s of '%s' ended with exit code %d%s%s", who, facts->program, rank->exit_code, *facts->where ? ", " : "", facts->where);
}

/* Of a script that has failed while the program that it had left in the background trained on; NULL: of none. What the user asks for ends scripts so. */
static const struct rank *find_outlived(const struct verdict_facts *facts) {
    for (uint32_t i = 0; i < facts->world_size && !facts->user_signal; i++)
        if (facts->ranks[i].has_ended && !facts->ranks[i].ended_by_us && code_of(&facts->ranks[i]))
            return &facts->ranks[i];
    return NULL;
}

/* Nobody failed by himself. After a user's stop some may have been killed by us, or be left behind. */
static int quiet_code(const struct verdict_facts *facts) {
    for (uint32_t i = 0; i < facts->world_size; i++) {
        int code = facts->ranks[i].has_ended ? code_of(&facts->ranks[i]) : EXIT_LAUNCHER;
        if (code)
            return facts->user_signal ? 128 + facts->user_signal : code;
    }
    return 0;
}

static uint32_t claimed_count(const struct verdict_facts *facts) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < facts->world_size; i++)
        count += facts->ranks[i].has_claimed;
    return count;
}

static void succeeded(const struct verdict_facts *facts, struct verdict *verdict) {
    uint32_t claimed = claimed_count(facts);
    verdict->exit_code = quiet_code(facts);
    verdict->is_silent = total_of(facts) == 1 || claimed == facts->world_size || verdict->exit_code;
    if (!verdict->exit_code && facts->lost_bytes) {
        verdict->exit_code = EXIT_LAUNCHER;
        verdict->is_silent = false;
        problem_set(&verdict->report, EXIT_LAUNCHER, "AR-OUTPUT", "make room, or raise 'ulimit -f', and run again",
                    "the program ended well, but %llu bytes of its output could not be written", (unsigned long long)facts->lost_bytes);
    } else if (!claimed)
        problem_set(
            &verdict->report, 0, "AR-NO-TRAINING",
            "accel-run divides programs that train with libtorch; start this one without it. If it does train, something on the way "
            "has cleared LD_PRELOAD ('env -i')",
            "%u copies of this program ran, none used libtorch with accel-run's library in it: nothing was divided", facts->world_size);
    else
        problem_set(&verdict->report, 0, "AR-RANK-UNCLAIMED", "does the program train on some ranks only?",
                    "%u of %u ranks used libtorch: the others ran as plain copies", claimed, facts->world_size);
}

void verdict_find(const struct verdict_facts *facts, struct verdict *verdict) {
    memset(verdict, 0, sizeof *verdict);
    if (facts->problem->exit_code) {
        verdict->exit_code = facts->problem->exit_code;
        verdict->is_silent = true; /* said when it happened */
        return;
    }
    const struct rank *rank = facts->first_failed >= 0 ? &facts->ranks[facts->first_failed] : find_outlived(facts);
    if (rank)
        failed(facts, rank, verdict);
    else
        succeeded(facts, verdict);
}
