# Every build of libtorch that must work, side by side in $(O)/matrix, and the core tests on each: not part of `make check`.
#
#   make check-matrix                               all, two hours or more; the table is that of docs/compatibility.md
#   make check-matrix BUILDS="wheel-2.5.1 debian-12"   some
#
# debian-12 and wheel-2.13.0 are the builds that every test run has (tests/deps): here they are called debian and wheel.
BUILDS ?= wheel-2.15.0 wheel-2.13.0 wheel-2.9.1 wheel-2.5.1 wheel-2.1.2 wheel-1.13.1 debian-12 debian-13 symbolic-2.13.0
# What tests/matrix.bats, save.bats and seed.bats run.
MATRIX_PROGRAMS := fashion mlp_loader index_loop gru transformer vae gan batchnorm accumulate l2 throws autoencoder multi_model \
	callbacks scripted structures loaders save_modes seed_draws seed_differs $(filter rule_%,$(PROGRAM_NAMES))

# Wheels up to 2.6 have the string ABI of before C++11; the headers want C++20 since 2.13.
matrix_version = $(lastword $(subst -, ,$(1)))
matrix_abi = $(if $(filter 1.% 2.0.% 2.1.% 2.2.% 2.3.% 2.4.% 2.5.%,$(call matrix_version,$(1))),0,1)
matrix_standard = $(if $(filter 2.13.% 2.14.% 2.15.%,$(call matrix_version,$(1))),c++20,c++17)
matrix_torch = $(wildcard $(O)/matrix/$(1)/lib/python3*/site-packages/torch)

define matrix_wheel
PROGRAM_FLAGS_$(1) = -std=$(call matrix_standard,$(1)) -D_GLIBCXX_USE_CXX11_ABI=$(call matrix_abi,$(1)) \
	-isystem $(call matrix_torch,$(1))/include -isystem $(call matrix_torch,$(1))/include/torch/csrc/api/include
PROGRAM_LINK_$(1) = -L$(call matrix_torch,$(1))/lib -Wl,-rpath,$(abspath $(call matrix_torch,$(1)))/lib -Wl,--allow-shlib-undefined \
	-ltorch -ltorch_cpu -lc10
$(call program_rules,$(1),O2)
.INTERMEDIATE: $(O)/programs/$(1)-O2/precompiled/torch.h.gch # 700 MB: gone when the programs are there
endef
PROGRAM_FLAGS_symbolic-2.13.0 = $(PROGRAM_FLAGS_wheel)
PROGRAM_LINK_symbolic-2.13.0 = -L$(call matrix_torch,symbolic-2.13.0)/lib -Wl,-rpath,$(abspath $(call matrix_torch,symbolic-2.13.0))/lib \
	-Wl,--allow-shlib-undefined -ltorch -ltorch_cpu -lc10

MATRIX_WHEELS := $(patsubst $(O)/matrix/%/installed,%,$(wildcard $(O)/matrix/wheel-*/installed))
$(foreach build,$(MATRIX_WHEELS),$(eval $(call matrix_wheel,$(build))))

# The programs of the wheel with another libtorch: the wheel's run path yields to the environment.
$(O)/programs/symbolic-2.13.0-O2/%: $(O)/programs/wheel-O2/%
	@mkdir -p $(@D)
	@printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s "$$@"\n' $(abspath $(call matrix_torch,symbolic-2.13.0))/lib $(abspath $<) >$@
	@chmod +x $@

$(O)/matrix/bind_own: tests/matrix/bind_own.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_ALL) -Werror -o $@ $< -lelf

.PHONY: check-matrix matrix-programs
check-matrix: deps
	@$(MAKE) --no-print-directory all $(O)/matrix/bind_own
	@NETWORKS=$(NETWORKS) tests/matrix/run $(BUILDS)

# MATRIX_BUILD: one build, installed
matrix-programs: $(MATRIX_PROGRAMS:%=$(O)/programs/$(MATRIX_BUILD)-O2/%) $(O)/programs/$(MATRIX_BUILD)-O2/plugin.so $(O)/structures/host \
	$(if $(filter symbolic-%,$(MATRIX_BUILD)),$(MATRIX_PROGRAMS:%=$(O)/programs/wheel-O2/%)) \
	$(if $(filter wheel,$(MATRIX_BUILD)),$(PROGRAM_NAMES_O0:%=$(O)/programs/wheel-O0/%))
