#define _GNU_SOURCE
#include "menu.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

enum { ESCAPE_MS = 100, COLUMNS_MIN = 9 };
enum key { KEY_OTHER, KEY_UP, KEY_DOWN, KEY_LEFT, KEY_ENTER, KEY_END, KEY_AGAIN };

/* ---- the terminal's settings. Static, because a signal's handler has nothing else. */

static const int fatal[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
enum { FATAL = sizeof fatal / sizeof *fatal };
static struct termios found, raw;
static struct sigaction fatal_before[FATAL], stop_before;
static sigset_t mask_before;

static void handle_with(int number, void (*handler)(int), struct sigaction *before) {
    struct sigaction action = {.sa_handler = handler};
    sigemptyset(&action.sa_mask);
    sigaction(number, NULL, before);
    if (before->sa_handler != SIG_IGN)
        sigaction(number, &action, NULL);
}

/* Does what the signal does when nobody handles it, now. */
static void raise_plainly(int number) {
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, number);
    sigemptyset(&plain.sa_mask);
    sigaction(number, &plain, NULL);
    raise(number);
    sigprocmask(SIG_UNBLOCK, &one, NULL);
}

/* What comes next, the shell's prompt, begins a line. */
static void leave_in_handler(void) {
    ssize_t written = write(STDOUT_FILENO, "\n", 1);
    tcsetattr(STDIN_FILENO, TCSANOW, &found);
    (void)written;
}

static void on_fatal(int number) {
    leave_in_handler();
    raise_plainly(number);
}

static void on_stop(int number) {
    int error = errno;
    struct sigaction again = {.sa_handler = on_stop};
    leave_in_handler();
    raise_plainly(number); /* stands still here until somebody goes on with us */
    sigemptyset(&again.sa_mask);
    sigaction(number, &again, NULL);
    tcgetattr(STDIN_FILENO, &found);
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    errno = error;
}

/* Signals stay: Ctrl-C is one. Ctrl-Z waits until we wait for a key, so that the list is shown anew afterwards. */
static int take_terminal(void) {
    sigset_t stop;
    if (tcgetattr(STDIN_FILENO, &found))
        return -1;
    raw = found;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    for (int i = 0; i < FATAL; i++)
        handle_with(fatal[i], on_fatal, &fatal_before[i]);
    handle_with(SIGTSTP, on_stop, &stop_before);
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    sigprocmask(SIG_BLOCK, &stop, &mask_before);
    return tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
}

static void give_terminal(void) {
    tcsetattr(STDIN_FILENO, TCSADRAIN, &found);
    for (int i = 0; i < FATAL; i++)
        sigaction(fatal[i], &fatal_before[i], NULL);
    sigaction(SIGTSTP, &stop_before, NULL);
    sigprocmask(SIG_SETMASK, &mask_before, NULL);
}

/* ---- keys */

/* The rest of an arrow key's bytes follows at once; after the key Escape nothing does. */
static int next_byte(void) {
    struct pollfd ready = {STDIN_FILENO, POLLIN, 0};
    unsigned char byte;
    return poll(&ready, 1, ESCAPE_MS) == 1 && read(STDIN_FILENO, &byte, 1) == 1 ? byte : -1;
}

static enum key arrow(void) {
    int kind = next_byte();
    int letter = kind == '[' || kind == 'O' ? next_byte() : -1;
    while (letter >= '0' && letter <= '?') /* numbers in it: a key with Shift and the like, or another key */
        letter = next_byte();
    return letter == 'A' ? KEY_UP : letter == 'B' ? KEY_DOWN : letter == 'D' ? KEY_LEFT : KEY_OTHER;
}

/* *sign: the character, of KEY_OTHER. */
static enum key read_key(char *sign) {
    struct pollfd ready = {STDIN_FILENO, POLLIN, 0};
    if (ppoll(&ready, 1, NULL, &mask_before) < 0)
        return errno == EINTR ? KEY_AGAIN : KEY_END;
    ssize_t n = read(STDIN_FILENO, sign, 1);
    if (n <= 0 || *sign == 4) /* Ctrl-D */
        return KEY_END;
    if (*sign == '\n' || *sign == '\r')
        return KEY_ENTER;
    return *sign == 27 ? arrow() : KEY_OTHER;
}

/* ---- the list */

/* A line longer than the terminal is wide would take two, and the way up would be wrong. */
static void draw(const char *const *choices, int count, int chosen) {
    struct winsize size;
    int columns = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
    columns = columns < COLUMNS_MIN ? COLUMNS_MIN : columns;
    const char *hint =
        columns > 60 ? "Arrow keys or a number, then Enter; b goes back, ? tells more" : "Arrow keys or a number, then Enter; b goes back";
    for (int i = 0; i < count; i++)
        printf("\r\033[K%s %d  %.*s\n", i == chosen ? ">" : " ", i + 1, columns - 8, choices[i]);
    printf("\r\033[K%.*s", columns - 1, hint);
    fflush(stdout);
}

static int moved(enum key key, char sign, int chosen, int count) {
    if (key == KEY_UP || (key == KEY_OTHER && sign == 'k'))
        return (chosen + count - 1) % count;
    if (key == KEY_DOWN || (key == KEY_OTHER && sign == 'j'))
        return (chosen + 1) % count;
    return key == KEY_OTHER && sign >= '1' && sign < '1' + count ? sign - '1' : chosen;
}

static int answer(const char *const *choices, int count, int chosen) {
    for (;;) {
        char sign = 0;
        draw(choices, count, chosen);
        enum key key = read_key(&sign);
        if (key == KEY_ENTER)
            return chosen;
        if (key == KEY_END)
            return MENU_END;
        if (key == KEY_LEFT || (key == KEY_OTHER && sign == 'b'))
            return MENU_BACK;
        if (key == KEY_OTHER && sign == '?')
            return MENU_MORE;
        chosen = moved(key, sign, chosen, count);
        if (key != KEY_AGAIN) /* else the shell has written here since */
            printf("\033[%dA", count);
    }
}

int menu_is_possible(const char *term) {
    return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

int menu_choose(const char *question, const char *const *choices, int chosen) {
    int count = 0;
    while (choices[count])
        count++;
    printf("%s\n", question);
    fflush(stdout);
    if (take_terminal())
        return MENU_END;
    int chosen_now = answer(choices, count, chosen);
    give_terminal();
    printf("\n");
    return chosen_now;
}
