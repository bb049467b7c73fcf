// sources: shim/twin.c
#include "../../shim/twin.h"

#include "unit.h"

static bool of_launcher(struct twin *twin, int64_t now_ms) {
    return twin_take(twin, &(struct twin_arrival){true, 1, now_ms, true});
}

static bool of(struct twin *twin, int32_t sender, int64_t now_ms) {
    return twin_take(twin, &(struct twin_arrival){false, sender, now_ms, true});
}

TEST("what comes from somebody and from the launcher is one, in either order") {
    struct twin twin = {.sender = 0};
    EXPECT(!of(&twin, 7, 10000) && of_launcher(&twin, 10500));
    EXPECT(!of_launcher(&twin, 20000) && of(&twin, 7, 20500));
    EXPECT(!of(&twin, 7, 30000) && !of_launcher(&twin, 31000));
}

TEST("what one sender says twice at once is one, also when the launcher's copy comes first or between") {
    struct twin twin = {.sender = 0};
    EXPECT(!of(&twin, 7, 10000) && of(&twin, 7, 10050) && of_launcher(&twin, 10100));
    EXPECT(!of_launcher(&twin, 20000) && of(&twin, 7, 20001) && of(&twin, 7, 20002));
    EXPECT(!of(&twin, 7, 30000) && of_launcher(&twin, 30001) && of(&twin, 7, 30002));
}

TEST("another sender, the same one later, the launcher, and a number that may be sent often come a second time") {
    struct twin twin = {.sender = 0};
    EXPECT(!of(&twin, 7, 10000) && !of(&twin, 8, 10001) && !of(&twin, 8, 10101) && !of(&twin, 0, 10102) && !of(&twin, 0, 10103));
    EXPECT(!of_launcher(&twin, 20000) && !of_launcher(&twin, 20001));
    EXPECT(!of(&twin, 7, 30000) && !twin_take(&twin, &(struct twin_arrival){false, 7, 30001, false}));
}
