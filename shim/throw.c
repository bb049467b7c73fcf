/* TORCH_CHECK's own slow path, c10::detail::torchCheckFail, takes C strings: exported by every libc10 since 1.9. */
#include "throw.h"

#include "resolve.h"
#include "shim.h"

void shim_throw(const char *where, const char *text) {
    void (*fail)(const char *function, const char *file, uint32_t line, const char *message) =
        resolve_function("libc10", "_ZN3c106detail14torchCheckFailEPKcS2_jS2_");
    if (fail)
        fail(where, "accel-run", 0, text);
    shim_problem("AR-THROW", "This version of libtorch is not supported: please report it.", "%s: %s", where, text);
}
