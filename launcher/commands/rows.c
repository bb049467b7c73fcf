#include "rows.h"

#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../config/protocol.h"

/* ---- the table */

static int by_symbol(const void *one, const void *other) {
    return strcmp((*(struct row *const *)one)->symbol, (*(struct row *const *)other)->symbol);
}

static enum row_need need_of(const char *word) {
    return !strcmp(word, "REQUIRED") ? ROW_REQUIRED : !strcmp(word, "VARIANT") ? ROW_VARIANT : ROW_OPTIONAL;
}

/* "name library need symbol", or "name library CALLED_need symbol other": other is NULL or in quotes. */
static void parse_line(struct rows *rows, char *line) {
    static const char called[] = "CALLED_";
    char *name = strsep(&line, " "), *library = strsep(&line, " "), *need = strsep(&line, " "), *symbol = strsep(&line, " ");
    if (!symbol)
        return;
    bool is_call = !strncmp(need, called, strlen(called));
    struct row row = {.name = name, .library = library, .symbol = symbol, .need = need_of(is_call ? need + strlen(called) : need)};
    row.is_call = is_call;
    rows->list[rows->count++] = row;
    if (!line || *line != '"')
        return;
    row.symbol = line + 1;
    line[strcspn(line + 1, "\"") + 1] = 0;
    rows->list[rows->count++] = row;
}

static int parse(struct rows *rows) {
    size_t lines = 1; /* the last one may have no end */
    for (const char *at = rows->text; *at; at++)
        lines += *at == '\n';
    rows->list = calloc(2 * lines, sizeof *rows->list);
    for (char *rest = rows->text, *line; rows->list && (line = strsep(&rest, "\n"));)
        parse_line(rows, line);
    rows->by_symbol = rows->count ? calloc((size_t)rows->count, sizeof(struct row *)) : NULL;
    for (int i = 0; rows->by_symbol && i < rows->count; i++)
        rows->by_symbol[i] = &rows->list[i];
    if (rows->by_symbol)
        qsort(rows->by_symbol, (size_t)rows->count, sizeof(struct row *), by_symbol);
    return rows->by_symbol ? 0 : -1;
}

static Elf_Scn *section_find(Elf *elf, const char *name) {
    size_t names;
    GElf_Shdr header;
    if (elf_getshdrstrndx(elf, &names))
        return NULL;
    for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section));) {
        const char *own = gelf_getshdr(section, &header) ? elf_strptr(elf, names, header.sh_name) : NULL;
        if (own && !strcmp(own, name))
            return section;
    }
    return NULL;
}

/* The section holds one text of each file that adds to it, with zero bytes between: as one text. Owned. */
static char *join(const char *bytes, size_t count) {
    char *text = malloc(count + 1);
    size_t used = 0;
    for (size_t i = 0; text && i < count; i++)
        if (bytes[i])
            text[used++] = bytes[i];
    if (text)
        text[used] = 0;
    return text;
}

int rows_read(struct rows *rows, const char *shim) {
    int descriptor = open(shim, O_RDONLY | O_CLOEXEC);
    memset(rows, 0, sizeof *rows);
    if (descriptor < 0)
        return -1;
    elf_version(EV_CURRENT);
    Elf *elf = elf_begin(descriptor, ELF_C_READ_MMAP, NULL);
    Elf_Scn *section = elf ? section_find(elf, PROTOCOL_ROWS_SECTION) : NULL;
    Elf_Data *data = section ? elf_rawdata(section, NULL) : NULL;
    rows->text = data && data->d_buf ? join(data->d_buf, data->d_size) : NULL;
    elf_end(elf);
    close(descriptor);
    return rows->text ? parse(rows) : -1;
}

void rows_clear(struct rows *rows) {
    free(rows->by_symbol);
    free(rows->list);
    free(rows->text);
    memset(rows, 0, sizeof *rows);
}

/* ---- looking at a file */

/* Functions that are called may be in either of two libraries: they moved. */
static bool is_of(const struct row *row, const char *library) {
    return !strcmp(row->library, library) ||
           (!strcmp(row->library, "libc10_or_cpu") && (!strcmp(library, "libc10") || !strcmp(library, "libtorch_cpu")));
}

struct look {
    struct rows *rows;
    const char *library;
    Elf *elf;
    Elf_Data *symbols;
    size_t names; /* section of the symbols' names */
    int count;
};

/* The first of the rows with the symbol, in rows->by_symbol; NULL: none. A function may be hooked and called. */
static struct row **row_find(const struct rows *rows, const char *symbol) {
    struct row key = {.symbol = symbol}, *wanted = &key;
    struct row **found = symbol ? bsearch(&wanted, rows->by_symbol, (size_t)rows->count, sizeof wanted, by_symbol) : NULL;
    while (found && found > rows->by_symbol && !strcmp(found[-1]->symbol, symbol))
        found--;
    return found;
}

static struct row **row_next(const struct rows *rows, struct row **row) {
    struct row **next = row + 1;
    return next < rows->by_symbol + rows->count && !strcmp((*next)->symbol, (*row)->symbol) ? next : NULL;
}

static void look_at_symbols(struct look *look) {
    GElf_Sym symbol;
    for (int i = 0; i < look->count; i++) {
        if (!gelf_getsym(look->symbols, i, &symbol) || symbol.st_shndx == SHN_UNDEF)
            continue;
        const char *name = elf_strptr(look->elf, look->names, symbol.st_name);
        for (struct row **row = row_find(look->rows, name); row; row = row_next(look->rows, row)) {
            if (!is_of(*row, look->library))
                continue;
            (*row)->is_present = true;
            (*row)->address = symbol.st_value;
        }
    }
}

static void look_at_reference(struct look *look, size_t index) {
    GElf_Sym symbol;
    if (!gelf_getsym(look->symbols, (int)index, &symbol))
        return;
    /* a protected symbol is bound to its own library, whoever refers to it from there */
    bool is_own = symbol.st_shndx != SHN_UNDEF && GELF_ST_VISIBILITY(symbol.st_other) == STV_PROTECTED;
    const char *name = elf_strptr(look->elf, look->names, symbol.st_name);
    for (struct row **row = row_find(look->rows, name); row; row = row_next(look->rows, row)) {
        if (is_own)
            (*row)->by_address = true;
        else
            (*row)->by_name = true;
    }
}

static int by_value(const void *one, const void *other) {
    uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return a < b ? -1 : a > b;
}

/* Addresses of the library's rows, in order; returns how many. */
static int list_addresses(const struct look *look, uint64_t *addresses) {
    int count = 0;
    for (int i = 0; i < look->rows->count; i++)
        if (look->rows->list[i].is_present && !strcmp(look->rows->list[i].library, look->library))
            addresses[count++] = look->rows->list[i].address;
    if (count)
        qsort(addresses, (size_t)count, sizeof *addresses, by_value);
    return count;
}

static void note_address(struct look *look, uint64_t address) {
    for (int i = 0; i < look->rows->count; i++)
        if (look->rows->list[i].address == address && !strcmp(look->rows->list[i].library, look->library))
            look->rows->list[i].by_address = true;
}

static void look_at_relocations(struct look *look, Elf_Scn *section, const GElf_Shdr *header) {
    uint64_t *addresses = malloc((size_t)look->rows->count * sizeof *addresses);
    uint8_t *seen = calloc((size_t)look->count + 1, 1);
    int known = addresses ? list_addresses(look, addresses) : 0;
    Elf_Data *data = elf_getdata(section, NULL);
    size_t count = data && seen && header->sh_entsize ? header->sh_size / header->sh_entsize : 0;
    for (size_t i = 0; i < count; i++) {
        GElf_Rela entry;
        if (!gelf_getrela(data, (int)i, &entry))
            continue;
        size_t index = GELF_R_SYM(entry.r_info);
        uint64_t address = (uint64_t)entry.r_addend;
        if (index && index < (size_t)look->count && !seen[index]) {
            seen[index] = 1;
            look_at_reference(look, index);
        } else if (!index && known && bsearch(&address, addresses, (size_t)known, sizeof address, by_value)) {
            note_address(look, address);
        }
    }
    free(addresses);
    free(seen);
}

static void look_at_elf(struct look *look) {
    GElf_Shdr header;
    for (Elf_Scn *section = NULL; (section = elf_nextscn(look->elf, section));)
        if (gelf_getshdr(section, &header) && header.sh_type == SHT_DYNSYM && header.sh_entsize) {
            look->symbols = elf_getdata(section, NULL);
            look->names = header.sh_link;
            look->count = look->symbols ? (int)(header.sh_size / header.sh_entsize) : 0;
        }
    look_at_symbols(look);
    for (Elf_Scn *section = NULL; (section = elf_nextscn(look->elf, section));)
        if (gelf_getshdr(section, &header) && header.sh_type == SHT_RELA)
            look_at_relocations(look, section, &header);
}

int rows_look(struct rows *rows, const char *path, const char *library) {
    struct look look = {.rows = rows, .library = library};
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return -1;
    elf_version(EV_CURRENT);
    look.elf = elf_begin(descriptor, ELF_C_READ_MMAP, NULL);
    bool is_elf = look.elf && elf_kind(look.elf) == ELF_K_ELF;
    if (is_elf)
        look_at_elf(&look);
    elf_end(look.elf);
    close(descriptor);
    return is_elf ? 0 : -1;
}

/* ---- the answers */

static bool is_spelling_of(const struct row *one, const struct row *other) {
    if (one->is_call || other->is_call)
        return one->is_call && other->is_call && !strcmp(one->name, other->name);
    const char *last = strrchr(one->name, '_');
    return one->need == ROW_VARIANT && other->need == ROW_VARIANT && last &&
           !strncmp(one->name, other->name, (size_t)(last - one->name) + 1);
}

bool rows_is_satisfied(const struct rows *rows, const struct row *row) {
    for (int i = 0; !row->is_present && i < rows->count; i++)
        if (rows->list[i].is_present && is_spelling_of(row, &rows->list[i]))
            return true;
    return row->is_present;
}

bool rows_is_bound(const struct rows *rows, const char *library) {
    for (int i = 0; i < rows->count; i++)
        if (rows->list[i].by_address && !strcmp(rows->list[i].library, library))
            return true;
    return false;
}

const char *rows_binding(const struct row *row) {
    return !row->is_present  ? "absent"
           : row->by_name    ? "by name"
           : row->by_address ? "by address (bound to itself)"
                             : "by other files only";
}
