/* stub.h: symbols that nvml.h declares and the library does not implement.
 * The linker prefers an implementation to the weak stub. The stubs know
 * nothing of nvml.h: they ignore their arguments. */
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
