#include "json.h"

#include <string.h>

/* Bytes of the UTF-8 character that begins here; 0: none does. */
static int character_bytes(const unsigned char *text) {
    int bytes = text[0] < 0x80                      ? 1
                : text[0] >= 0xc2 && text[0] < 0xe0 ? 2
                : (text[0] & 0xf0) == 0xe0          ? 3
                : text[0] >= 0xf0 && text[0] < 0xf5 ? 4
                                                    : 0;
    for (int i = 1; i < bytes; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    return bytes;
}

static void write_character(FILE *out, const unsigned char *text, int bytes) {
    static const char escaped[] = "\"\\\n\t\r", letters[] = "\"\\ntr";
    const char *found = strchr(escaped, text[0]);
    if (bytes == 0)
        fputs("\\ufffd", out);
    else if (found)
        fprintf(out, "\\%c", letters[found - escaped]);
    else if (text[0] < 0x20)
        fprintf(out, "\\u%04x", text[0]);
    else
        fwrite(text, 1, (size_t)bytes, out);
}

void json_string(FILE *out, const char *text) {
    fputc('"', out);
    for (const unsigned char *at = (const unsigned char *)text; *at;) {
        int bytes = character_bytes(at);
        write_character(out, at, bytes);
        at += bytes ? bytes : 1;
    }
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
