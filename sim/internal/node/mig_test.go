package node_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/sim/internal/node"
	"outrigger.dev/sim/internal/state"
)

// divided is a node whose GPUs have the MIG mode on.
func divided(t *testing.T, model string, gpus int) *node.Node {
	t.Helper()
	n := create(t, config(t, model, gpus))
	for _, g := range n.State().Show().GPUs {
		activation, err := n.SetMIGMode(g, true)
		if err == nil && activation != state.ModeActive {
			err = n.Reset(t.Context(), g, 0)
		}
		assert.NilError(t, err)
	}
	return n
}

func gpu(n *node.Node, index int) state.GPU { return n.State().Show().GPUs[index] }

// requests reads instances as the command line writes them.
func requests(t *testing.T, texts ...string) []node.Request {
	t.Helper()
	var list []node.Request
	for _, text := range texts {
		r, err := node.ParseRequest(text)
		assert.NilError(t, err)
		list = append(list, r)
	}
	return list
}

func createMIG(t *testing.T, n *node.Node, index int, texts ...string) {
	t.Helper()
	if _, err := n.CreateMIG(gpu(n, index), requests(t, texts...)); err != nil {
		t.Fatal(err)
	}
}

// profiles lists the MIG devices of a GPU, those of one GPU instance together.
func profiles(g state.GPU) []string {
	var list []string
	for _, gi := range g.MIG.GPUInstances {
		var parts []string
		for _, ci := range gi.ComputeInstances {
			parts = append(parts, ci.Profile)
		}
		list = append(list, strings.Join(parts, " "))
	}
	return list
}

// lines returns those of a listing that are not in another one.
func lines(all, without string) string {
	known := map[string]bool{}
	for line := range strings.Lines(without) {
		known[line] = true
	}
	var b strings.Builder
	for line := range strings.Lines(all) {
		if !known[line] {
			b.WriteString(line)
		}
	}
	return b.String()
}

func TestInstancesShowInProcfsAndDev(t *testing.T) {
	n := divided(t, "a100-40", 2)
	before := tree(t, n)
	createMIG(t, n, 1, "1c.3g.20gb@4", "1c.3g.20gb")
	const nodes = `Dcr--r--r-- dev/nvidia-caps/nvidia-cap156 509:156
Dcr--r--r-- dev/nvidia-caps/nvidia-cap157 509:157
Dcr--r--r-- dev/nvidia-caps/nvidia-cap158 509:158
`
	const files = `drwxr-xr-x proc/driver/nvidia/capabilities/gpu1/mig/gi2
-r--r--r-- proc/driver/nvidia/capabilities/gpu1/mig/gi2/access
drwxr-xr-x proc/driver/nvidia/capabilities/gpu1/mig/gi2/ci0
-r--r--r-- proc/driver/nvidia/capabilities/gpu1/mig/gi2/ci0/access
drwxr-xr-x proc/driver/nvidia/capabilities/gpu1/mig/gi2/ci1
-r--r--r-- proc/driver/nvidia/capabilities/gpu1/mig/gi2/ci1/access
`
	if diff := cmp.Diff(nodes+files, lines(tree(t, n), before)); diff != "" {
		t.Errorf("what instances add (-want +got):\n%s", diff)
	}
	root := n.Root()
	minors := read(t, filepath.Join(root, "proc/driver/nvidia-caps/mig-minors"))
	for path, want := range map[string]string{"gi2": "156", "gi2/ci0": "157", "gi2/ci1": "158"} {
		access := read(t, filepath.Join(root, "proc/driver/nvidia/capabilities/gpu1/mig", path, "access"))
		if access != "DeviceFileMinor: "+want+"\nDeviceFileMode: 292\nDeviceFileModify: 1\n" {
			t.Errorf("%s: got %q, want minor %s", path, access, want)
		}
		if !strings.Contains(minors, "gpu1/"+path+"/access "+want+"\n") {
			t.Errorf("%s: mig-minors says another number than %s", path, want)
		}
	}
	assert.NilError(t, n.DestroyMIG(gpu(n, 1), state.WholeGPU, state.WholeGPU))
	// nvidia-modprobe makes the nodes, and nobody removes them.
	if diff := cmp.Diff(nodes, lines(tree(t, n), before)); diff != "" {
		t.Errorf("what instances leave (-want +got):\n%s", diff)
	}
	setDriver(t, n, false)
	setDriver(t, n, true)
	if diff := cmp.Diff(before, tree(t, n)); diff != "" {
		t.Errorf("after the driver was loaded anew (-want +got):\n%s", diff)
	}
}

// elsewhere is the state as a program sees it that does not see the folders of the node, and a
// profile of its GPU.
func elsewhere(t *testing.T, n *node.Node) (*state.State, state.GIProfile) {
	t.Helper()
	other, err := state.Open(filepath.Join(n.Root(), "state"))
	assert.NilError(t, err)
	t.Cleanup(func() { other.Close() })
	board, err := other.Board(0)
	assert.NilError(t, err)
	profile, _, err := board.Find("1g.10gb")
	assert.NilError(t, err)
	return other, profile
}

// The kernel shows instances at once, and makes no device nodes.
func TestInstancesAreFollowed(t *testing.T) {
	n := divided(t, "h100-80", 1)
	before := tree(t, n)
	agenttest.Run(t, func(ctx context.Context) error { return node.FollowInstances(ctx, n.Root(), node.Machine(), false) })
	other, profile := elsewhere(t, n)
	const files = `drwxr-xr-x proc/driver/nvidia/capabilities/gpu0/mig/gi7
-r--r--r-- proc/driver/nvidia/capabilities/gpu0/mig/gi7/access
`
	change := func(made, gone func()) {
		t.Helper()
		gi, err := other.CreateGPUInstance(0, profile, 0)
		assert.NilError(t, err)
		made()
		assert.NilError(t, other.DestroyGPUInstance(0, gi))
		gone()
	}
	access := filepath.Join(n.Root(), "proc/driver/nvidia/capabilities/gpu0/mig/gi7")
	begun := func() { // the kernel
		for range 500 {
			if _, err := os.Lstat(access); err == nil {
				return
			}
			<-time.After(10 * time.Millisecond)
		}
		t.Fatal("the kernel shows no instance")
	}
	change(begun, func() {})
	shows := func(want string) func() {
		return func() {
			t.Helper()
			if got := lines(tree(t, n), before); got != want {
				t.Errorf("the kernel shows %q, want %q", got, want)
			}
		}
	}
	for range 20 {
		change(shows(files), shows(""))
	}
}

// A program that has no place to write to leaves it to the next command.
func TestInstancesOfOtherProgramsShowLater(t *testing.T) {
	n := divided(t, "h100-80", 1)
	other, profile := elsewhere(t, n)
	gi, err := other.CreateGPUInstance(0, profile, 0)
	assert.NilError(t, err)
	access := filepath.Join(n.Root(), "proc/driver/nvidia/capabilities/gpu0/mig/gi7/access")
	device := filepath.Join(n.Root(), "dev/nvidia-caps/nvidia-cap66")
	for _, path := range []string{access, device} {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s is there already", path)
		}
	}
	command := func() {
		t.Helper()
		assert.NilError(t, n.SetField("0", "temperature", "50"))
	}
	command()
	var st unix.Stat_t
	assert.NilError(t, errors.Join(unix.Lstat(access, &st), unix.Lstat(device, &st)), "after the next command")
	assert.NilError(t, other.DestroyGPUInstance(0, gi))
	command()
	if _, err := os.Lstat(filepath.Dir(access)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after it was destroyed: got %v, want it gone", err)
	}
}

func TestCreateMIG(t *testing.T) {
	tests := map[string]struct {
		first, second []string
		want          []string
		wantErr       string
	}{
		"whole instances":                  {[]string{"3g.20gb", "2g.10gb", "1g.5gb"}, nil, []string{"3g.20gb", "2g.10gb", "1g.5gb"}, ""},
		"numbers of nvidia-smi":            {[]string{"9", "19"}, nil, []string{"3g.20gb", "1g.5gb"}, ""},
		"places that are named":            {[]string{"1g.5gb@0", "3g.20gb@4", "2g.10gb@2"}, nil, []string{"3g.20gb", "2g.10gb", "1g.5gb"}, ""},
		"parts share while they fit":       {[]string{"1c.2g.10gb", "1c.2g.10gb", "1c.2g.10gb"}, nil, []string{"1c.2g.10gb", "1c.2g.10gb 1c.2g.10gb"}, ""},
		"parts of what others made do not": {[]string{"1c.3g.20gb"}, []string{"1c.3g.20gb"}, []string{"1c.3g.20gb", "1c.3g.20gb"}, ""},
		"parts at two places":              {[]string{"1c.3g.20gb@0", "1c.3g.20gb@4", "1c.3g.20gb@0"}, nil, []string{"1c.3g.20gb 1c.3g.20gb", "1c.3g.20gb"}, ""},
		"the last has no room":             {[]string{"2g.10gb@0"}, []string{"1c.3g.20gb", "1c.3g.20gb", "4g.20gb"}, []string{"2g.10gb"}, "5 of 7 compute slices are taken"},
		"a place where it cannot be":       {nil, []string{"2g.10gb@0", "3g.20gb@2"}, nil, "3g.20gb may start at the memory slices [0 4]"},
		"a profile of another product":     {nil, []string{"1g.10gb", "1g.18gb"}, nil, `profile "1g.18gb"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			n := divided(t, "a100-40", 1)
			createMIG(t, n, 0, test.first...)
			made, err := n.CreateMIG(gpu(n, 0), requests(t, test.second...))
			switch {
			case test.wantErr == "" && err != nil:
				t.Errorf("got error %v", err)
			case test.wantErr != "" && (err == nil || !strings.Contains(err.Error(), test.wantErr) || len(made) > 0):
				t.Errorf("got %v, error %v, want none and %q", made, err, test.wantErr)
			}
			if diff := cmp.Diff(test.want, profiles(gpu(n, 0))); diff != "" {
				t.Errorf("instances (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDestroyMIG(t *testing.T) {
	tests := map[string]struct {
		gi, ci  int
		busy    bool // 2/1 is in use
		want    []string
		wantErr string
	}{
		"a compute instance":                {2, 0, false, []string{"3g.20gb", "1c.3g.20gb"}, ""},
		"the last leaves its GPU instance":  {1, 0, false, []string{"", "1c.3g.20gb 1c.3g.20gb"}, ""},
		"a GPU instance with all in it":     {2, state.WholeGPU, false, []string{"3g.20gb"}, ""},
		"all":                               {state.WholeGPU, state.WholeGPU, false, nil, ""},
		"beside one that is in use":         {2, 0, true, []string{"3g.20gb", "1c.3g.20gb"}, ""},
		"what is in use":                    {2, 1, true, []string{"3g.20gb", "1c.3g.20gb 1c.3g.20gb"}, "in use by process 77"},
		"around what is in use":             {2, state.WholeGPU, true, []string{"3g.20gb", "1c.3g.20gb 1c.3g.20gb"}, "gpu-sim proc end 0 77"},
		"all, but one is in use":            {state.WholeGPU, state.WholeGPU, true, []string{"3g.20gb", "1c.3g.20gb 1c.3g.20gb"}, "in use by process 77"},
		"no such GPU instance":              {9, state.WholeGPU, false, []string{"3g.20gb", "1c.3g.20gb 1c.3g.20gb"}, "GPU instance 9: no such instance"},
		"no such compute instance":          {2, 5, false, []string{"3g.20gb", "1c.3g.20gb 1c.3g.20gb"}, "compute instance 5 of GPU instance 2: no such instance"},
		"a compute instance of no instance": {8, 5, false, []string{"3g.20gb", "1c.3g.20gb 1c.3g.20gb"}, "GPU instance 8: no such instance"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			n := divided(t, "a100-40", 1)
			createMIG(t, n, 0, "3g.20gb@0", "1c.3g.20gb", "1c.3g.20gb")
			if test.busy {
				assert.NilError(t, n.State().PutProcess(0, state.Process{PID: 77, GPUInstance: 2, ComputeInstance: 1}))
			}
			err := n.DestroyMIG(gpu(n, 0), test.gi, test.ci)
			if (err != nil) != (test.wantErr != "") || err != nil && !strings.Contains(err.Error(), test.wantErr) {
				t.Errorf("got error %v, want %q", err, test.wantErr)
			}
			if diff := cmp.Diff(test.want, profiles(gpu(n, 0))); diff != "" {
				t.Errorf("instances (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseRequest(t *testing.T) {
	for _, text := range []string{"3g.20gb@", "3g.20gb@-1", "3g.20gb@x", "3g.20gb@256"} {
		if r, err := node.ParseRequest(text); err == nil {
			t.Errorf("%q: got %+v, want an error", text, r)
		}
	}
}
