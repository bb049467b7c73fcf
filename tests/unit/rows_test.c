// sources: launcher/commands/rows.c launcher/commands/libraries.c launcher/commands/capture.c
#define _GNU_SOURCE
#include "unit.h"

#include "../../launcher/commands/libraries.h"
#include "../../launcher/commands/rows.h"

static void compile(const char *source, const char *output, const char *flags) {
    char command[4096];
    snprintf(command, sizeof command, "printf '%%s\\n' '%s' | gcc -shared -fPIC %s -x c - -o %s", source, flags, output);
    EXPECT(system(command) == 0);
}

static char folder[] = "/tmp/accel-rows-XXXXXX", shim[64], library[64];

static void begin(void) {
    EXPECT(mkdtemp(folder) != NULL);
    snprintf(shim, sizeof shim, "%s/shim.so", folder);
    snprintf(library, sizeof library, "%s/libx.so", folder);
    compile("__attribute__((section(\".accel_run.rows\"), used)) static const char one[] = \"first libx REQUIRED own_called\\n"
            "second_a libx VARIANT spelling_a\\nsecond_b libx VARIANT spelling_b\\nthird libx OPTIONAL absent\\n\", "
            "two[] = \"moved libc10_or_cpu CALLED_REQUIRED gone \\\"own_called\\\"\\n\";",
            shim, "");
}

static void end(void) {
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    EXPECT(system(command) == 0);
}

static const struct row *named(const struct rows *rows, const char *name, const char *symbol) {
    for (int i = 0; i < rows->count; i++)
        if (!strcmp(rows->list[i].name, name) && !strcmp(rows->list[i].symbol, symbol))
            return &rows->list[i];
    return NULL;
}

#define SOURCE "void own_called(void) {} void spelling_b(void) {} void *table[] = {(void *)own_called}; void run(void) { own_called(); }"

TEST("rows are read from the library's own section, and looked up in another one") {
    struct rows rows;
    begin();
    compile(SOURCE, library, "-O0");
    EXPECT(rows_read(&rows, shim) == 0 && rows.count == 6);
    EXPECT(rows_look(&rows, library, "libx") == 0);
    const struct row *first = named(&rows, "first", "own_called");
    EXPECT(first && first->is_present && first->by_name && !first->by_address && first->need == ROW_REQUIRED && !first->is_call);
    EXPECT(rows_is_satisfied(&rows, named(&rows, "second_a", "spelling_a")) && !named(&rows, "second_a", "spelling_a")->is_present);
    EXPECT_TEXT(rows_binding(named(&rows, "second_b", "spelling_b")), "by other files only");
    EXPECT_TEXT(rows_binding(named(&rows, "third", "absent")), "absent");
    EXPECT(!rows_is_bound(&rows, "libx"));
    EXPECT(!rows_is_satisfied(&rows, named(&rows, "moved", "gone"))); /* libx is neither of its libraries */
    EXPECT(rows_look(&rows, library, "libc10") == 0 && rows_is_satisfied(&rows, named(&rows, "moved", "gone")));
    rows_clear(&rows);
    end();
}

TEST("a last row without the end of its line is read like the others") {
    struct rows rows;
    begin();
    compile("__attribute__((section(\".accel_run.rows\"), used)) static const char one[] = \"a libx CALLED_REQUIRED b \\\"c\\\"\";", shim,
            "");
    EXPECT(rows_read(&rows, shim) == 0 && rows.count == 2);
    rows_clear(&rows);
    end();
}

TEST("a library that is linked with -Bsymbolic is bound to itself") {
    struct rows rows;
    begin();
    compile(SOURCE, library, "-O0 -Wl,-Bsymbolic-functions");
    EXPECT(rows_read(&rows, shim) == 0 && rows_look(&rows, library, "libx") == 0);
    EXPECT(rows_is_bound(&rows, "libx"));
    EXPECT_TEXT(rows_binding(named(&rows, "first", "own_called")), "by address (bound to itself)");
    rows_clear(&rows);
    end();
}

TEST("files without rows, and files that are no libraries, are said so") {
    struct rows rows;
    EXPECT(rows_read(&rows, "/bin/true") == -1);
    rows_clear(&rows);
    EXPECT(rows_read(&rows, "/etc/passwd") == -1);
    rows_clear(&rows);
    EXPECT(rows_read(&rows, "/no/such/file") == -1);
    begin();
    EXPECT(rows_read(&rows, shim) == 0 && rows_look(&rows, "/etc/passwd", "libx") == -1 && rows_look(&rows, "/no/file", "libx") == -1);
    rows_clear(&rows);
    end();
}

TEST("a library is found by the beginning of its name") {
    static struct libraries libraries = {.list = {{"libc10_cuda.so", "/a"}, {"libc10.so.1.13", "/b"}, {"libtorch_cpu-1.so", "/c"}},
                                         .count = 3};
    EXPECT_TEXT(libraries_find(&libraries, "libc10")->path, "/b");
    EXPECT_TEXT(libraries_find(&libraries, "libtorch_cpu")->path, "/c");
    EXPECT(!libraries_find(&libraries, "libtorch"));
}
