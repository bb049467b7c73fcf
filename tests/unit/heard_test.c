// sources: launcher/heard.c
#include "unit.h"

#include "../../launcher/heard.h"

TEST("a signal that comes to every process of the job, or to every host, is one") {
    struct heard heard = {0};
    EXPECT(heard_take(&heard, HEARD_HOST, 0, 1000) == HEARD_NEW);
    EXPECT(heard_take(&heard, HEARD_RANK, 0, 1001) == HEARD_BEFORE);
    EXPECT(heard_take(&heard, HEARD_RANK, 255, 1002) == HEARD_BEFORE);
    EXPECT(heard_take(&heard, HEARD_HOST, 1, 1000 + HEARD_MS) == HEARD_BEFORE);
}

TEST("what came to ranks first is still news of the user to the launcher, once") {
    struct heard heard = {0};
    EXPECT(heard_take(&heard, HEARD_RANK, 3, 1000) == HEARD_NEW);
    EXPECT(heard_take(&heard, HEARD_RANK, 2, 1001) == HEARD_BY_RANKS);
    EXPECT(heard_take(&heard, HEARD_RANKS_OF, 3, 1001) == HEARD_BY_RANKS);
    EXPECT(heard_take(&heard, HEARD_HOST, 0, 1002) == HEARD_BY_RANKS);
    EXPECT(heard_take(&heard, HEARD_HOST, 1, 1003) == HEARD_BEFORE);
}

TEST("from the same side again, or later, it is another one") {
    struct heard heard = {0};
    EXPECT(heard_take(&heard, HEARD_HOST, 0, 1000) == HEARD_NEW);
    EXPECT(heard_take(&heard, HEARD_HOST, 0, 1001) == HEARD_NEW);
    EXPECT(heard_take(&heard, HEARD_RANK, 70, 1002) == HEARD_BEFORE);
    EXPECT(heard_take(&heard, HEARD_RANK, 70, 1003) == HEARD_NEW);
    EXPECT(heard_take(&heard, HEARD_HOST, 0, 1003 + HEARD_MS + 1) == HEARD_NEW);
}
