# Program structures: one program compiled in several ways, and a program that loads what it trains with at run time (tests/structures.bats).
# For Debian's libtorch; what compilers and their options make of two programs, $(O)/programs/BUILD-COMPILER-OPTIMISATION-KIND/NAME, for `make check-matrix` only.
STRUCTURE_VARIANTS := $(foreach compiler,gcc clang,$(foreach optimise,O0 O2 O3-lto,$(foreach kind,pie nopie,debian-$(compiler)-$(optimise)-$(kind)))) \
	$(foreach compiler,gcc clang,$(foreach optimise,O1 O3,debian-$(compiler)-$(optimise)-pie)) wheel-gcc-O3-lto-pie
STRUCTURE_COMPILER_gcc = $(CXX)
STRUCTURE_COMPILER_clang = clang++
STRUCTURE_FLAGS_O0 := -O0
STRUCTURE_FLAGS_O1 := -O1
STRUCTURE_FLAGS_O2 := -O2
STRUCTURE_FLAGS_O3 := -O3
STRUCTURE_FLAGS_O3-lto := -O3 -flto
STRUCTURE_FLAGS_pie := -fPIE -pie
STRUCTURE_FLAGS_nopie := -fno-pie -no-pie
STRUCTURES := $(O)/structures/host $(O)/structures/plugin.so $(O)/structures/regions $(O)/structures/liballocator.so

$(O)/structures/host: tests/structures/host.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_ALL) -Werror -o $@ $< -ldl

# Of each build that make knows: what is loaded late.
define structure_plugin
$(2): tests/structures/plugin.cpp
	@mkdir -p $$(@D)
	$(Q)nice $(CXX) $$(PROGRAM_FLAGS_$(1)) -O1 $(PROGRAM_WARN) -fPIC -shared -o $$@ $$< -Wl,--as-needed $$(PROGRAM_LINK_$(1))
endef
$(eval $(call structure_plugin,debian,$(O)/structures/plugin.so))
$(foreach build,debian wheel symbolic-2.13.0 $(MATRIX_WHEELS),$(eval $(call structure_plugin,$(build),$(O)/programs/$(build)-O2/plugin.so)))

$(O)/structures/regions: tests/structures/regions.cpp
	@mkdir -p $(@D)
	$(Q)nice $(CXX) $(PROGRAM_FLAGS_debian) -O1 -fopenmp $(PROGRAM_WARN) -o $@ $< $(PROGRAM_LINK_debian)

$(O)/structures/liballocator.so: tests/structures/allocator.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_ALL) -Werror -Wno-missing-prototypes -fno-builtin -fvisibility=default -shared -o $@ $<

define structure_variant
$(O)/programs/$(1)/%: tests/programs/%.cpp $(wildcard tests/programs/*.h)
	@mkdir -p $$(@D)
	$(Q)nice $$(STRUCTURE_COMPILER_$(word 2,$(2))) $(foreach word,$(wordlist 3,4,$(2)),$(STRUCTURE_FLAGS_$(word))) $$(PROGRAM_FLAGS_$(firstword $(2))) \
		-pthread -o $$@ $$< -Wl,--as-needed $$(PROGRAM_LINK_$(firstword $(2)))
endef
$(foreach variant,$(STRUCTURE_VARIANTS),$(eval $(call structure_variant,$(variant),$(subst O3 lto,O3-lto,$(subst -, ,$(variant))))))

.PHONY: structures structure-variants
structures: $(STRUCTURES)
structure-variants: $(foreach variant,$(STRUCTURE_VARIANTS),$(O)/programs/$(variant)/structures $(O)/programs/$(variant)/loaders)
