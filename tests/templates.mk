# The templates of hooks/null/, compiled into a shim of their own which only tests/templates.bats uses, and the program they are tried on.
TEMPLATE_SOURCES := $(SHIM_SOURCES) $(wildcard hooks/null/*.c)
TEMPLATE_OBJECTS := $(TEMPLATE_SOURCES:%.c=$(O)/obj/template/%.o)
# null_rule.c includes "shard.h" as a file of hooks/shard/ does.
TEMPLATE_CFLAGS := $(SHIM_CFLAGS) -DACCEL_HOOKS_NULL -Ihooks/shard
TEMPLATE_PROGRAMS = $(foreach build,$(PROGRAM_BUILDS),$(O)/template/$(build)/trainer)

.PHONY: templates
templates: $(O)/template/libaccelshim.so $(TEMPLATE_PROGRAMS)

$(O)/template/libaccelshim.so: $(TEMPLATE_OBJECTS) $(O)/template/export.map
	$(Q)$(CC) $(SHIM_CFLAGS) $(SHIM_LDFLAGS:%/shim/export.map=%/template/export.map) -o $@ $(TEMPLATE_OBJECTS)

$(O)/template/export.map: hooks/export.c $(HOOK_TABLES)
	@mkdir -p $(@D)
	$(Q){ echo '{ global:'; $(CC) -E -P -DACCEL_HOOKS_NULL -Ihooks $< | sed -n 's/^ *EXPORT *"\(.*\)" *$$/\1;/p' | sort -u; echo 'local: *; };'; } >$@

$(O)/obj/template/%.o: %.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(TEMPLATE_CFLAGS) -Werror -MMD -MP -c -o $@ $<

-include $(TEMPLATE_OBJECTS:.o=.d)

define template_rules
$(O)/template/$(1)/trainer: tests/template/trainer.cpp $(O)/programs/$(1)-O2/precompiled/torch.h.gch
	@mkdir -p $$(@D)
	$(Q)nice $(call program_cxx,$(1)-O2) $$(PROGRAM_FLAGS_$(1)) -O2 $(PROGRAM_WARN) -include $(O)/programs/$(1)-O2/precompiled/torch.h \
		-o $$@ $$< -Wl,--as-needed $$(PROGRAM_LINK_$(1))
endef
$(foreach build,debian wheel,$(eval $(call template_rules,$(build))))
