// sources: launcher/environ.c launcher/engines/above.c launcher/engines/engines.c launcher/engines/engines_settle.c launcher/plan.c launcher/placement/placement.c launcher/placement/cpus.c launcher/placement/topology.c launcher/placement/cgroup.c launcher/placement/system_file.c launcher/problem.c config/*.c
#include "unit.h"

#include "../../launcher/environ.h"
#include "../../launcher/plan.h"

static char *base[] = {"HOME=/h", "LD_PRELOAD=old", "RANK=1", "OMP_NUM_THREADS=9", "MULTI=a\nb", "OMPI_X=1", "ODD", NULL};

static int count(char **list, const char *name) {
    int found = 0;
    size_t n = strlen(name);
    for (; *list; list++)
        found += !strncmp(*list, name, n) && (*list)[n] == '=';
    return found;
}

TEST("a rank's environment: kept, dropped, added, replaced once") {
    struct plan plan = {.preload = "/s.so:old",
                        .added = {{"OMP_NUM_THREADS", "2"}},
                        .added_count = 1,
                        .removed = {"RANK=1", "OMPI_X=1"},
                        .removed_count = 2};
    struct environ_claim claim = {.socket = "name", .cookie = "cookie", .rank = 3};
    char **list = environ_build(&plan, base, &claim);
    EXPECT(list != NULL);
    EXPECT_TEXT(config_variable(list, "HOME"), "/h");
    EXPECT_TEXT(config_variable(list, "MULTI"), "a\nb");
    EXPECT_TEXT(config_variable(list, "LD_PRELOAD"), "/s.so:old");
    EXPECT_TEXT(config_variable(list, "OMP_NUM_THREADS"), "2");
    EXPECT_TEXT(config_variable(list, "ACCEL_RUN_SOCKET"), "name");
    EXPECT_TEXT(config_variable(list, "ACCEL_RUN_COOKIE"), "cookie");
    EXPECT_TEXT(config_variable(list, "ACCEL_RUN_RANK"), "3");
    EXPECT(count(list, "LD_PRELOAD") == 1 && count(list, "OMP_NUM_THREADS") == 1);
    EXPECT(!config_variable(list, "RANK") && !config_variable(list, "OMPI_X"));
    environ_free(list);
}

/* Of copies, before there is no memory. */
static int copies_left = 1000;

char *strdup(const char *text) {
    size_t bytes = strlen(text) + 1;
    char *copy = copies_left-- > 0 ? malloc(bytes) : NULL;
    return copy ? memcpy(copy, text, bytes) : NULL;
}

TEST("where there is no memory for a variable there is no environment, rather than one without the others") {
    struct plan plan = {.preload = "/s.so"};
    struct environ_claim claim = {.socket = "name", .cookie = "cookie"};
    copies_left = 2;
    EXPECT(!environ_build(&plan, base, &claim));
}

TEST("names are compared whole") {
    EXPECT(!config_variable(base, "HOM") && !config_variable(base, "ODD"));
}
