# Test programs: $(O)/programs/BUILD-OPT/NAME for BUILD in debian (libtorch-dev) and wheel (torch of $(O)/venv, compiled against its own
# headers) and OPT in O0 and O2. torch/torch.h is precompiled once per BUILD-OPT: a program then takes seconds instead of half a minute.
#
#   make programs               everything the tests use
#   make build/programs/wheel-O0/gru    any one
CXX ?= g++
PROGRAM_VENV ?= $(O)/venv
PROGRAM_TORCH := $(wildcard $(PROGRAM_VENV)/lib/python3*/site-packages/torch)
PROGRAM_NAMES := $(sort $(notdir $(basename $(wildcard tests/programs/*.cpp))))
PROGRAM_NAMES_O0 := index_loop mlp_loader throws
PROGRAM_NAMES_GCC := $(PROGRAM_NAMES_O0)

# -D_GLIBCXX_USE_CXX11_ABI=1 is the default of gcc; the wheels since 2.7 are built so. Linked as needed: a program of the CPU must not
# load the wheel's CUDA libraries, whose start takes seconds.
PROGRAM_FLAGS_debian := -std=c++17 -isystem /usr/include/torch/csrc/api/include
PROGRAM_LINK_debian := -ltorch -ltorch_cpu -lc10
PROGRAM_FLAGS_wheel = -std=c++20 -D_GLIBCXX_USE_CXX11_ABI=1 -isystem $(PROGRAM_TORCH)/include \
	-isystem $(PROGRAM_TORCH)/include/torch/csrc/api/include
PROGRAM_LINK_wheel = -L$(PROGRAM_TORCH)/lib -Wl,-rpath,$(abspath $(PROGRAM_TORCH))/lib -Wl,--allow-shlib-undefined \
	-ltorch -ltorch_cpu -lc10

# By clang, but for three of Debian's programs, -O0 with one commit and -O2 with the next (debian-gcc-O2), and all of `make check-matrix`, which gcc compiles: they
# must be right with either compiler, and clang instantiates the header's templates once and for all, when it is precompiled (20 s of processor time instead of 36),
# not in each program again (6 instead of 13).
PROGRAM_CXX_debian-O2 := clang++
PROGRAM_CXX_wheel-O0 := clang++
PROGRAM_CXX_wheel-O2 := clang++
program_cxx = $(or $(PROGRAM_CXX_$(1)),$(CXX))
program_precompile = $(call program_cxx,$(1)) $(if $(findstring clang,$(call program_cxx,$(1))),-Xclang -fpch-instantiate-templates)

PROGRAM_WARN := -Wall -Wextra -Wno-unused-parameter -Werror -Winvalid-pch -pthread

define program_rules
$(O)/programs/$(1)-$(2)/precompiled/torch.h.gch: tests/programs/precompiled.h
	@mkdir -p $$(@D)
	@echo '#error "the precompiled header was not used"' >$$(@D)/torch.h
	$(Q)nice $(call program_precompile,$(1)-$(2)) -x c++-header $$(PROGRAM_FLAGS_$(1)) -$(2) $(PROGRAM_WARN) -o $$@ $$<

$(O)/programs/$(1)-$(2)/%: tests/programs/%.cpp $(wildcard tests/programs/*.h) $(O)/programs/$(1)-$(2)/precompiled/torch.h.gch
	$(Q)nice $(call program_cxx,$(1)-$(2)) $$(PROGRAM_FLAGS_$(1)) -$(2) $(PROGRAM_WARN) -include $(O)/programs/$(1)-$(2)/precompiled/torch.h \
		-o $$@ $$< -Wl,--as-needed $$(PROGRAM_LINK_$(1))
endef
define bench_rule
$(O)/bench/$(1)/%: tests/bench/%.cpp $(O)/programs/$(1)-O2/precompiled/torch.h.gch
	@mkdir -p $$(@D)
	$(Q)nice $(call program_cxx,$(1)-O2) $$(PROGRAM_FLAGS_$(1)) -O2 $(PROGRAM_WARN) -include $(O)/programs/$(1)-O2/precompiled/torch.h \
		-o $$@ $$< -Wl,--as-needed $$(PROGRAM_LINK_$(1))
endef
PROGRAM_FLAGS_debian-gcc = $(PROGRAM_FLAGS_debian)
PROGRAM_LINK_debian-gcc = $(PROGRAM_LINK_debian)
$(foreach build,debian wheel,$(foreach opt,O0 O2,$(eval $(call program_rules,$(build),$(opt)))))
$(eval $(call program_rules,debian-gcc,O2))
$(foreach build,debian wheel,$(eval $(call bench_rule,$(build))))

# One is linked with a library of its own.
$(O)/structures/libdecoder.so: tests/structures/decoder.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_ALL) -Werror -Wno-missing-prototypes -shared -o $@ $<
LOADER_TRACES := $(foreach build,debian wheel,$(O)/programs/$(build)-O2/loader_traces)
$(LOADER_TRACES): $(O)/structures/libdecoder.so
$(LOADER_TRACES): PROGRAM_LINK_debian += -L$(O)/structures -Wl,-rpath,$(abspath $(O))/structures -ldecoder
$(LOADER_TRACES): PROGRAM_LINK_wheel += -L$(O)/structures -Wl,-rpath,$(abspath $(O))/structures -ldecoder

# One has a C++ library of its own.
LOADERS_STATIC := $(O)/programs/debian-O2/loaders_static
$(LOADERS_STATIC): tests/programs/loaders.cpp $(wildcard tests/programs/*.h) $(O)/programs/debian-O2/precompiled/torch.h.gch
	$(Q)nice $(call program_cxx,debian-O2) $(PROGRAM_FLAGS_debian) -O2 $(PROGRAM_WARN) -include $(O)/programs/debian-O2/precompiled/torch.h \
		-static-libstdc++ -static-libgcc -o $@ $< -Wl,--as-needed $(PROGRAM_LINK_debian)

# What the tests use: all programs optimised on both builds, but for those that are run on one of the two alone, and three by gcc for Debian's, not optimised (for
# the wheel: tests/matrix.mk) or as most users do; the wheel's only where the wheel is installed.
PROGRAM_BUILDS = debian $(if $(PROGRAM_TORCH),wheel)
PROGRAM_BUILDS_GCC = $(if $(filter 0,$(CHECK_HALF)),debian-O0,$(if $(filter 1,$(CHECK_HALF)),debian-gcc-O2,debian-O0 debian-gcc-O2))
PROGRAM_NAMES_OTHER_debian := counted
PROGRAM_NAMES_OTHER_wheel := structures embeds_python faulty restless small_stack thread_first
TEST_PROGRAMS = $(foreach build,$(PROGRAM_BUILDS),$(patsubst %,$(O)/programs/$(build)-O2/%,$(filter-out $(PROGRAM_NAMES_OTHER_$(build)),$(PROGRAM_NAMES)))) \
	$(foreach build,$(PROGRAM_BUILDS_GCC),$(PROGRAM_NAMES_GCC:%=$(O)/programs/$(build)/%)) $(LOADERS_STATIC)

# What tests/bench/peers times.
BENCH_TRAINING = $(foreach build,$(PROGRAM_BUILDS),$(patsubst tests/bench/%.cpp,$(O)/bench/$(build)/%,$(wildcard tests/bench/*.cpp)))

# An accelerator without hardware, for tests/device.bats.
ACCELERATOR = $(if $(PROGRAM_TORCH),$(O)/fake/libaccelerator.so)
$(O)/fake/libaccelerator.so: tests/fake/accelerator.cpp
	@mkdir -p $(@D)
	$(Q)nice clang++ $(PROGRAM_FLAGS_wheel) -O1 $(PROGRAM_WARN) -shared -fPIC -o $@ $< $(PROGRAM_LINK_wheel)

.PHONY: programs check-device
programs: $(TEST_PROGRAMS) $(ACCELERATOR)

# Core programs, and every module, function and operator family, on the accelerator, plain against 2 and 3 ranks: a quarter of an hour on two cores. On a GPU, C++
# programs too: DEVICE=cuda DEVICE_PYTHON=python3, an interpreter whose PyTorch has CUDA.
DEVICE_PYTHON ?= $(O)/venv/bin/python
DEVICE_PROGRAMS = $(if $(filter cuda,$(DEVICE)),$(addprefix $(O)/programs/cuda/,fashion gru transformer))
$(O)/programs/cuda/%: tests/programs/%.cpp
	@mkdir -p $(@D)
	$(Q)torch=$$($(DEVICE_PYTHON) -c 'import torch; print(torch.__path__[0])') && $(CXX) -std=c++20 -O1 -pthread -isystem $$torch/include \
		-isystem $$torch/include/torch/csrc/api/include -o $@ $< -L$$torch/lib -Wl,-rpath,$$torch/lib -Wl,--allow-shlib-undefined \
		-Wl,--no-as-needed -ltorch -ltorch_cpu -ltorch_cuda -lc10

check-device: all $(DEVICE_PROGRAMS) $(if $(DEVICE),,$(ACCELERATOR))
	tests/device $(O)/accel-run $(DEVICE_PYTHON) $(or $(DEVICE),$(abspath $(ACCELERATOR))) $(if $(DEVICE_PROGRAMS),--programs $(O)/programs/cuda)
