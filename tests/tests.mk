# Tests: unit tests of pure files, test programs for two libtorch builds, bats for what users see.

# ---- unit tests: tests/unit/NAME_test.c names its sources on a line "// sources: a.c b.c"
UNIT_TESTS := $(wildcard tests/unit/*_test.c)
UNIT_BINARIES := $(UNIT_TESTS:tests/unit/%.c=$(O)/unit/%)
UNIT_SOURCES = $(shell sed -n 's|^// sources: ||p' $(1))
UNIT_SANITIZE ?= -fsanitize=address,undefined -fno-sanitize-recover=undefined

# Of a source that several tests name there is one object.
UNIT_OBJECTS = $(patsubst %.c,$(O)/unit/obj/%.o,$(1) $(wildcard $(call UNIT_SOURCES,$(1))))

$(O)/unit/obj/%.o: %.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_ALL) -O1 -Werror $(UNIT_SANITIZE) -MMD -MP -c -o $@ $<

.SECONDEXPANSION:
$(UNIT_BINARIES): $(O)/unit/%: $$(call UNIT_OBJECTS,tests/unit/$$*.c)
	$(Q)$(CC) $(CFLAGS_ALL) $(UNIT_SANITIZE) -o $@ $^ -lelf -lyaml -lm -lpthread

-include $(shell find $(O)/unit/obj -name '*.d' 2>/dev/null)

.PHONY: check-unit
check-unit: $(UNIT_BINARIES)
	@tests/run-unit $(UNIT_BINARIES)

# ---- which half of what alternates from commit to commit is built
CHECK_HALF := $(shell tests/check-half)

# ---- programs that train, for both builds of libtorch
include tests/programs.mk

# ---- the programs on other builds of libtorch
include tests/matrix.mk

# ---- ways in which programs are made
include tests/structures.mk

# ---- the templates of hooks/null/
include tests/templates.mk

# ---- what a newcomer types. The wheel comes in while Debian's packages do and while what needs it not is compiled; the last makes see the virtual environment
# which that has made.
BATS_FILES := $(filter-out tests/matrix.bats tests/compilers.bats,$(sort $(wildcard tests/*.bats)))
export O

.PHONY: deps deps-wheel demo check check-debian check-programs check-all check-bats bench bench-all
deps:
	@tests/deps $(O)
deps-wheel:
	@tests/deps $(O) wheel

demo:
	@tests/demo

check:
	@tests/deps $(O) pip
	@$(MAKE) --no-print-directory -j$(JOBS) deps-wheel check-debian
	@$(MAKE) --no-print-directory -j$(JOBS) check-programs
	@$(MAKE) --no-print-directory check-all

check-debian:
	@tests/deps $(O) packages
	@$(MAKE) --no-print-directory check-programs PROGRAM_TORCH=

# A compiler of libtorch's headers takes up to 2 GB. nproc counts by OMP_NUM_THREADS, where that is set: it is for programs, not for compilers.
# In a container its limit counts, not what the machine has.
JOBS ?= $(shell { cat /proc/meminfo; echo limit $$(cat /sys/fs/cgroup/memory.max 2>/dev/null); } | awk -v jobs="$$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)" \
	'/^MemAvailable/ { kib = $$2 } /^limit/ && $$2 / 1024 > 1 && $$2 / 1024 < kib { kib = $$2 / 1024 } END { m = int(kib / 2097152); print m < 1 ? 1 : m < jobs ? m : jobs }')
check-programs: all programs templates structures $(UNIT_BINARIES)

check-all: check-programs
	@tests/run-all $(UNIT_BINARIES) $(BATS_FILES)

check-bats: all programs templates structures
	@tests/run-all $(BATS_FILES)

# ---- what becomes of each operator: docs/operators.md is written by a run; check-operators runs all there is, on both builds (half an hour)
PYTHON_wheel := $(O)/venv/bin/python
PYTHON_debian := /usr/bin/python3
OPERATORS := tests/operators $(O)/accel-run

.PHONY: docs/operators.md check-operators
docs/operators.md: all
	$(Q)$(OPERATORS) $(PYTHON_wheel) cases write 2
	$(Q)$(OPERATORS) $(PYTHON_wheel) schemas write 2 $(O)/schemas-wheel.json

check-operators: all
	$(Q)for python in $(PYTHON_wheel) $(PYTHON_debian); do $(OPERATORS) $$python cases run 1,2,3 || exit 1; done
	$(Q)$(OPERATORS) $(PYTHON_wheel) schemas check 2,3 $(O)/schemas-wheel.json
	$(Q)$(OPERATORS) $(PYTHON_debian) schemas run 2,3 $(O)/schemas-debian.json
	$(Q)for python in $(PYTHON_wheel) $(PYTHON_debian); do $$python tests/pointwise --check || exit 1; done

# ---- benchmarks: tests/bench/NAME.c, which names its sources as a unit test does, or an executable script tests/bench/NAME
BENCH_PROGRAMS := $(patsubst tests/bench/%.c,$(O)/bench/%,$(wildcard tests/bench/*.c))
BENCH_SCRIPTS := $(shell find tests/bench -maxdepth 1 -type f -perm -u+x 2>/dev/null | sort)

$(O)/bench/%: tests/bench/%.c $$(call UNIT_SOURCES,tests/bench/%.c) $(wildcard tests/bench/*.h tests/unit/*.h shim/*.h shim/*/*.h config/*.h config/*.def)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_ALL) -o $@ $< $(call UNIT_SOURCES,$<) -lm -lpthread

bench: deps
	@$(MAKE) --no-print-directory bench-all

bench-all: all programs $(BENCH_PROGRAMS) $(BENCH_TRAINING)
	@set -e; for benchmark in $(BENCH_PROGRAMS) $(BENCH_SCRIPTS); do echo "== $$(basename $$benchmark)"; $$benchmark; done

# ---- fuzzing: tests/fuzz/NAME.c names its sources as a unit test does; needs clang. FUZZ_SECONDS each.
FUZZ_SECONDS ?= 600
FUZZERS := $(patsubst tests/fuzz/%.c,$(O)/fuzz/%,$(wildcard tests/fuzz/*.c))

$(O)/fuzz/%: tests/fuzz/%.c $$(call UNIT_SOURCES,tests/fuzz/%.c) $(wildcard config/*.h config/*.def launcher/*.h launcher/*/*.h)
	@mkdir -p $(@D)
	$(Q)clang $(CFLAGS_ALL) -O1 -Werror -Wno-missing-prototypes -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -o $@ $< $(call UNIT_SOURCES,$<) -lelf -lyaml

.PHONY: fuzz soak
check-programs: $(FUZZERS) # tests/fuzz.bats
fuzz: $(FUZZERS)
	@tests/fuzz/run $(FUZZ_SECONDS) $(FUZZERS)

# ---- random networks and programs, NETWORKS and PROGRAMS of them from seeds NETWORKS_FIRST and PROGRAMS_FIRST on, with 2 and 3 ranks; rules broken one at a time (half an hour for all)
NETWORKS ?= 1000
NETWORKS_FIRST ?= 1
NETWORKS_PYTHON ?= $(PYTHON_wheel)

PROGRAMS ?= 1000
PROGRAMS_FIRST ?= 1

.PHONY: fuzz-networks fuzz-programs mutate
fuzz-networks: all
	@tests/fuzz_networks --first $(NETWORKS_FIRST) --count $(NETWORKS) --python $(NETWORKS_PYTHON) --launcher $(O)/accel-run

fuzz-programs: all
	@tests/fuzz_networks --programs --first $(PROGRAMS_FIRST) --count $(PROGRAMS) --python $(NETWORKS_PYTHON) --launcher $(O)/accel-run

mutate: all
	@tests/mutate $(O)/mutate --python $(PYTHON_wheel) --schemas $(O)/schemas-wheel.json

# ---- random faults: SOAK_RUNS of them from SOAK_SEED on (a failing run is repeated by SOAK_RUNS=1 SOAK_SEED=its seed)
SOAK_RUNS ?= 200
soak: all $(O)/programs/debian-O2/faulty $(O)/programs/debian-O2/files
	@tests/soak --runs $(SOAK_RUNS) $(if $(SOAK_SEED),--seed $(SOAK_SEED))
	@tests/soak-files $(SOAK_RUNS) "$(SOAK_SEED)"
	@tests/soak-files $(SOAK_RUNS) "$(SOAK_SEED)" $(PYTHON_debian)
	@if [ "$$(id -u)" -eq 0 ]; then tests/soak-hosts --runs $(SOAK_RUNS) $(if $(SOAK_SEED),--seed $(SOAK_SEED)); else echo "soak-hosts: needs root"; fi

# ---- the C files as .clang-format has them. clang-format 14 takes `struct operator *op` for C++'s keyword: the star is moved back.
.PHONY: format
format:
	@for file in $$(git ls-files --cached --others --exclude-standard '*.c' '*.h'); do \
		clang-format $$file | sed -E 's/\boperator\* */operator */' >$$file.formatted && \
		{ cmp -s $$file $$file.formatted || cat $$file.formatted >$$file; }; rm -f $$file.formatted; done
