// sources: launcher/streams/inherited.c launcher/streams/input.c launcher/streams/console.c launcher/loop.c launcher/problem.c
#include "unit.h"

#include "../../launcher/streams/inherited.h"

TEST("a descriptor is named by an argument, whole or within it, by its whole number") {
    char *arguments[] = {"train", "--data=/dev/fd/63", "/proc/self/fd/7,/dev/fd/12", "/dev/fd/", "3", NULL};
    EXPECT(inherited_is_named(arguments, 63));
    EXPECT(inherited_is_named(arguments, 7));
    EXPECT(inherited_is_named(arguments, 12));
    EXPECT(!inherited_is_named(arguments, 6));
    EXPECT(!inherited_is_named(arguments, 1));
    EXPECT(!inherited_is_named(arguments, 3));
    EXPECT(!inherited_is_named(arguments, 0));
}

TEST("the pipe by which makes share their jobs is known, of old makes and new ones") {
    EXPECT(inherited_is_of_make("j4 --jobserver-auth=3,4", 3));
    EXPECT(inherited_is_of_make("j4 --jobserver-auth=3,4", 4));
    EXPECT(inherited_is_of_make("--jobserver-fds=5,6 -j", 6));
    EXPECT(!inherited_is_of_make("j4 --jobserver-auth=3,4", 5));
    EXPECT(!inherited_is_of_make("j4 --jobserver-auth=fifo:/tmp/x", 3));
    EXPECT(!inherited_is_of_make("k", 3));
    EXPECT(!inherited_is_of_make(NULL, 3));
}
