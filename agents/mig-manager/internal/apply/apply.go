// Package apply changes the MIG modes and layouts of GPUs to the desired state, in transactions.
//
// A request can concern several GPUs. First, all GPUs are observed and planned. If the request is
// infeasible on one of them, or a user holds something that the plan destroys, no GPU is changed.
// Then the lease on NVML is claimed, so that the other agents close their handles, and the GPUs to
// change are observed and planned again. Before the first change, the journal on the disk gets the
// current and the desired state of each GPU.
//
// Each GPU is a separate transaction. It is changed step by step, and then observed: only the
// observed state counts. If a step fails, the GPU gets its old mode and layout back, with instances
// of the same profiles at the same places. The other GPUs are not affected, because their new layouts
// may be in use at once. The result says which GPUs have failed. GPUs of an NVLink fabric that have
// to be reset together are one transaction.
//
// Steps are not recorded, because they follow from the observed state. After a crash, Recover reads
// the journal, observes the GPUs, and performs the missing steps, forward or back.
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
	"outrigger.dev/pkg/gpu/index"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/gpu/nvml"
	"outrigger.dev/pkg/gpu/nvml/partition"
)

// Owner is the name of the agent in the claim of the lease.
const Owner = "mig-manager"

// Config configures an Applier.
type Config struct {
	// Session is the access to NVML. Its lease is claimed while GPUs are changed.
	Session *nvml.Session
	// Pins has the indices of the GPUs. If it is nil, GPUs have NVML's indices.
	Pins *index.Pins
	// StateDir is the folder of the journal. It is created if it is missing.
	StateDir string
	// Reset resets GPUs.
	Reset Resetter
	// Processes finds the names of the processes that use GPUs.
	Processes Processes
	// Sys is the host's /sys, which is the default. It shows whether NVML lists all GPUs of the node
	// to this process.
	Sys string
	// Containers returns the containers that hold GPUs or MIG devices of them. It is called before
	// instances are destroyed. If nil, only processes count as users.
	Containers func(ctx context.Context, gpus []mig.GPU) (map[gpu.UUID][]mig.Holder, error)
	// Changing is called before instances of these GPUs are destroyed, after Containers. It returns a function
	// that is called when the change has ended and the lease is released. Changing may be nil.
	Changing func(gpus []gpu.UUID) (ended func(context.Context))
	// Board returns the board of a product, and false if it is not known. It is called for GPUs whose
	// driver does not report the board while MIG mode is off. If nil, no board is known.
	Board func(pci gpu.PCI, memoryBytes uint64) (mig.Board, bool)
	// Patience is how long a step is tried again while the instance or the GPU is in use, for example
	// by handles of programs that are ending. Default: 10 s.
	Patience time.Duration
	// Limit is how long the lease is held at most. Default: 5 min.
	Limit time.Duration
	// Devices configures the device nodes of MIG devices that are created after a change. A library
	// of the driver creates them only if it finds nvidia-modprobe. If Dev is empty, none are created.
	Devices devnode.Config
	Log     *slog.Logger
}

// Resetter resets GPUs together. No process may use them. During the reset, this process has no NVML
// handles.
type Resetter interface {
	Reset(ctx context.Context, gpus []mig.GPU) error
}

// Applier changes the MIG layouts of a node. It is not safe for concurrent use.
type Applier struct {
	cfg    Config
	reader *partition.Reader
	// changes counts changes. An observation is valid until the next change.
	changes int
}

// New returns an Applier.
func New(cfg Config) (*Applier, error) {
	if cfg.Session == nil || cfg.StateDir == "" || cfg.Reset == nil {
		return nil, errors.New("apply MIG layouts: a session, a state folder and a resetter are needed")
	}
	cfg.Patience, cfg.Limit = cmp.Or(cfg.Patience, 10*time.Second), cmp.Or(cfg.Limit, 5*time.Minute)
	if cfg.Board == nil {
		cfg.Board = func(gpu.PCI, uint64) (mig.Board, bool) { return mig.Board{}, false }
	}
	cfg.Sys = cmp.Or(cfg.Sys, "/sys")
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Applier{cfg: cfg, reader: partition.New(cfg.Pins)}, nil
}

// Request is the desired state of GPUs.
type Request struct {
	// Seen is the Observation that the request is based on. If it is nil or not valid any more, all
	// GPUs are observed again.
	Seen *Observation
	// Desired has the desired state of each GPU. Other GPUs are changed only if they are on a fabric
	// and reset together with these. They get their layouts back.
	Desired map[gpu.UUID]mig.Desired
	// Layouts has exact layouts of some of these GPUs, with the desired devices. The other GPUs get
	// the nearest layout with the desired devices.
	Layouts map[gpu.UUID]mig.Layout
	// ModeOnly keeps the layouts, as far as the mode allows it.
	ModeOnly bool
	// SkipReset leaves a mode that needs a reset pending.
	SkipReset bool
}

// Plan has the changes for a request.
type Plan struct {
	// GPUs are the GPUs of the request and the GPUs that are reset with them, ordered by index.
	GPUs []Change
	// Faulty are the GPUs of the request that do not answer. The others are changed nevertheless.
	Faulty []Outcomes
	// Unknown says why the containers that hold GPUs are not known. It is nil if they are known.
	Unknown error

	// The map held has the containers whose MIG devices the plan keeps if possible.
	held map[gpu.UUID][]mig.Holder
}

// Change is the change of one GPU.
type Change struct {
	// GPU is the current state of the GPU.
	GPU mig.GPU
	// Target is the desired state.
	Target mig.State
	// Mode is set if the mode changes. Reset is set if the GPU has to be reset for that, or together
	// with a GPU of its fabric.
	Mode, Reset bool
	// Steps lead to the layout. If the mode changes, the first steps destroy all instances.
	Steps []mig.Step
	// Holders are the containers and processes that prevent the change. A process is not included if
	// a container of its pod is.
	Holders []mig.Holder

	// fabric is set for GPUs that have to be reset together.
	fabric bool
	// desired is the desired state in the request, nil for a GPU that is only reset.
	desired *mig.Desired
}

// Needed reports whether the GPU differs from the desired state.
func (c Change) Needed() bool { return c.Mode || c.Reset || len(c.Steps) > 0 }

// Needed reports whether the plan changes a GPU. If not, the request is in effect.
func (p Plan) Needed() bool {
	return slices.ContainsFunc(p.GPUs, Change.Needed)
}

// Disturbs reports whether the plan can destroy something that a container or process uses.
func (p Plan) Disturbs() bool { return slices.ContainsFunc(p.GPUs, Change.disturbs) }

// Resets reports whether the plan resets a GPU.
func (p Plan) Resets() bool {
	return slices.ContainsFunc(p.GPUs, func(c Change) bool { return c.Reset })
}

// Holders returns the containers and processes that prevent the plan.
func (p Plan) Holders() []mig.Holder { return Holders(p.Busy()) }

// Err returns an error for the GPUs that do not answer, or nil.
func (p Plan) Err() error { return Result{p.Faulty}.Err() }

// Busy returns an *InUse for each GPU with holders that prevent its change, or nil.
func (p Plan) Busy() error {
	var errs []error
	for _, c := range p.GPUs {
		if len(c.Holders) > 0 {
			errs = append(errs, &InUse{GPU: c.GPU.UUID, Index: c.GPU.Index, Holders: c.Holders})
		}
	}
	return errors.Join(errs...)
}

// Outcome is the result of a request for one GPU.
type Outcome string

// The values of Outcome.
const (
	// Unchanged: the GPU had the desired state.
	Unchanged Outcome = "unchanged"
	// Applied: the GPU has the desired state.
	Applied Outcome = "applied"
	// Pending: the mode takes effect after a reset, which the request skips.
	Pending Outcome = "pending reset"
	// NeedsReboot: the mode takes effect after a reboot. The journal keeps the GPU, so that Recover
	// finishes the change after the reboot.
	NeedsReboot Outcome = "reboot required"
	// RolledBack: the GPU has its previous state.
	RolledBack Outcome = "rolled back"
	// Unreadable: the GPU does not answer, and was not changed.
	Unreadable Outcome = "unreadable"
	// Unfinished: the GPU has neither the previous nor the desired state. The journal keeps it for Recover.
	Unfinished Outcome = "unfinished"
)

// Result has the outcomes of a request, ordered by the index of the GPU.
type Result struct{ GPUs []Outcomes }

// Outcomes is the outcome for one GPU.
type Outcomes struct {
	Index   int
	UUID    gpu.UUID
	Outcome Outcome
	// Steps is the number of steps, including steps of a rollback.
	Steps int
	// Err is set for all outcomes but Unchanged, Applied and Pending. It names the GPU.
	Err error
}

// NeedsReboot reports whether only a reboot is missing. It returns false if another GPU is in use or
// has failed, because the reboot would end the users of that GPU.
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
