#include "compare.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define NUMBER_CHARS 63
#define ADDRESS_DIGITS 9 /* more than 4 GiB: where a process has its stack, its heap and its libraries, which differs on each rank */

struct text {
    const char *begin, *at, *end;
    char before;                                                 /* the character just read, 0 at the beginning */
    enum { NO_AVERAGE = 0, AFTER_TIME, AVERAGE_BEGINS } average; /* of a time, which follows it: "Time 0.31 (0.29)" */
};

struct number {
    double value;
    int decimals;     /* printed digits after the point; 0 with an exponent */
    bool is_fraction; /* has a point or an exponent */
    bool is_time;
};

static bool is_digit_at(const struct text *text, size_t offset) {
    return text->at + offset < text->end && isdigit((unsigned char)text->at[offset]);
}

/* A number begins here, and not inside a word such as "conv2d" or "0x1f". */
static bool number_begins(const struct text *text) {
    if (isalnum((unsigned char)text->before) || text->before == '_')
        return false;
    size_t sign = text->at < text->end && (*text->at == '-' || *text->at == '+');
    return is_digit_at(text, sign) || (text->at + sign < text->end && text->at[sign] == '.' && is_digit_at(text, sign + 1));
}

static bool ends_word(const char *at, const char *end) {
    return at == end || !(isalnum((unsigned char)*at) || *at == '/');
}

/* "sec/batch", "s/epoch": a time for one of what a training counts. Behind the unit of time. */
static bool is_for_one(const char *at, const char *end) {
    static const char *const counted[] = {"/batch", "/step", "/iter", "/iteration", "/epoch", "/it", "/sample", "/image", "/token"};
    for (size_t i = 0; i < sizeof(counted) / sizeof(*counted); i++) {
        size_t n = strlen(counted[i]);
        if ((size_t)(end - at) >= n && !memcmp(at, counted[i], n) && ends_word(at + n, end))
            return true;
    }
    return false;
}

/* "it/s", "tok/s", "samples/sec", "/s": so much a second, of anything. */
static bool is_rate(const char *at, const char *end) {
    while (at < end && isalpha((unsigned char)*at))
        at++;
    static const char *const ends[] = {"/s", "/sec", "/second"};
    for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
        size_t n = strlen(ends[i]);
        if ((size_t)(end - at) >= n && !memcmp(at, ends[i], n) && ends_word(at + n, end))
            return true;
    }
    return false;
}

static bool unit_follows(const struct text *text) {
    static const char *const units[] = {"seconds", "second", "minutes", "minute", "secs", "sec", "mins", "min",
                                        "ms",      "us",     "ns",      "s",      "m",    "h",   "fps"};
    const char *at = text->at;
    while (at < text->end && *at == ' ')
        at++;
    if (is_rate(at, text->end))
        return true;
    for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
        size_t n = strlen(units[i]);
        if ((size_t)(text->end - at) >= n && !strncasecmp(at, units[i], n) &&
            (ends_word(at + n, text->end) || is_for_one(at + n, text->end)))
            return true;
    }
    return false;
}

/* What is read by its name: "'train_runtime': '2.05'", "epoch time 1.3", "samples_per_second=310.2", "ms/batch 5.31". number: where it begins. */
static bool is_named(const struct text *text, const char *end, const char *const *names) {
    for (; *names; names++) {
        size_t n = strlen(*names);
        const char *begin = end - n;
        if ((size_t)(end - text->begin) >= n && !strncasecmp(begin, *names, n) &&
            (begin == text->begin || *begin == '/' || !isalnum((unsigned char)begin[-1])))
            return true;
    }
    return false;
}

/* is_fraction: "Data 0.012 (0.030)", the time that loading took (PyTorch's ImageNet example, torchvision, timm), is one; "data 5" counts. */
static bool name_is_time(const struct text *text, const char *number, bool is_fraction) {
    static const char *const names[] = {"time",       "runtime",    "walltime",   "seconds",    "secs", "sec",
                                        "elapsed",    "duration",   "latency",    "speed",      "fps",  "ms/batch",
                                        "throughput", "ms/step",    "sec/step",   "it/s",       "/s",   "/sec",
                                        "per_second", "per second", "sps",        "wps",        "ups",  "mfu",
                                        "time/iter",  "time/step",  "time/batch", "time/epoch", NULL},
                             *const of_fractions[] = {"data", "took", "wall", NULL};
    const char *end = number;
    while (end > text->begin && (isspace((unsigned char)end[-1]) || strchr("'\":=([|", end[-1])))
        end--;
    if (end == number)
        return false;
    const char *bracket = end - 3 >= text->begin && !memcmp(end - 3, "(s)", 3) ? end - 3 : end; /* "Time(s) 0.0123" */
    return is_named(text, bracket, names) || (is_fraction && is_named(text, end, of_fractions));
}

/* "12:01" and ":01": hours, minutes, seconds; ":01.038", too. whole: its digits before the point. */
static bool clock_touches(ptrdiff_t whole, const struct text *text, char before) {
    return (whole <= 2 && text->at < text->end && *text->at == ':' && is_digit_at(text, 1)) || (before == ':' && whole == 2);
}

/* Python's logging writes ":01,038". */
static void pass_milliseconds(struct text *text) {
    size_t digits = 0;
    while (text->at < text->end && *text->at == ',' && is_digit_at(text, 1 + digits))
        digits++;
    text->at += digits == 3 ? 1 + digits : 0;
}

static struct number read_number(struct text *text) {
    struct number number = {0, 0, false, false};
    const char *begin = text->at;
    char digits[NUMBER_CHARS + 1], before = text->before;
    text->at += *text->at == '-' || *text->at == '+';
    while (is_digit_at(text, 0))
        text->at++;
    ptrdiff_t whole = text->at - begin;
    if (text->at < text->end && *text->at == '.' && (is_digit_at(text, 1) || text->at > begin)) {
        const char *point = text->at++;
        while (is_digit_at(text, 0))
            text->at++;
        number.decimals = (int)(text->at - point) - 1;
        number.is_fraction = number.decimals > 0;
    }
    if (text->at < text->end && (*text->at == 'e' || *text->at == 'E')) {
        size_t sign = text->at + 1 < text->end && (text->at[1] == '-' || text->at[1] == '+');
        if (is_digit_at(text, 1 + sign)) {
            for (text->at += 1 + sign; is_digit_at(text, 0);)
                text->at++;
            number.is_fraction = true;
            number.decimals = 0;
        }
    }
    size_t n = (size_t)(text->at - begin) < NUMBER_CHARS ? (size_t)(text->at - begin) : NUMBER_CHARS;
    memcpy(digits, begin, n);
    digits[n] = 0;
    number.value = strtod(digits, NULL);
    bool is_clock = clock_touches(whole, text, before);
    if (is_clock && before == ':')
        pass_milliseconds(text);
    number.is_time = name_is_time(text, begin, number.is_fraction) || unit_follows(text);
    bool is_average = text->average == AVERAGE_BEGINS;
    text->before = '0';
    text->average = number.is_time ? AFTER_TIME : NO_AVERAGE;
    number.is_time = number.is_time || is_clock || is_average;
    return number;
}

static double magnitude(double value) {
    return value < 0 ? -value : value;
}

static bool numbers_agree(const struct number *a, const struct number *b) {
    if (a->is_time && b->is_time)
        return true;
    if (!a->is_fraction && !b->is_fraction)
        return a->value == b->value;
    double difference = magnitude(a->value - b->value);
    if (difference <= 1e-3 * magnitude(a->value) || difference <= 1e-3 * magnitude(b->value))
        return true;
    double last_place = 1.01;
    for (int i = 0; i < a->decimals; i++)
        last_place /= 10;
    return a->decimals >= 3 && a->decimals == b->decimals && difference <= last_place;
}

/* Passes white space; says whether there was some. */
static bool pass_space(struct text *text) {
    const char *begin = text->at;
    while (text->at < text->end && isspace((unsigned char)*text->at))
        text->at++;
    if (text->at > begin)
        text->before = ' ';
    return text->at > begin;
}

/* How long the address in memory ("0x7f53e7245305") is that begins here; 0: none does. */
static size_t address_length(const struct text *text) {
    size_t n = 2, left = (size_t)(text->end - text->at);
    if (left < 2 || text->at[0] != '0' || text->at[1] != 'x')
        return 0;
    while (n < left && isxdigit((unsigned char)text->at[n]))
        n++;
    return n - 2 >= ADDRESS_DIGITS ? n : 0;
}

static bool pass_address(struct text *text) {
    size_t length = address_length(text);
    text->at += length;
    text->before = length ? '0' : text->before;
    return length;
}

static bool next_agrees(struct text *a, struct text *b) {
    if (pass_space(a) != pass_space(b))
        return a->at == a->end && b->at == b->end; /* space at the end of one line only */
    if (a->at == a->end || b->at == b->end)
        return a->at == a->end && b->at == b->end;
    if (address_length(a) && address_length(b))
        return pass_address(a) && pass_address(b);
    if (number_begins(a) && number_begins(b)) {
        struct number first = read_number(a), second = read_number(b);
        return numbers_agree(&first, &second);
    }
    if (*a->at != *b->at)
        return false;
    bool begins = a->average == AFTER_TIME && b->average == AFTER_TIME && *a->at == '(';
    a->average = b->average = begins ? AVERAGE_BEGINS : NO_AVERAGE;
    a->before = *a->at++;
    b->before = *b->at++;
    return true;
}

bool compare_lines(const char *a, size_t a_bytes, const char *b, size_t b_bytes) {
    if (a_bytes == b_bytes && !memcmp(a, b, a_bytes))
        return true;
    struct text first = {a, a, a + a_bytes, 0, NO_AVERAGE}, second = {b, b, b + b_bytes, 0, NO_AVERAGE};
    /* Leading space is not held against a line. */
    pass_space(&first);
    pass_space(&second);
    while (first.at < first.end || second.at < second.end)
        if (!next_agrees(&first, &second))
            return false;
    return true;
}
