/*
 * The smallest test harness: one program per file, TEST("what a user would see") { ... EXPECT(condition); }, main at the end runs all.
 * Each test runs in its own process, so that one that crashes or hangs fails alone.
 */
#ifndef ACCEL_TESTS_UNIT_H
#define ACCEL_TESTS_UNIT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct unit_test {
    const char *name;
    void (*run)(void);
};

#define UNIT_MAX 256
static struct unit_test unit_tests[UNIT_MAX];
static int unit_count;
static int unit_failures;

#define UNIT_JOIN2(a, b) a##b
#define UNIT_JOIN(a, b) UNIT_JOIN2(a, b)
#define TEST(text)                                                                                                                         \
    static void UNIT_JOIN(unit_body_, __LINE__)(void);                                                                                     \
    __attribute__((constructor)) static void UNIT_JOIN(unit_add_, __LINE__)(void) {                                                        \
        unit_tests[unit_count++] = (struct unit_test){text, UNIT_JOIN(unit_body_, __LINE__)};                                              \
    }                                                                                                                                      \
    static void UNIT_JOIN(unit_body_, __LINE__)(void)

#define EXPECT(condition)                                                                                                                  \
    do {                                                                                                                                   \
        if (!(condition)) {                                                                                                                \
            printf("    %s:%d: expected %s\n", __FILE__, __LINE__, #condition);                                                            \
            unit_failures++;                                                                                                               \
        }                                                                                                                                  \
    } while (0)

#define EXPECT_TEXT(actual, expected)                                                                                                      \
    do {                                                                                                                                   \
        const char *unit_actual = (actual), *unit_expected = (expected);                                                                   \
        if (!unit_actual || strcmp(unit_actual, unit_expected)) {                                                                          \
            printf("    %s:%d: expected \"%s\", got \"%s\"\n", __FILE__, __LINE__, unit_expected, unit_actual ? unit_actual : "(null)");   \
            unit_failures++;                                                                                                               \
        }                                                                                                                                  \
    } while (0)

int main(void) {
    int failed = 0;
    for (int i = 0; i < unit_count; i++) {
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            alarm(60);
            unit_tests[i].run();
            fflush(stdout);
            exit(unit_failures ? 1 : 0); /* exit, not _exit: LeakSanitizer looks then */
        }
        int status = 0;
        waitpid(pid, &status, 0);
        int ok = WIFEXITED(status) && WEXITSTATUS(status) == 0;
        failed += !ok;
        printf("%s %s\n", ok ? "ok  " : "FAIL", unit_tests[i].name);
    }
    printf("%d passed, %d failed\n", unit_count - failed, failed);
    return failed ? 1 : 0;
}

#endif
