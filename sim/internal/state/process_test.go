package state_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/sim/internal/state"
)

// A process that ends uses nothing any more, whatever comes to its number.
func TestProcessesThatEndedDoNotCount(t *testing.T) {
	s := create(t, state.NewSpec("h100-80", 1))
	cmd := exec.CommandContext(t.Context(), "cat")
	stdin, err := cmd.StdinPipe()
	assert.NilError(t, err)
	assert.NilError(t, cmd.Start())
	living := state.Process{PID: cmd.Process.Pid, GPUInstance: state.WholeGPU, ComputeInstance: state.WholeGPU, MemoryBytes: 1 << 20}
	assert.NilError(t, s.AttachProcess(0, living))
	if diff := cmp.Diff([]state.Process{living}, s.Show().GPUs[0].Processes); diff != "" {
		t.Errorf("while it lives (-want +got):\n%s", diff)
	}
	assert.ErrorIs(t, s.BeginReset(0), state.ErrInUse)
	assert.NilError(t, errors.Join(stdin.Close(), cmd.Wait()))
	if got := s.Show().GPUs[0].Processes; len(got) != 0 {
		t.Errorf("after it ended: got %v, want no process", got)
	}
	if err := s.AttachProcess(0, living); err == nil {
		t.Error("attached a process that has ended")
	}
	reset(t, s)
}

// asUser makes the test binary a process that uses the GPU of a state file.
const asUser = "SIM_STATE_TEST_USE"

func TestMain(m *testing.M) {
	path := os.Getenv(asUser)
	if path == "" {
		m.Run()
		return
	}
	if err := use(path); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	fmt.Println("in use")
	io.Copy(io.Discard, os.Stdin)
}

// use attaches this process to the first MIG device of a GPU.
func use(path string) error {
	s, err := state.Open(path)
	if err != nil {
		return err
	}
	mig, err := s.MIG(0)
	if err != nil {
		return err
	}
	return s.AttachProcess(0, state.Process{PID: os.Getpid(), GPUInstance: mig.GPUInstances[0].ID, ComputeInstance: 0})
}

// What a container's program uses is in use until it ends, however it ends.
func TestProcessesInContainersCount(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("another user and another PID namespace need root")
	}
	tests := map[string]struct {
		attr   syscall.SysProcAttr
		listed int
	}{
		"it may only read the state":     {syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}, 0},
		"it has processes of its own":    {syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}, 1},
		"neither, as on the node itself": {syscall.SysProcAttr{}, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s, board := divided(t, "h100-80")
			profile, whole := find(t, board, "2g.20gb")
			gi := place(t, s, profile, state.Anywhere)
			ci, err := s.CreateComputeInstance(0, gi, whole, state.Anywhere)
			assert.NilError(t, err)
			stop := startUser(t, s.Path(), &test.attr)
			if got, err := s.Processes(0); err != nil || len(got) != test.listed {
				t.Errorf("got processes %v, error %v, want %d", got, err, test.listed)
			}
			for what, err := range map[string]error{
				"compute instance": s.DestroyComputeInstance(0, ci), "reset": s.BeginReset(0),
			} {
				if !errors.Is(err, state.ErrInUse) {
					t.Errorf("%s: got error %v, want %v", what, err, state.ErrInUse)
				}
			}
			for gpu, want := range map[[2]int]bool{{gi.ID, 0}: true, {gi.ID, state.WholeGPU}: true, {gi.ID + 1, 0}: false, {state.WholeGPU, state.WholeGPU}: true} {
				if got, err := s.InUse(0, gpu[0], gpu[1]); err != nil || got != want {
					t.Errorf("instance %v in use: got %t, error %v, want %t", gpu, got, err, want)
				}
			}
			stop()
			assert.NilError(t, s.DestroyComputeInstance(0, ci), "after it was killed")
		})
	}
}

// startUser starts a process that uses the GPU, and returns what kills it.
func startUser(t *testing.T, path string, attr *syscall.SysProcAttr) (stop func()) {
	t.Helper()
	for dir := filepath.Dir(path); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		assert.NilError(t, os.Chmod(dir, 0o755))
	}
	assert.NilError(t, os.Chmod(path, 0o644))
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env, cmd.SysProcAttr, cmd.Stderr = append(os.Environ(), asUser+"="+path), attr, os.Stderr
	stdin, err := cmd.StdinPipe()
	assert.NilError(t, err)
	stdout, err := cmd.StdoutPipe()
	assert.NilError(t, err)
	assert.NilError(t, cmd.Start())
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || line != "in use\n" {
		t.Fatalf("the process that uses the GPU: got %q, %v", line, err)
	}
	return func() {
		assert.NilError(t, cmd.Process.Kill())
		stdin.Close()
		if err := cmd.Wait(); err == nil {
			t.Error("the process ended by itself")
		}
	}
}

func TestTheProcessTableIsFinite(t *testing.T) {
	const room = 256
	s := create(t, state.NewSpec("h100-80", 1))
	p := state.Process{GPUInstance: state.WholeGPU, ComputeInstance: state.WholeGPU}
	for p.PID = 1; p.PID <= room; p.PID++ {
		assert.NilError(t, s.PutProcess(0, p))
	}
	assert.ErrorIs(t, s.PutProcess(0, p), state.ErrNoRoom)
	p.PID, p.MemoryBytes = 7, 1<<30
	assert.NilError(t, s.PutProcess(0, p), "more memory for one that is there")
	if got, err := s.Processes(0); err != nil || len(got) != room {
		t.Errorf("got %d processes, error %v, want %d", len(got), err, room)
	}
	assert.NilError(t, s.Unplug(0))
	if _, err := s.Plug(state.GPUSpec{Model: "h100-80"}); err != nil {
		t.Fatal(err)
	}
	assert.NilError(t, s.PutProcess(0, p), "on another GPU")
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
	assert.ErrorIs(t, s.DropProcess(0, 1), state.ErrNoProcess)
}
