/* sim_fault.h: one call that fails, or that kills its caller. */
#ifndef SIM_FAULT_H
#define SIM_FAULT_H

#include <stdint.h>

/* The value of answer for a call that ends its process by SIGKILL instead. */
#define SIM_KILL 1000u

struct sim_fault {
	uint64_t left;   /* the number of the failing call from now on; 0: none */
	uint32_t symbol; /* enum sim_symbol; SIM_SYMBOLS: any */
	uint32_t answer; /* nvmlReturn_t, or SIM_KILL */
};

struct sim; /* an open state file */

/* sim_set_fault needs sim_lock. A fault whose field left is 0 removes the current
 * fault. */
void sim_set_fault(struct sim *sim, struct sim_fault fault);
struct sim_fault sim_get_fault(struct sim *sim);
/* sim_take_fault counts a call of a symbol. It returns the return code if this is
 * the call to fail, else 0. */
uint32_t sim_take_fault(struct sim *sim, uint32_t symbol);

#endif
