/* sim_fault.c: one call that fails, or that kills its caller. */
#include "simstate.h"

#include <signal.h>
#include <unistd.h>

void sim_set_fault(struct sim *sim, struct sim_fault fault)
{
	struct sim_fault *now = &sim_map(sim)->fault;

	__atomic_store_n(&now->left, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&now->symbol, fault.symbol, __ATOMIC_SEQ_CST);
	__atomic_store_n(&now->answer, fault.answer, __ATOMIC_SEQ_CST);
	__atomic_store_n(&now->left, fault.left, __ATOMIC_SEQ_CST);
}

struct sim_fault sim_get_fault(struct sim *sim)
{
	const struct sim_fault *now = &sim_map(sim)->fault;

	return (struct sim_fault){
		.left = __atomic_load_n(&now->left, __ATOMIC_SEQ_CST),
		.symbol = __atomic_load_n(&now->symbol, __ATOMIC_SEQ_CST),
		.answer = __atomic_load_n(&now->answer, __ATOMIC_SEQ_CST),
	};
}

uint32_t sim_take_fault(struct sim *sim, uint32_t symbol)
{
	struct sim_fault fault = sim_get_fault(sim);
	uint64_t *left = &sim_map(sim)->fault.left;

	if (fault.symbol != symbol && fault.symbol != SIM_SYMBOLS)
		return 0;
	while (fault.left != 0) {
		if (!__atomic_compare_exchange_n(left, &fault.left, fault.left - 1, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
			continue; /* another call was faster, fault.left is the new value */
		if (fault.left > 1)
			return 0;
		if (fault.answer == SIM_KILL)
			kill(getpid(), SIGKILL);
		return fault.answer;
	}
	return 0;
}
