package state

// #include "simstate.h"
import "C"

import (
	"fmt"
	"slices"
	"strings"
)

// Models returns the names of the products that the simulator knows, in the order of sim_models.c.
func Models() []string {
	var names []string
	for i := C.uint32_t(0); ; i++ {
		m := C.sim_model_at(i)
		if m == nil {
			return names
		}
		names = append(names, getString(m.gpu.model[:]))
	}
}

// lookupModel returns the model with a name. The error lists the names.
func lookupModel(name string) (*C.struct_sim_model, error) {
	i := slices.Index(Models(), name)
	if i < 0 {
		return nil, fmt.Errorf("model %q is unknown: want one of %s", name, strings.Join(Models(), ", "))
	}
	return C.sim_model_at(C.uint32_t(i)), nil
}
