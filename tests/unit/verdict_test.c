// sources: launcher/verdict.c launcher/problem.c
#include "unit.h"

#include <signal.h>

#include "../../launcher/verdict.h"

static struct problem none;
static struct verdict verdict;
static struct verdict_facts facts;

static void find(struct rank *ranks, uint32_t count, int first_failed) {
    for (uint32_t i = 0; i < count; i++) {
        ranks[i].number = i;
        ranks[i].has_ended = true;
    }
    facts.ranks = ranks;
    facts.world_size = count;
    facts.first_failed = first_failed;
    facts.program = "./train";
    if (!facts.problem)
        facts.problem = &none;
    if (!facts.where)
        facts.where = "";
    verdict_find(&facts, &verdict);
}
#define RANKS(...) ((struct rank[]){__VA_ARGS__})

TEST("success is silent when all trained") {
    find(RANKS({.has_claimed = true}, {.has_claimed = true}), 2, -1);
    EXPECT(verdict.exit_code == 0 && verdict.is_silent);
}

TEST("nobody trained: a warning, exit code kept") {
    find(RANKS({0}, {0}), 2, -1);
    EXPECT(verdict.exit_code == 0 && !verdict.is_silent);
    EXPECT_TEXT(verdict.report.id, "AR-NO-TRAINING");
    find(RANKS({0}), 1, -1);
    EXPECT(verdict.is_silent);
    find(RANKS({.has_claimed = true}, {0}), 2, -1);
    EXPECT_TEXT(verdict.report.id, "AR-RANK-UNCLAIMED");
}

TEST("the first failing rank decides; those we ended do not count") {
    find(RANKS({.exit_code = 0, .signal = SIGTERM, .ended_by_us = true}, {.exit_code = 7}), 2, 1);
    EXPECT(verdict.exit_code == 7 && !verdict.is_silent && verdict.show_tail);
    EXPECT_TEXT(verdict.report.id, "AR-RANK-FAILED");
    EXPECT(strstr(verdict.report.what, "rank 1 of 2") != NULL);
}

TEST("all failed alike") {
    find(RANKS({.exit_code = 2}, {.exit_code = 2}), 2, 1);
    EXPECT(verdict.exit_code == 2 && !verdict.show_tail);
    EXPECT(strstr(verdict.report.what, "every one of 2 ranks") != NULL);
}

TEST("a script that fails behind the back of the program that it has left is named, unless the user has asked") {
    find(RANKS({.has_claimed = true}, {.has_claimed = true, .exit_code = 3}), 2, -1);
    EXPECT(verdict.exit_code == 3 && !verdict.is_silent && verdict.failed == 1 && verdict.show_tail);
    EXPECT(strstr(verdict.report.what, "rank 1 of 2") && strstr(verdict.report.what, "exit code 3"));
    facts.user_signal = SIGTERM;
    find(RANKS({.has_claimed = true, .signal = SIGTERM}, {.has_claimed = true}), 2, -1);
    EXPECT(verdict.exit_code == 143 && verdict.is_silent);
    facts.user_signal = 0;
}

TEST("several failed alike, and one did not: the first is not said to be the only one") {
    find(RANKS({.signal = SIGTERM, .ended_by_us = true}, {.exit_code = 7}, {.exit_code = 7}), 3, 1);
    EXPECT(verdict.exit_code == 7 && verdict.show_tail);
    EXPECT(strstr(verdict.report.what, "2 of 3 ranks of './train' ended with exit code 7") != NULL);
    EXPECT(strstr(verdict.report.cure, "no other rank") == NULL);
    find(RANKS({.exit_code = 7, .ended_by_us = true}, {.exit_code = 7}, {.exit_code = 6}), 3, 1);
    EXPECT(strstr(verdict.report.what, "rank 1 of 3") && strstr(verdict.report.cure, "no other rank ended so"));
}

TEST("signals are 128 + signal, in words, with the place and memory") {
    facts.where = "in the backward pass, step 3";
    find(RANKS({.signal = SIGSEGV}, {.signal = SIGKILL, .ended_by_us = true}), 2, 0);
    EXPECT(verdict.exit_code == 139 && !verdict.show_tail);
    EXPECT(strstr(verdict.report.what, "SIGSEGV (invalid memory access), in the backward pass, step 3") != NULL);
    facts.out_of_memory = true;
    find(RANKS({.signal = SIGKILL}, {0}), 2, 0);
    EXPECT(verdict.exit_code == 137);
    EXPECT_TEXT(verdict.report.id, "AR-RANK-MEMORY");
}

TEST("no signal's words are cut off") {
    char text[VERDICT_SIGNAL_CHARS];
    for (int signal = 1; signal < 65; signal++) {
        const char *words = verdict_signal_words(signal, text);
        EXPECT(strlen(words) < VERDICT_SIGNAL_CHARS - 1);
        EXPECT(!strchr(words, '(') || words[strlen(words) - 1] == ')');
    }
}

TEST("what the user did is not explained to him") {
    facts.user_signal = SIGINT;
    find(RANKS({.signal = SIGINT}, {.signal = SIGINT}), 2, 0);
    EXPECT(verdict.exit_code == 130 && verdict.is_silent);
    find(RANKS({.exit_code = 130}, {.exit_code = 130}), 2, 0);
    EXPECT(verdict.is_silent);
    find(RANKS({.signal = SIGKILL, .ended_by_us = true}, {.signal = SIGKILL, .ended_by_us = true}), 2, -1);
    EXPECT(verdict.exit_code == 130);
}

TEST("a run whose ranks cannot be ended has not ended well") {
    struct rank ranks[2] = {{.has_claimed = true}, {.has_claimed = true}};
    find(ranks, 2, -1);
    EXPECT(verdict.exit_code == 0);
    ranks[1].has_ended = false;
    verdict_find(&facts, &verdict);
    EXPECT(verdict.exit_code == 125);
    facts.user_signal = SIGINT;
    verdict_find(&facts, &verdict);
    EXPECT(verdict.exit_code == 130);
}

TEST("one rank's exit code, and a broken pipe, are silent as alone") {
    find(RANKS({.exit_code = 3}), 1, 0);
    EXPECT(verdict.exit_code == 3 && verdict.is_silent);
    find(RANKS({.signal = SIGPIPE}, {.signal = SIGTERM, .ended_by_us = true}), 2, 0);
    EXPECT(verdict.exit_code == 141 && verdict.is_silent);
}

TEST("rank 0 that fails where nobody reads its output is not asked why the others did not") {
    facts.reader_is_gone = true;
    find(RANKS({.exit_code = 1}, {.number = 1, .signal = SIGTERM, .ended_by_us = true}), 2, 0);
    EXPECT(verdict.exit_code == 1 && strstr(verdict.report.cure, "nobody reads its output"));
    find(RANKS({.signal = SIGTERM, .ended_by_us = true}, {.number = 1, .exit_code = 1}), 2, 1);
    EXPECT(strstr(verdict.report.cure, "no other rank ended so"));
    find(RANKS({.exit_code = 1}, {.exit_code = 1}, {.signal = SIGTERM, .ended_by_us = true}), 3, 0);
    EXPECT(strstr(verdict.report.what, "2 of 3 ranks") && !strstr(verdict.report.cure, "nobody reads its output"));
    facts.reader_is_gone = false;
}

TEST("a problem is 125 and was said already") {
    struct problem problem;
    problem_set(&problem, 125, "AR-X", "cure", "what");
    facts.problem = &problem;
    find(RANKS({.signal = SIGTERM}, {.exit_code = 1}), 2, 1);
    EXPECT(verdict.exit_code == 125 && verdict.is_silent);
}
