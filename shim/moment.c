#include "moment.h"

#include <stdbool.h>
#include <string.h>
#include <time.h>

#define DIGITS "0123456789"

enum { MARK = '\1', NEAR_DAYS = 2, DAY = 24 * 3600 };

/* The first `length` characters, all digits and fewer than 20. */
static long long number_of(const char *digits, size_t length) {
    long long number = 0;
    for (size_t i = 0; i < length; i++)
        number = number * 10 + (digits[i] - '0');
    return number;
}

static long long started;

__attribute__((constructor)) static void moment_start(void) {
    started = (long long)time(NULL);
}

long long moment_of_start(void) {
    return started;
}

/* From the start on: a job that names its run by when it has begun hands that name to its threads for as long as it runs. */
static bool is_near(long long seconds, const struct moment *moment) {
    long long near = (long long)NEAR_DAYS * DAY, first = moment->start < moment->now ? moment->start : moment->now;
    return seconds > first - near && seconds < moment->now + near;
}

/* Since 1970-01-01, of the proleptic Gregorian calendar (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", days_from_civil). */
static long long days_of(long long year, long long month, long long day) {
    year -= month <= 2;
    long long era = year / 400, year_of_era = year - era * 400;
    long long day_of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719468;
}

static bool is_date(const char *year, const char *month, const char *day, const struct moment *moment) {
    return is_near(days_of(number_of(year, 4), number_of(month, 2), number_of(day, 2)) * DAY, moment);
}

static size_t digits_at(const char *text) {
    return strspn(text, DIGITS);
}

/* A separator and then two digits, no more. */
static bool has_pair(const char *text, const char *separators) {
    return *text && strchr(separators, *text) && digits_at(text + 1) == 2;
}

static bool is_of_clock(const char *hours) {
    return number_of(hours, 2) < 24 && number_of(hours + 2, 2) < 60;
}

/* YYYYMMDD, YYYYMMDDHHMM, YYYYMMDDHHMMSS, YYYY-MM-DD. The length, or 0. */
static size_t date_at(const char *text, const struct moment *moment) {
    size_t digits = digits_at(text);
    if (digits == 12 && !is_of_clock(text + 8)) /* a number of twelve digits that begins with the day */
        return 0;
    if (digits == 8 || digits == 12 || digits == 14)
        return is_date(text, text + 4, text + 6, moment) ? digits : 0;
    bool is_parted = digits == 4 && has_pair(text + 4, "-_.") && has_pair(text + 7, "-_.");
    return is_parted && is_date(text, text + 5, text + 8, moment) ? 10 : 0;
}

/* Or the one beside it, early on January 1 and late on December 31. Not by gmtime_r, which reads a file at its first call: hooks/seed asks before main(). */
static long long year_of(long long seconds) {
    enum { MEAN_YEAR = 31556952 };
    return 1970 + seconds / MEAN_YEAR;
}

/* Nov29, as in Nov29_12-00-00 (torch.utils.tensorboard's default folder), of a day that is near: 2; else 0. */
static size_t day_behind_month(const char *begin, const char *text, const struct moment *moment) {
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    long long first = year_of(moment->start) - 1, last = year_of(moment->now) + 1;
    if (text - begin < 3 || digits_at(text) != 2)
        return 0;
    for (int month = 0; month < 12; month++)
        for (long long year = first; year <= last; year++)
            if (!strncmp(text - 3, months + 3 * month, 3) && is_near(days_of(year, month + 1, number_of(text, 2)) * DAY, moment))
                return 2;
    return 0;
}

/* What follows the seconds in str(time.time()); a run number, as in events.out.tfevents.SECONDS.HOST.PROCESS.1, is shorter. */
static size_t fraction_at(const char *text) {
    enum { FRACTION_DIGITS = 4 };
    size_t digits = *text == '.' ? digits_at(text + 1) : 0;
    return digits >= FRACTION_DIGITS ? 1 + digits : 0;
}

/* HHMMSS, or HH-MM or HH-MM-SS, behind a date and what separates it. In a folder of the day's (2026-11-24/13-17-02, Hydra's) only what can be nothing else than
   a time; four digits behind anything but T are most often a part's or an epoch's number (ckpt-20261124_0007.pt). */
static size_t time_behind_date(const char *text) {
    if (!*text || !strchr("-_T ./", *text))
        return 0;
    const char *time = text + 1;
    size_t digits = digits_at(time), length = 0;
    if (digits == 2 && has_pair(time + 2, "-_:."))
        length = has_pair(time + 5, "-_:.") ? 8 : 5;
    else if (digits == 6 || (digits == 4 && *text == 'T' && is_of_clock(time)))
        length = digits;
    if (!length || (*text == '/' && length != 8))
        return 0;
    return 1 + length + fraction_at(time + length);
}

static bool is_process(long long number, const struct moment *moment) {
    size_t i = 0;
    while (i < moment->count && moment->processes[i] != number)
        i++;
    return number && i < moment->count;
}

/* How many characters from the beginning of these digits on are of the moment or the process. */
static size_t length_at(const char *begin, const char *text, const struct moment *moment) {
    enum { SECONDS_DIGITS = 10, NANOSECONDS_DIGITS = 19 };
    size_t digits = digits_at(text), date = date_at(text, moment);
    if (date)
        return date + time_behind_date(text + date);
    size_t day = day_behind_month(begin, text, moment), time = day ? time_behind_date(text + day) : 0;
    if (time)
        return day + time;
    if (digits < SECONDS_DIGITS)
        return is_process(number_of(text, digits), moment) ? digits : 0;
    if (digits > NANOSECONDS_DIGITS || !is_near(number_of(text, SECONDS_DIGITS), moment))
        return 0;
    return digits + (digits == SECONDS_DIGITS ? fraction_at(text + digits) : 0);
}

static bool is_of_word(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* How long the longest name of a host is that stands here as a word. */
static size_t host_at(const char *begin, const char *text, const struct moment *moment) {
    size_t longest = 0;
    for (size_t i = 0; i < moment->host_count && (text == begin || !is_of_word(text[-1])); i++) {
        size_t length = strlen(moment->hosts[i]);
        if (length > longest && !strncmp(text, moment->hosts[i], length) && !is_of_word(text[length]))
            longest = length;
    }
    return longest;
}

void moment_spell(const char *text, const struct moment *moment, char *out) {
    const char *begin = text;
    while (*text) {
        size_t host = host_at(begin, text, moment);
        if (host) {
            *out++ = MARK;
            text += host;
            continue;
        }
        size_t digits = digits_at(text), gone = digits ? length_at(begin, text, moment) : 0;
        if (gone) {
            *out++ = MARK;
            text += gone;
            continue;
        }
        do
            *out++ = *text++;
        while (digits-- > 1);
    }
    *out = 0;
}
