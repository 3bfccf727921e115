package state_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"outrigger.dev/sim/internal/state"
)

// player makes random changes of one GPU and knows what each must answer.
type player struct {
	t     *testing.T
	rand  *rand.Rand
	s     *state.State
	board state.Board
	log   []string
	// pids of the processes that it has put on the GPU.
	procs []state.Process
	stale []state.GPUInstance
}

func (p *player) step() {
	moves := []func(){p.mode, p.reset, p.createGI, p.createGI, p.createGI, p.createGI, p.createCI, p.createCI, p.createCI, p.destroyGI, p.destroyCI, p.destroyStale, p.putProcess, p.dropProcess}
	moves[p.rand.IntN(len(moves))]()
	mig := readMIG(p.t, p.s)
	if found := faults(p.board, mig); len(found) > 0 {
		p.t.Fatalf("after %v: %v in %+v", p.log, found, mig)
	}
}

func (p *player) say(format string, args ...any) { p.log = append(p.log, fmt.Sprintf(format, args...)) }

// want ends the test if a change was answered in another way.
func (p *player) want(got, want error) {
	p.t.Helper()
	if !errors.Is(got, want) || want == nil && got != nil {
		p.t.Fatalf("after %v: got error %v, want %v", p.log, got, want)
	}
}

func (p *player) mode() {
	on := p.rand.IntN(3) > 0
	p.say("mode %t", on)
	before := readMIG(p.t, p.s)
	activation, err := p.s.SetMIGMode(0, on)
	after := readMIG(p.t, p.s)
	switch {
	case before.Enabled == on:
		p.want(err, nil)
	case p.board.ModeNeedsReset:
		p.want(err, nil)
		if after.Enabled == on || after.Pending != on || activation == state.ModeActive {
			p.t.Fatalf("after %v: got %s and %+v, want the mode pending", p.log, activation, after)
		}
	case len(p.procs) > 0:
		p.want(err, state.ErrInUse)
	default:
		p.want(err, nil)
		if after.Enabled != on || len(after.GPUInstances) > 0 {
			p.t.Fatalf("after %v: got %+v, want the mode %t and no instances", p.log, after, on)
		}
	}
}

func (p *player) reset() {
	p.say("reset")
	before := readMIG(p.t, p.s)
	if len(p.procs) > 0 {
		p.want(p.s.BeginReset(0), state.ErrInUse)
		return
	}
	p.want(p.s.BeginReset(0), nil)
	if _, err := p.s.CreateGPUInstance(0, p.board.Profiles[0], state.Anywhere); !errors.Is(err, state.ErrLost) {
		p.t.Fatalf("create during a reset: got error %v, want %v", err, state.ErrLost)
	}
	p.want(p.s.EndReset(0), nil)
	if after := readMIG(p.t, p.s); after.Enabled != before.Pending || len(after.GPUInstances) > 0 {
		p.t.Fatalf("after %v: got %+v", p.log, after)
	}
}

// createGI tries a place, and knows from the rules whether it is free.
func (p *player) createGI() {
	profile := p.board.Profiles[p.rand.IntN(len(p.board.Profiles))]
	mig := readMIG(p.t, p.s)
	free := p.free(mig, profile)
	capacity, err := p.s.Capacity(0, profile)
	p.want(err, nil)
	start := state.Anywhere
	if p.rand.IntN(2) == 0 {
		start = p.rand.IntN(p.board.MemorySlices + 1)
	}
	p.say("create %s@%d", profile.Name, start)
	gi, err := p.s.CreateGPUInstance(0, profile, start)
	switch {
	case !mig.Enabled:
		p.want(err, state.ErrNoMIG)
		return
	case start != state.Anywhere && !slices.Contains(profile.Starts, start):
		p.want(err, state.ErrArgument)
		return
	case len(free) == 0, start != state.Anywhere && !slices.Contains(free, start):
		p.want(err, state.ErrNoRoom)
	default:
		p.want(err, nil)
		if !slices.Contains(free, gi.Start) || start != state.Anywhere && gi.Start != start {
			p.t.Fatalf("after %v: got %+v, want it at one of %v", p.log, gi, free)
		}
	}
	if capacity > len(free) || (capacity == 0) != (len(free) == 0) {
		p.t.Fatalf("after %v: capacity %d with the free places %v", p.log, capacity, free)
	}
}

// free returns where a profile still fits.
func (p *player) free(mig state.MIG, profile state.GIProfile) []int {
	var free []int
	for _, start := range profile.Starts {
		with := mig
		with.Enabled = true
		with.GPUInstances = append(slices.Clone(mig.GPUInstances), state.GPUInstance{
			ID: -1, Minor: -1, Profile: profile.Name, Start: start, Size: profile.Size,
		})
		if len(faults(p.board, with)) == 0 {
			free = append(free, start)
		}
	}
	return free
}

func (p *player) createCI() {
	mig := readMIG(p.t, p.s)
	if len(mig.GPUInstances) == 0 {
		return
	}
	gi := mig.GPUInstances[p.rand.IntN(len(mig.GPUInstances))]
	parent, _ := find(p.t, p.board, gi.Profile)
	profile := parent.Compute[p.rand.IntN(len(parent.Compute))]
	p.say("create %s in %d", profile.Name, gi.ID)
	fits := false
	for _, start := range profile.Starts {
		fits = fits || !slices.ContainsFunc(gi.ComputeInstances, func(ci state.ComputeInstance) bool {
			return start < ci.Start+ci.Size && ci.Start < start+profile.Slices
		})
	}
	_, err := p.s.CreateComputeInstance(0, gi, profile, state.Anywhere)
	if fits {
		p.want(err, nil)
	} else {
		p.want(err, state.ErrNoRoom)
	}
}

func (p *player) destroyGI() {
	mig := readMIG(p.t, p.s)
	if len(mig.GPUInstances) == 0 {
		return
	}
	gi := mig.GPUInstances[p.rand.IntN(len(mig.GPUInstances))]
	p.say("destroy %d", gi.ID)
	err := p.s.DestroyGPUInstance(0, gi)
	if len(gi.ComputeInstances) > 0 {
		p.want(err, state.ErrInUse)
		return
	}
	p.want(err, nil)
	p.stale = append(p.stale, gi)
}

// destroyStale uses what was kept of an instance that is gone, also where
// another one lies in its place by now.
func (p *player) destroyStale() {
	if len(p.stale) == 0 {
		return
	}
	want := state.ErrNoInstance
	if !readMIG(p.t, p.s).Enabled {
		want = state.ErrNoMIG
	}
	p.say("destroy what is gone")
	p.want(p.s.DestroyGPUInstance(0, p.stale[p.rand.IntN(len(p.stale))]), want)
}

func (p *player) destroyCI() {
	for _, gi := range readMIG(p.t, p.s).GPUInstances {
		for _, ci := range gi.ComputeInstances {
			if p.rand.IntN(3) > 0 {
				continue
			}
			p.say("destroy %d/%d", gi.ID, ci.ID)
			var want error
			if slices.ContainsFunc(p.procs, func(q state.Process) bool { return q.GPUInstance == gi.ID && q.ComputeInstance == ci.ID }) {
				want = state.ErrInUse
			}
			p.want(p.s.DestroyComputeInstance(0, ci), want)
			return
		}
	}
}

func (p *player) putProcess() {
	process := state.Process{PID: 1 + p.rand.IntN(9), GPUInstance: state.WholeGPU, ComputeInstance: state.WholeGPU}
	for _, gi := range readMIG(p.t, p.s).GPUInstances {
		for _, ci := range gi.ComputeInstances {
			process.GPUInstance, process.ComputeInstance = gi.ID, ci.ID
		}
	}
	p.say("process %+v", process)
	p.want(p.s.PutProcess(0, process), nil)
	if !slices.Contains(p.procs, process) {
		p.procs = append(p.procs, process)
	}
}

func (p *player) dropProcess() {
	for len(p.procs) > 0 {
		p.say("end of %+v", p.procs[0])
		pid := p.procs[0].PID
		p.want(p.s.DropProcess(0, pid), nil)
		p.procs = slices.DeleteFunc(p.procs, func(q state.Process) bool { return q.PID == pid })
	}
}

// clear takes everything off the GPU, piece by piece.
func (p *player) clear() {
	p.dropProcess()
	for _, gi := range readMIG(p.t, p.s).GPUInstances {
		for _, ci := range gi.ComputeInstances {
			p.want(p.s.DestroyComputeInstance(0, ci), nil)
		}
		p.want(p.s.DestroyGPUInstance(0, gi), nil)
	}
}
