package state_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gotest.tools/v3/assert"

	"outrigger.dev/sim/internal/state"
)

func create(t *testing.T, spec state.Spec) *state.State {
	t.Helper()
	s, err := state.Create(filepath.Join(t.TempDir(), "state"), spec)
	assert.NilError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func TestCreateShowsWhatWasAskedFor(t *testing.T) {
	spec := state.NewSpec("h100-80", 2)
	spec.Node = "n1"
	spec.DriverVersion = "570.1"
	spec.CUDA = state.Version{Major: 12, Minor: 8}
	spec.DriverOff = true
	got := create(t, spec).Show()
	want := state.Snapshot{
		Node:   "n1",
		Driver: state.Driver{Version: "570.1", NVMLVersion: "12.570.1", CUDA: state.Version{Major: 12, Minor: 8}},
		GPUs: []state.GPU{
			{Model: "h100-80", Name: "NVIDIA H100 80GB HBM3", BusID: "0000:1b:00.0", MemoryBytes: 81559 << 20, NVLinks: 18, Fabric: "completed", MIGCapable: true, MIG: &state.MIG{}},
			{Slot: 1, Index: 1, Minor: 1, Model: "h100-80", Name: "NVIDIA H100 80GB HBM3", BusID: "0000:43:00.0", MemoryBytes: 81559 << 20, NVLinks: 18, Fabric: "completed", MIGCapable: true, MIG: &state.MIG{}},
		},
	}
	kept := cmpopts.IgnoreFields(state.GPU{}, "UUID", "Serial", "BoardPart", "VBIOS", "PCIID", "SubsystemID", "ComputeCapability", "Temperature", "PowerMilliwatts", "Values")
	if diff := cmp.Diff(want, got, kept, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("snapshot (-want +got):\n%s", diff)
	}
	uuid := regexp.MustCompile(`^GPU-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	if !uuid.MatchString(got.GPUs[0].UUID) || got.GPUs[0].UUID == got.GPUs[1].UUID {
		t.Errorf("got UUIDs %s and %s, want two of version 4", got.GPUs[0].UUID, got.GPUs[1].UUID)
	}
}

func TestUUIDsFollowTheNodeName(t *testing.T) {
	uuid := func(node string) string {
		spec := state.NewSpec("l4", 1)
		spec.Node = node
		return create(t, spec).Show().GPUs[0].UUID
	}
	first := map[string]string{"a": uuid("a"), "b": uuid("b"), "": uuid("")}
	if first["a"] != uuid("a") {
		t.Error("two nodes of one name have different GPUs")
	}
	if first["a"] == first["b"] || first[""] == uuid("") {
		t.Error("nodes of different names share a GPU")
	}
}

func TestCreateRejects(t *testing.T) {
	tests := map[string]struct {
		spec state.Spec
		want string
	}{
		"a model that is unknown": {state.NewSpec("b300", 2), `model "b300" is unknown: want one of a10, a100-40, `},
		"too many GPUs":           {state.NewSpec("l4", 17), "17 GPUs: a node has at most 16"},
		"a UUID twice": {
			state.Spec{GPUs: []state.GPUSpec{{Model: "l4", UUID: "GPU-1"}, {Model: "l4", UUID: "GPU-1"}}},
			"UUID GPU-1 is taken by the GPU in slot 0",
		},
		"a UUID that is too long": {
			state.Spec{GPUs: []state.GPUSpec{{Model: "l4", UUID: strings.Repeat("x", 60)}}}, "longer than 47 bytes",
		},
		"a driver version that is a path":    {state.Spec{DriverVersion: "../1"}, `driver version "../1"`},
		"a driver version that is a folder":  {state.Spec{DriverVersion: ".."}, `driver version ".."`},
		"a driver version that is a pattern": {state.Spec{DriverVersion: "580.*"}, `driver version "580.*"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state")
			_, err := state.Create(path, test.spec)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("got error %v, want one with %q and the path", err, test.want)
			}
			left, err := os.ReadDir(filepath.Dir(path))
			if err != nil || len(left) > 0 {
				t.Errorf("got files %v, error %v, want nothing left", left, err)
			}
		})
	}
}

func TestCreateKeepsAnExistingFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	assert.NilError(t, os.WriteFile(path, []byte("precious"), 0o600))
	if _, err := state.Create(path, state.NewSpec("l4", 1)); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got error %v, want that the file exists", err)
	}
	content, err := os.ReadFile(path)
	if err != nil || string(content) != "precious" {
		t.Errorf("got %q, error %v, want the file as it was", content, err)
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 1 {
		t.Errorf("got files %v, want one", left)
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	tests := map[string]struct {
		damage func(path string) error
		want   error
		fix    string
	}{
		"no file":         {os.Remove, fs.ErrNotExist, ""},
		"an empty file":   {func(p string) error { return os.Truncate(p, 0) }, state.ErrCorrupt, "create it again"},
		"a file cut off":  {func(p string) error { return os.Truncate(p, 4096) }, state.ErrCorrupt, "create it again"},
		"another file":    {func(p string) error { return patch(p, 0, "ELF") }, state.ErrCorrupt, "create it again"},
		"a slot's values": {func(p string) error { return patch(p, firstGPU, strings.Repeat("\xff", 900)) }, state.ErrCorrupt, "create it again"},
		"another version": {func(p string) error { return patch(p, 8, "\x07") }, state.ErrVersion, "create it again"},
		"another layout":  {func(p string) error { return patch(p, 24, "layout") }, state.ErrVersion, "create it again"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := create(t, state.NewSpec("l4", 1))
			assert.NilError(t, test.damage(s.Path()))
			_, err := state.Open(s.Path())
			if !errors.Is(err, test.want) || !strings.Contains(err.Error(), s.Path()) || !strings.Contains(err.Error(), test.fix) {
				t.Errorf("got error %v, want %v with path and fix", err, test.want)
			}
		})
	}
}

// firstGPU is where the values of the first GPU begin: behind the header, the
// node's name, three counters and the driver.
const firstGPU = 32 + 64 + 3*8 + 176

func patch(path string, at int64, with string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(with), at)
	return errors.Join(err, f.Close())
}

func TestFind(t *testing.T) {
	s := create(t, state.NewSpec("a100-40", 3))
	assert.NilError(t, s.Unplug(0))
	gpu := s.Show().GPUs[1]
	for name, ref := range map[string]string{
		"index": "1", "UUID": gpu.UUID, "bus id": "0000:47:00.0", "NVML's bus id": "00000000:47:00.0", "device node": "nvidia2",
	} {
		if slot, err := s.Find(ref); err != nil || slot != 2 {
			t.Errorf("by %s: got slot %d, error %v, want 2", name, slot, err)
		}
	}
	if _, err := s.Find("2"); !errors.Is(err, state.ErrNoGPU) || !strings.Contains(err.Error(), gpu.UUID) {
		t.Errorf("got error %v, want no such GPU and the list of those there", err)
	}
}

// TestWriterThatDiedAtWork leaves the sequence lock as a writer does that is
// killed between its two steps.
func TestWriterThatDiedAtWork(t *testing.T) {
	const sequence = 96 // behind the header and the node's name
	s := create(t, state.NewSpec("l4", 1))
	assert.NilError(t, patch(s.Path(), sequence, "\x01"))
	if got := s.Show().GPUs; len(got) != 1 {
		t.Fatalf("got %d GPUs, want 1", len(got))
	}
	assert.NilError(t, s.SetField(0, "temperature", "50"))
	content, err := os.ReadFile(s.Path())
	if err != nil || content[sequence]%2 != 0 {
		t.Errorf("got sequence %d, error %v, want it closed by the next writer", content[sequence], err)
	}
}
