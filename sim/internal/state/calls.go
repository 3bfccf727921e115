package state

// #include "simstate.h"
import "C"

import "fmt"

// Symbols returns the names of the symbols that can be counted and forced, by their number in
// simstate.h.
func Symbols() []string {
	names := make([]string, C.SIM_SYMBOLS)
	for i := range names {
		names[i] = C.GoString(C.sim_symbol_name(C.uint32_t(i)))
	}
	return names
}

// Calls returns the number of calls of each symbol since the last reset. It includes all processes
// that may write the state file. Symbols without calls are left out.
func (s *State) Calls() map[string]uint64 {
	calls := map[string]uint64{}
	for i, name := range Symbols() {
		if n := C.sim_calls(s.sim, C.uint32_t(i)); n > 0 {
			calls[name] = uint64(n)
		}
	}
	return calls
}

// ResetCalls sets all counters to zero.
func (s *State) ResetCalls() error {
	return s.update(func() error {
		for i := range C.uint32_t(C.SIM_SYMBOLS) {
			C.sim_reset_calls(s.sim, i)
		}
		return nil
	})
}

// ForceReturn makes a symbol return ret without an effect. ret is a value of nvmlReturn_t or
// CUresult. 0 removes the forced return code.
func (s *State) ForceReturn(symbol string, ret int) error {
	for i, name := range Symbols() {
		if name != symbol {
			continue
		}
		if ret < 0 || ret > 999 {
			return fmt.Errorf("force return code %[2]d on %[1]s: want 1 to 999, or 0 to end it", symbol, ret)
		}
		return s.update(func() error {
			C.sim_force(s.sim, C.uint32_t(i), C.uint32_t(ret))
			return nil
		})
	}
	return fmt.Errorf("force %s: unknown symbol of NVML or the CUDA driver API", symbol)
}

// forced returns the forced return codes by symbol.
func (s *State) forced() map[string]int {
	forced := map[string]int{}
	for i, name := range Symbols() {
		if ret := C.sim_forced(s.sim, C.uint32_t(i)); ret != 0 {
			forced[name] = int(ret)
		}
	}
	return forced
}
