package state

// #include "simstate.h"
import "C"

import (
	"fmt"
	"slices"
	"strconv"
)

const (
	// anySymbol is the Symbol of a Fault that concerns all symbols.
	anySymbol = "any"
	// killed is written in place of a return code. It makes a call kill its process.
	killed = "kill"
	// mostReturn is larger than all values of nvmlReturn_t and CUresult.
	mostReturn = 999
)

// Fault makes one call of Symbol fail, in any process.
type Fault struct {
	// Symbol is the name of a symbol, or "any".
	Symbol string `json:"symbol"`
	// Return is the code that the call returns without an effect. If Kill is set, the call kills its
	// process with SIGKILL instead.
	Return int  `json:"return,omitempty"`
	Kill   bool `json:"kill,omitempty"`
	// Call selects the call to fail. 1 is the next call.
	Call uint64 `json:"call"`
}

// String returns the fault on one line.
func (f Fault) String() string {
	what := "answers " + strconv.Itoa(f.Return)
	if f.Kill {
		what = "kills its process"
	}
	return fmt.Sprintf("call %d of %s %s", f.Call, f.Symbol, what)
}

// ParseFault parses the parts of SYMBOL.return=CODE@CALL.
func ParseFault(symbol, code, call string) (Fault, error) {
	f := Fault{Symbol: symbol, Kill: code == killed}
	var err error
	if f.Return, err = strconv.Atoi(code); !f.Kill && (err != nil || f.Return < 1 || f.Return > mostReturn) {
		return f, fmt.Errorf("%s.return: code %q: want a number of nvmlReturn_t, 1 to %d, or %q", symbol, code, mostReturn, killed)
	}
	if f.Call, err = strconv.ParseUint(call, 10, 32); err != nil {
		return f, fmt.Errorf("%s.return: call %q: want the number of a call, 1 for the next one, or 0 to end the fault", symbol, call)
	}
	if symbol != anySymbol && !slices.Contains(Symbols(), symbol) {
		return f, fmt.Errorf("%s.return: unknown symbol of NVML or the CUDA driver API, and not %q", symbol, anySymbol)
	}
	return f, nil
}

// SetFault makes one call fail. It replaces the previous fault. A fault with Call 0 only removes
// it.
func (s *State) SetFault(f Fault) error {
	fault := C.struct_sim_fault{left: C.uint64_t(f.Call), answer: C.uint32_t(f.Return), symbol: C.SIM_SYMBOLS}
	if f.Kill {
		fault.answer = C.SIM_KILL
	}
	if i := slices.Index(Symbols(), f.Symbol); i >= 0 {
		fault.symbol = C.uint32_t(i)
	}
	return s.update(func() error {
		C.sim_set_fault(s.sim, fault)
		return nil
	})
}

// fault returns the current fault, or nil.
func (s *State) fault() *Fault {
	now := C.sim_get_fault(s.sim)
	if now.left == 0 {
		return nil
	}
	f := &Fault{Symbol: anySymbol, Call: uint64(now.left)}
	if now.symbol != C.SIM_SYMBOLS {
		f.Symbol = Symbols()[now.symbol]
	}
	if f.Kill = now.answer == C.SIM_KILL; !f.Kill {
		f.Return = int(now.answer)
	}
	return f
}
