# Tests: unit tests of pure files, test programs for two libtorch builds, bats for what users see.

# ---- unit tests: tests/unit/NAME_test.c names its sources on a line "// sources: a.c b.c"
UNIT_TESTS := $(wildcard tests/unit/*_test.c)
UNIT_BINARIES := $(UNIT_TESTS:tests/unit/%.c=$(O)/unit/%)
UNIT_SOURCES = $(shell sed -n 's|^// sources: ||p' $(1))
UNIT_SANITIZE ?= -fsanitize=address,undefined -fno-sanitize-recover=undefined

.SECONDEXPANSION:
$(O)/unit/%: tests/unit/%.c tests/unit/unit.h $$(call UNIT_SOURCES,tests/unit/%.c) $(wildcard config/*.h launcher/*.h shim/*.h shim/*/*.h)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_ALL) -Werror $(UNIT_SANITIZE) -o $@ $< $(call UNIT_SOURCES,$<) -lelf -lm -lpthread

.PHONY: check-unit
check-unit: $(UNIT_BINARIES)
	@tests/run-unit $(UNIT_BINARIES)
