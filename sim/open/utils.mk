# Builds $(OUTPUT) from SRCS. NV_MODULE_LOGGING_NAME begins each line of the output.
CFLAGS := -O2 -ffreestanding -fno-pic -fno-stack-protector -fno-common
ifeq ($(shell uname -m),x86_64)
CFLAGS += -mno-red-zone -mcmodel=kernel
endif
quiet_cmd = @printf " [ %-17.17s ]  $(quiet_$(1))\n" "$(NV_MODULE_LOGGING_NAME)" && $($(1))
quiet_CC = CC           $<
quiet_LD = LD           $@
quiet_OBJCOPY = OBJCOPY      $@
OBJCOPY ?= objcopy

.DELETE_ON_ERROR:
$(OUTPUT): $(SRCS:%.c=_out/%.o)
	$(call quiet_cmd,LD) -r -o $@ $^
	$(call quiet_cmd,OBJCOPY) --remove-section=.note.gnu.property $@
_out/%.o: %.c
	@mkdir -p _out
	$(call quiet_cmd,CC) $(CFLAGS) -c $< -o $@
