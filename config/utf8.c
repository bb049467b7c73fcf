#include "utf8.h"

int utf8_character(const char *text, uint32_t *code) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *byte = (const unsigned char *)text;
    int bytes = byte[0] < 0x80 ? 1 : byte[0] < 0xc0 ? 0 : byte[0] < 0xe0 ? 2 : byte[0] < 0xf0 ? 3 : byte[0] < 0xf8 ? 4 : 0;
    *code = bytes == 1 ? byte[0] : byte[0] & (0x7fu >> bytes);
    for (int i = 1; i < bytes; i++) {
        if ((byte[i] & 0xc0) != 0x80)
            return 0;
        *code = *code << 6 | (byte[i] & 0x3f);
    }
    bool is_surrogate = *code >= 0xd800 && *code < 0xe000;
    return *code < least[bytes] || is_surrogate || *code > 0x10ffff ? 0 : bytes;
}

bool utf8_is_text(const char *text) {
    uint32_t code;
    int bytes;
    for (; *text; text += bytes)
        if (!(bytes = utf8_character(text, &code)))
            return false;
    return true;
}
