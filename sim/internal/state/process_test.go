package state_test

import (
	"errors"
	"os/exec"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/sim/internal/state"
)

// A process that ends uses nothing any more, whatever comes to its number.
func TestProcessesThatEndedDoNotCount(t *testing.T) {
	s := create(t, state.NewSpec("h100-80", 1))
	cmd := exec.CommandContext(t.Context(), "cat")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	living := state.Process{PID: cmd.Process.Pid, GPUInstance: state.WholeGPU, ComputeInstance: state.WholeGPU, MemoryBytes: 1 << 20}
	if err := s.AttachProcess(0, living); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]state.Process{living}, s.Show().GPUs[0].Processes); diff != "" {
		t.Errorf("while it lives (-want +got):\n%s", diff)
	}
	if err := s.BeginReset(0); !errors.Is(err, state.ErrInUse) {
		t.Errorf("reset: got error %v, want %v", err, state.ErrInUse)
	}
	if err := errors.Join(stdin.Close(), cmd.Wait()); err != nil {
		t.Fatal(err)
	}
	if got := s.Show().GPUs[0].Processes; len(got) != 0 {
		t.Errorf("after it ended: got %v, want no process", got)
	}
	if err := s.AttachProcess(0, living); err == nil {
		t.Error("attached a process that has ended")
	}
	reset(t, s)
}

func TestTheProcessTableIsFinite(t *testing.T) {
	const room = 256
	s := create(t, state.NewSpec("h100-80", 1))
	p := state.Process{GPUInstance: state.WholeGPU, ComputeInstance: state.WholeGPU}
	for p.PID = 1; p.PID <= room; p.PID++ {
		if err := s.PutProcess(0, p); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.PutProcess(0, p); !errors.Is(err, state.ErrNoRoom) {
		t.Errorf("got error %v, want %v", err, state.ErrNoRoom)
	}
	p.PID, p.MemoryBytes = 7, 1<<30
	if err := s.PutProcess(0, p); err != nil {
		t.Errorf("more memory for one that is there: %v", err)
	}
	if got, err := s.Processes(0); err != nil || len(got) != room {
		t.Errorf("got %d processes, error %v, want %d", len(got), err, room)
	}
}

func TestProcessesNeedAnInstance(t *testing.T) {
	s, board := divided(t, "h100-80")
	layout(t, s, board)
	for name, p := range map[string]state.Process{
		"no such GPU instance":     {PID: 1, GPUInstance: 9, ComputeInstance: 0},
		"no such compute instance": {PID: 1, GPUInstance: 2, ComputeInstance: 3},
	} {
		if err := s.PutProcess(0, p); !errors.Is(err, state.ErrNoInstance) {
			t.Errorf("%s: got error %v, want %v", name, err, state.ErrNoInstance)
		}
	}
	if err := s.DropProcess(0, 1); !errors.Is(err, state.ErrNoProcess) {
		t.Error("dropped a process that was not there")
	}
}
