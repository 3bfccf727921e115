/* sim_fault.h: one call that fails, or that kills its caller. */
#ifndef SIM_FAULT_H
#define SIM_FAULT_H

#include <stdint.h>

/* The answer of a call that ends its process by SIGKILL instead. */
#define SIM_KILL 1000u

struct sim_fault {
	uint64_t left;   /* the how-manieth call from now on fails; 0: none */
	uint32_t symbol; /* enum sim_symbol; SIM_SYMBOLS: any */
	uint32_t answer; /* nvmlReturn_t, or SIM_KILL */
};

struct sim; /* an open state file */

/* sim_set_fault needs sim_lock. A fault with left 0 ends the one there is. */
void sim_set_fault(struct sim *sim, struct sim_fault fault);
struct sim_fault sim_get_fault(struct sim *sim);
/* sim_take_fault returns the answer of this call of a symbol, 0 for most. */
uint32_t sim_take_fault(struct sim *sim, uint32_t symbol);

#endif
