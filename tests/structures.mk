# Program structures: one program compiled in several ways, and a program that loads what it trains with at run time (tests/structures.bats).
# For Debian's libtorch; without optimisation, or with what clang and link-time optimisation make of it, for `make check-matrix` only.
STRUCTURE_VARIANTS := gcc-O0 gcc-O3-lto gcc-O2-nopie clang-O2
STRUCTURE_COMPILER_gcc-O0 = $(CXX) -O0
STRUCTURE_COMPILER_gcc-O3-lto = $(CXX) -O3 -flto
STRUCTURE_COMPILER_gcc-O2-nopie = $(CXX) -O2 -fno-pie -no-pie
STRUCTURE_COMPILER_clang-O2 = clang++ -O2
STRUCTURES := $(O)/structures/host $(O)/structures/plugin.so

$(O)/structures/host: tests/structures/host.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_ALL) -Werror -o $@ $< -ldl

$(O)/structures/plugin.so: tests/structures/plugin.cpp
	@mkdir -p $(@D)
	$(Q)nice $(CXX) $(PROGRAM_FLAGS_debian) -O2 $(PROGRAM_WARN) -fPIC -shared -o $@ $< $(PROGRAM_LINK_debian)

define structure_variant
$(O)/structures/$(1): tests/programs/structures.cpp tests/programs/dump.h
	@mkdir -p $$(@D)
	$(Q)nice $$(STRUCTURE_COMPILER_$(1)) $$(PROGRAM_FLAGS_debian) -pthread -o $$@ $$< $$(PROGRAM_LINK_debian)
endef
$(foreach variant,$(STRUCTURE_VARIANTS),$(eval $(call structure_variant,$(variant))))

.PHONY: structures structure-variants
structures: $(STRUCTURES)
structure-variants: $(STRUCTURE_VARIANTS:%=$(O)/structures/%)
