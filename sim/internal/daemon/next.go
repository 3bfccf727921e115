package daemon

import "outrigger.dev/sim/internal/pool"

// observed is what the daemon finds on the machine.
type observed struct {
	// real is why the machine must not simulate GPUs, "" if it may.
	real string
	// folder is set if the folder of a simulated node exists, complete or not.
	folder bool
	// made is the record of the GPUs that were completely made, nil if there is none.
	made *record
	// version is the version of the simulator that runs.
	version string
}

// record describes GPUs that were completely made.
type record struct {
	Version    string          `json:"version"`
	Simulation pool.Simulation `json:"simulation"`
}

// action is a change of the machine.
type action int

const (
	// idle changes nothing, because the node has no simulated GPUs and needs none.
	idle action = iota
	// keep restores what is missing of the GPUs.
	keep
	// replace makes other GPUs.
	replace
	// remove removes the GPUs.
	remove
)

// next returns the action toward the wanted GPUs, nil for none. With a problem, which means that the labels
// do not say what is wanted, existing GPUs stay.
func next(seen observed, want *pool.Simulation, problem error) action {
	switch {
	case seen.folder && seen.real != "", seen.folder && problem == nil && want == nil:
		return remove
	case seen.real != "":
		return idle
	case problem != nil && seen.folder && seen.made != nil:
		return keep
	case problem != nil || want == nil:
		return idle
	case seen.folder && seen.made.is(seen.version, *want):
		return keep
	}
	return replace
}

func (r *record) is(version string, want pool.Simulation) bool {
	return r != nil && r.Version == version && r.Simulation.Equal(want)
}
