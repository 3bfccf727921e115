// Package apply brings GPUs to the MIG modes and layouts that are desired, as transactions.
//
// A request can concern several GPUs. First all are observed and planned: if the request is
// infeasible on one of them, or a process uses something that has to go, nothing is touched.
// Then the lease on NVML is claimed, so that the other agents close their handles, and all
// that the request changes is observed and planned again. The journal on disk gets, before the first change, what
// each GPU is and what it shall be.
//
// Each GPU is a transaction of its own. It is changed step by step, and then read back: only
// what is observed counts. If a step fails, the GPU gets its old mode and layout back, with
// instances of the same profiles at the same places. The others are not affected: a layout
// that is in force may be in use at once, and what the node lacks is in the result. GPUs of
// one NVLink fabric that have to be reset together are one transaction.
//
// Steps are not recorded. They follow from what is observed, so that after a crash Recover
// reads the journal, observes, and does what is missing, in either direction.
package apply

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"outrigger.dev/pkg/devnode"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/gpu/nvml"
	"outrigger.dev/pkg/gpu/nvml/partition"
)

// Owner is the name of the claim on the lease.
const Owner = "mig-manager"

// Config says what an Applier works on.
type Config struct {
	// Session is the access to NVML. Its lease is claimed while GPUs are changed.
	Session *nvml.Session
	// StateDir is the folder of the journal. It is created if it is missing.
	StateDir string
	// Reset resets GPUs.
	Reset Resetter
	// Processes names the processes that use GPUs.
	Processes Processes
	// Sys is the host's /sys, which is the default. It tells whether NVML shows all GPUs of the node
	// to this process.
	Sys string
	// Containers returns the containers that hold GPUs, or MIG devices of them. It is
	// called before something is destroyed. If nil, only processes count as users.
	Containers func(ctx context.Context, gpus []mig.GPU) (map[gpu.UUID][]mig.Holder, error)
	// Board returns what a product can be divided into, and false if that is not known. It
	// is asked for GPUs of which the driver does not report it while MIG mode is off. If
	// nil, none is known.
	Board func(pci gpu.PCI, memoryBytes uint64) (mig.Board, bool)
	// Patience is how long a step is tried again while something uses the instance or the
	// GPU: handles of programs that end. If 0, it is 10 s.
	Patience time.Duration
	// Limit is how long the lease is held at most. If 0, it is 5 min.
	Limit time.Duration
	// Devices says where the device nodes of MIG devices are made after a change: a library of
	// the driver makes them only where it finds nvidia-modprobe. If Dev is empty, none are made.
	Devices devnode.Config
	Log     *slog.Logger
}

// Resetter resets GPUs that no process uses, together. While it works, this process has no
// handle of NVML.
type Resetter interface {
	Reset(ctx context.Context, gpus []mig.GPU) error
}

// Applier changes the MIG layouts of a node. It is not safe for concurrent use.
type Applier struct {
	cfg    Config
	reader *partition.Reader
	// changes is how many changes have begun: what was observed before one does not hold after it.
	changes int
}

// New returns an Applier. It does nothing until it is used.
func New(cfg Config) (*Applier, error) {
	if cfg.Session == nil || cfg.StateDir == "" || cfg.Reset == nil {
		return nil, errors.New("apply MIG layouts: a session, a state folder and a resetter are needed")
	}
	if cfg.Patience == 0 {
		cfg.Patience = 10 * time.Second
	}
	if cfg.Limit == 0 {
		cfg.Limit = 5 * time.Minute
	}
	if cfg.Board == nil {
		cfg.Board = func(gpu.PCI, uint64) (mig.Board, bool) { return mig.Board{}, false }
	}
	cfg.Sys = cmp.Or(cfg.Sys, "/sys")
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Applier{cfg: cfg, reader: partition.New()}, nil
}

// Request is what GPUs shall be.
type Request struct {
	// Seen is what the request was made from. If nil, or if it does not hold any more, all GPUs
	// are observed again.
	Seen *Observation
	// Desired is what the config asks of each GPU. Other GPUs are not touched, except that
	// a reset may concern the GPUs of a fabric: these get their layouts back.
	Desired map[gpu.UUID]mig.Desired
	// Layouts has the exact layouts of some of these GPUs, with the desired devices. The
	// others get the nearest layout that has them.
	Layouts map[gpu.UUID]mig.Layout
	// ModeOnly leaves the layouts as they are, as far as the mode allows it.
	ModeOnly bool
	// SkipReset leaves a mode that needs a reset pending.
	SkipReset bool
}

// Plan is what a request would change.
type Plan struct {
	// GPUs are those of the request, ordered by index, and those that are reset with them.
	GPUs []Change
	// Faulty are those of the request that do not answer. The others are changed all the same.
	Faulty []Outcomes
	// Unknown says why the containers that hold GPUs are not known. It is nil if they are known.
	Unknown error

	// held has the containers that the plan spares where it can.
	held map[gpu.UUID][]mig.Holder
}

// Change is what a request changes of one GPU.
type Change struct {
	// GPU is the GPU as it is.
	GPU mig.GPU
	// Target is what it shall be.
	Target mig.State
	// Mode is set if the mode changes, and Reset if the GPU has to be reset for it, or with
	// a GPU of its fabric.
	Mode, Reset bool
	// Steps lead to the layout. If the mode changes, the first ones empty the GPU.
	Steps []mig.Step
	// Holders are the containers and the processes in the way of the change. A process of a pod is left
	// out if a container of the pod is listed.
	Holders []mig.Holder

	// fabric is set for GPUs that have to be reset together.
	fabric bool
	// desired is what the request asks of the GPU, nil for one that is only reset.
	desired *mig.Desired
}

// Needed reports whether the GPU is not as it shall be.
func (c Change) Needed() bool { return c.Mode || c.Reset || len(c.Steps) > 0 }

// Needed reports whether the request changes anything. If not, it is in force.
func (p Plan) Needed() bool {
	return slices.ContainsFunc(p.GPUs, Change.Needed)
}

// Disturbs reports whether the plan can take something from a container or a process.
func (p Plan) Disturbs() bool { return slices.ContainsFunc(p.GPUs, Change.disturbs) }

// Resets reports whether the plan resets a GPU.
func (p Plan) Resets() bool {
	return slices.ContainsFunc(p.GPUs, func(c Change) bool { return c.Reset })
}

// Holders returns the containers and the processes in the way of the plan.
func (p Plan) Holders() []mig.Holder { return Holders(p.Busy()) }

// Err returns an error for the GPUs that do not answer, or nil.
func (p Plan) Err() error { return Result{p.Faulty}.Err() }

// Busy returns an *InUse for each GPU with holders in the way, or nil.
func (p Plan) Busy() error {
	var errs []error
	for _, c := range p.GPUs {
		if len(c.Holders) > 0 {
			errs = append(errs, &InUse{GPU: c.GPU.UUID, Index: c.GPU.Index, Holders: c.Holders})
		}
	}
	return errors.Join(errs...)
}

// Outcome is what became of a GPU.
type Outcome string

// The values of Outcome.
const (
	// Unchanged: it was as desired.
	Unchanged Outcome = "unchanged"
	// Applied: it is as desired.
	Applied Outcome = "applied"
	// Pending: the mode takes effect after a reset, which the request skips.
	Pending Outcome = "pending reset"
	// NeedsReboot: the mode takes effect after a reboot. The journal keeps the GPU, so that
	// Recover finishes the change then.
	NeedsReboot Outcome = "reboot required"
	// RolledBack: it is as it was before.
	RolledBack Outcome = "rolled back"
	// Unreadable: it does not answer, and nothing of it was changed.
	Unreadable Outcome = "unreadable"
	// Unfinished: it is neither. The journal keeps it for Recover.
	Unfinished Outcome = "unfinished"
)

// Result is what became of the GPUs of a request, ordered by index.
type Result struct{ GPUs []Outcomes }

// Outcomes is what became of one GPU.
type Outcomes struct {
	Index   int
	UUID    gpu.UUID
	Outcome Outcome
	// Steps is how many steps were taken, also those back.
	Steps int
	// Err is set for all but Unchanged, Applied and Pending. It names the GPU.
	Err error
}

// NeedsReboot reports whether a reboot is all that is missing. It is not while another GPU is in use, or
// has failed: the reboot would end its users.
func (r Result) NeedsReboot() bool {
	needs := false
	for _, o := range r.GPUs {
		if o.Err != nil && o.Outcome != NeedsReboot {
			return false
		}
		needs = needs || o.Outcome == NeedsReboot
	}
	return needs
}

// Err returns the errors of all GPUs, or nil.
func (r Result) Err() error {
	var errs []error
	for _, o := range r.GPUs {
		errs = append(errs, o.Err)
	}
	return errors.Join(errs...)
}
