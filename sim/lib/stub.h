/* stub.h: stubs for all symbols that nvml.h declares. The linker prefers an
 * implementation to the weak stub. The stubs do not include nvml.h, because they
 * ignore their arguments. */
#ifndef STUB_H
#define STUB_H

#include "simstate.h"

unsigned int session_stub(enum sim_symbol symbol);

#define SIM_STUB(name)                                                         \
	unsigned int name(void);                                                     \
	__attribute__((weak, visibility("default"))) unsigned int name(void)            \
	{                                                                      \
		return session_stub(SIM_SYM_##name);                           \
	}

#endif
