# accel-run. Everything built lands in $(O).
#
#   make            the launcher and the shim
#   make demo       dependencies, build, the main job on real images, plain and with 2 ranks, side by side
#   make check      dependencies, build, all tests; the last line is "N passed, N failed, N skipped". What alternates between
#                   two builds of libtorch from commit to commit is on both with CHECK_HALF=all; CHECK_NUMBER=N draws what the Nth commit does
#   make bench      speed, as ratios within one run
#   make soak       200 random faults in real runs on one host, and on two (as root), 400 kills while files are written: about an hour
#   make fuzz-networks   NETWORKS=1000 random networks from seed NETWORKS_FIRST=1 on, with 2 and 3 ranks
#   make fuzz-programs   PROGRAMS=1000 random programs, statement by statement, from seed PROGRAMS_FIRST=1 on
#   make mutate     breaks each rule in turn: do the sweeps notice?
#   make fuzz       what strangers can reach, FUZZ_SECONDS=600 each
#   make install    PREFIX=/usr/local: both binaries, completions for bash, zsh and fish, and manual pages where there is pandoc
#
# DEBUG=1 turns warnings into errors and optimisation down; CC=clang works too; V=1 shows commands.

O ?= build
CC ?= gcc
PREFIX ?= /usr/local
Q := $(if $(V),,@)
OPTIMISE := $(if $(DEBUG),-O1 -g -Werror,-O2 -g)
WARN := -Wall -Wextra -Wstrict-prototypes -Wmissing-prototypes -Wshadow -Wvla -Wno-unused-parameter
CFLAGS_ALL := -std=gnu11 $(OPTIMISE) $(WARN) $(CFLAGS)
# -fexceptions and unwind tables: a C++ exception must be able to cross our frames (style.md P26); one TLS model, small (P21).
# Where the program has given a thread little stack, a frame that is too large for it ends the process at the stack's guard, and writes nothing beyond.
SHIM_CFLAGS := $(CFLAGS_ALL) -fPIC -fvisibility=hidden -fexceptions -fasynchronous-unwind-tables -ftls-model=initial-exec -fno-plt -fstack-clash-protection
# A rank's step enters the shim some hundred times for a few instructions each: whole-program optimisation takes a tenth off what that adds to a small step.
# Not for the two functions that the compiler itself calls: it would drop them before it does.
LTO ?= $(if $(DEBUG),,-flto=auto)
SHIM_LTO = $(if $(filter %/shim/shim/unwind.o,$@),,$(LTO))
# Sorted, the variables that each thread has leave no gaps, whichever file they stand in (docs/architecture.md: at most 64 bytes).
SHIM_LDFLAGS := -shared -fdata-sections -Wl,--sort-section=alignment -Wl,-z,defs,-z,relro,-z,now -Wl,--version-script=$(O)/shim/export.map

LAUNCHER_SOURCES := $(wildcard launcher/*.c launcher/*/*.c config/*.c)
SHIM_SOURCES := $(wildcard shim/*.c shim/*/*.c hooks/*.c hooks/*/*.c)
SHIM_SOURCES := $(filter-out hooks/export.c hooks/null/%,$(SHIM_SOURCES))
HOOK_TABLES := $(wildcard hooks/*.def hooks/*/*.def shim/*.def shim/*/*.def)
LAUNCHER_OBJECTS := $(LAUNCHER_SOURCES:%.c=$(O)/obj/launcher/%.o)
SHIM_OBJECTS := $(SHIM_SOURCES:%.c=$(O)/obj/shim/%.o)

.PHONY: all clean install uninstall
all: $(O)/accel-run $(O)/libaccelshim.so

$(O)/accel-run: $(LAUNCHER_OBJECTS)
	$(Q)$(CC) $(CFLAGS_ALL) -o $@ $^ -lelf -lyaml

$(O)/libaccelshim.so: $(SHIM_OBJECTS) $(O)/shim/export.map
	$(Q)$(CC) $(SHIM_CFLAGS) $(LTO) $(SHIM_LDFLAGS) -o $@ $(SHIM_OBJECTS)

# The export map is the hook table and nothing else, in an anonymous node: a named one would hide us from versioned references (fact 11 of style.md).
$(O)/shim/export.map: hooks/export.c $(HOOK_TABLES)
	@mkdir -p $(@D)
	$(Q)$(CC) -E -P -Ihooks $< | sed -n 's/^ *EXPORT *"\(.*\)" *$$/\1;/p' | sort -u >$@.names
	$(Q){ echo '{ global:'; cat $@.names; echo 'local: *; };'; } >$@

$(O)/obj/launcher/%.o: %.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_ALL) -MMD -MP -c -o $@ $<

$(O)/obj/shim/%.o: %.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(SHIM_CFLAGS) $(SHIM_LTO) -MMD -MP -c -o $@ $<

-include $(LAUNCHER_OBJECTS:.o=.d) $(SHIM_OBJECTS:.o=.d)

# ---- manual pages, where there is pandoc; what the shells need to complete options, from the table of options
PAGES := accel-run.1 accel-run.yaml.5
MAN_PAGES := $(if $(shell command -v pandoc),$(PAGES:%=$(O)/man/%))
COMPLETIONS := bash-completion/completions/accel-run zsh/site-functions/_accel-run fish/vendor_completions.d/accel-run.fish

$(O)/man/%: docs/%.md
	@mkdir -p $(@D)
	$(Q)pandoc -s -t man -o $@ $<

$(O)/completion/%: $(O)/accel-run
	@mkdir -p $(@D)
	$(Q)$< --completion $* >$@

SHARE = $(DESTDIR)$(PREFIX)/share
.PHONY: man
man: $(MAN_PAGES)

install: all man $(O)/completion/bash $(O)/completion/zsh $(O)/completion/fish
	install -D -m 755 $(O)/accel-run $(DESTDIR)$(PREFIX)/bin/accel-run
	install -D -m 755 $(O)/libaccelshim.so $(DESTDIR)$(PREFIX)/lib/accel-run/libaccelshim.so
	install -D -m 644 $(O)/completion/bash $(SHARE)/bash-completion/completions/accel-run
	install -D -m 644 $(O)/completion/zsh $(SHARE)/zsh/site-functions/_accel-run
	install -D -m 644 $(O)/completion/fish $(SHARE)/fish/vendor_completions.d/accel-run.fish
	$(foreach page,$(MAN_PAGES),install -D -m 644 $(page) $(SHARE)/man/man$(patsubst .%,%,$(suffix $(page)))/$(notdir $(page));)

uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/accel-run $(DESTDIR)$(PREFIX)/lib/accel-run/libaccelshim.so
	[ ! -d $(DESTDIR)$(PREFIX)/lib/accel-run ] || rmdir --ignore-fail-on-non-empty $(DESTDIR)$(PREFIX)/lib/accel-run
	rm -f $(addprefix $(SHARE)/,$(COMPLETIONS)) $(foreach page,$(PAGES),$(SHARE)/man/man$(patsubst .%,%,$(suffix $(page)))/$(page))

clean:
	rm -rf $(O)/obj $(O)/shim $(O)/man $(O)/completion $(O)/accel-run $(O)/libaccelshim.so $(O)/unit $(O)/programs $(O)/bench

include tests/tests.mk
