#include "findings.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"

static const char *const states[] = {"PASS", "WARN", "FAIL"};

void findings_add(struct findings *findings, enum finding_state state, const char *check, const char *id, const char *cure,
                  const char *what, ...) {
    struct finding *list = realloc(findings->list, (size_t)(findings->count + 1) * sizeof *list);
    if (!list)
        return;
    findings->list = list;
    struct finding *finding = &list[findings->count++];
    *finding = (struct finding){.state = state, .check = check};
    snprintf(finding->id, sizeof finding->id, "%s", id);
    snprintf(finding->cure, sizeof finding->cure, "%s", cure);
    va_list arguments;
    va_start(arguments, what);
    vsnprintf(finding->what, sizeof finding->what, what, arguments);
    va_end(arguments);
}

int findings_count(const struct findings *findings, enum finding_state state) {
    int count = 0;
    for (int i = 0; i < findings->count; i++)
        count += findings->list[i].state == state;
    return count;
}

void findings_print(const struct findings *findings, FILE *out) {
    for (int i = 0; i < findings->count; i++) {
        const struct finding *finding = &findings->list[i];
        fprintf(out, "%s  %-12s %s%s%s\n", states[finding->state], finding->check, finding->id, *finding->id ? ": " : "", finding->what);
        if (*finding->cure)
            fprintf(out, "      %-12s what to do: %s\n", "", finding->cure);
    }
}

void findings_print_json(const struct findings *findings, FILE *out) {
    fputc('[', out);
    for (int i = 0; i < findings->count; i++) {
        const struct finding *finding = &findings->list[i];
        int members = 0;
        fputs(i ? ", {" : "{", out);
        json_text(out, &members, "state", states[finding->state]);
        json_text(out, &members, "check", finding->check);
        if (*finding->id)
            json_text(out, &members, "id", finding->id);
        json_text(out, &members, "what", finding->what);
        if (*finding->cure)
            json_text(out, &members, "cure", finding->cure);
        fputs("}", out);
    }
    fputc(']', out);
}

void findings_clear(struct findings *findings) {
    free(findings->list);
    *findings = (struct findings){NULL, 0};
}
