#include "json.h"

#include <string.h>

#include "../../config/utf8.h"

/* Writes the character that text begins with. Returns its bytes. */
static int write_character(FILE *out, const char *text) {
    static const char escaped[] = "\"\\\n\t\r", letters[] = "\"\\ntr";
    const char *found = strchr(escaped, *text);
    uint32_t code;
    int bytes = utf8_character(text, &code);
    if (bytes == 0)
        fputs("\\ufffd", out);
    else if (found)
        fprintf(out, "\\%c", letters[found - escaped]);
    else if (code < 0x20)
        fprintf(out, "\\u%04x", code);
    else
        fwrite(text, 1, (size_t)bytes, out);
    return bytes ? bytes : 1;
}

void json_string(FILE *out, const char *text) {
    fputc('"', out);
    while (*text)
        text += write_character(out, text);
    fputc('"', out);
}

void json_member(FILE *out, int *count, const char *name) {
    fputs((*count)++ ? ",\n  " : "\n  ", out);
    json_string(out, name);
    fputs(": ", out);
}

void json_text(FILE *out, int *count, const char *name, const char *text) {
    json_member(out, count, name);
    json_string(out, text);
}
