package generate_test

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/container-toolkit/internal/facts"
	"outrigger.dev/agents/container-toolkit/internal/generate"
	"outrigger.dev/agents/container-toolkit/internal/gpus"
	"outrigger.dev/pkg/driverproc"
	"outrigger.dev/pkg/driverroot"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/simtest"
)

// kept is a simulated node with its specs.
type kept struct {
	t      *testing.T
	sim    *simtest.Node
	folder string
	node   *gpu.Node
	specs  *generate.Specs
}

func newKept(t *testing.T) *kept {
	t.Helper()
	sim := simtest.New(t, "--gpus=2")
	proc := filepath.Join(sim.Root, "proc")
	// As on a host without a C library: the kernel driver shows the GPUs.
	node, err := gpus.Read(t.Context(), gpus.Config{
		Program: "/nonexistent/toolkit-gpus", HostDriverRoot: filepath.Join(sim.Root, "driver"), ProcRoot: proc, SysRoot: filepath.Join(sim.Root, "sys"),
	})
	assert.NilError(t, err)
	root, err := driverroot.New(driverroot.Config{
		HostPath: "/run/nvidia/driver", CtrPath: filepath.Join(sim.Root, "driver"),
		HostDev: filepath.Join(sim.Root, "dev"), ProcRoot: proc, SysRoot: filepath.Join(sim.Root, "sys"),
	})
	assert.NilError(t, err)
	k := &kept{t: t, sim: sim, folder: filepath.Join(t.TempDir(), "cdi"), node: node}
	k.specs = generate.New(generate.Config{Root: root, Proc: driverproc.Root(proc), Folder: k.folder, Log: slog.New(slog.DiscardHandler)})
	return k
}

// files returns the names in the folder.
func (k *kept) files() []string {
	k.t.Helper()
	entries, err := os.ReadDir(k.folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		k.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// outdated scans again, after it has checked that this was due.
func (k *kept) outdated(cause string) error {
	k.t.Helper()
	if !k.specs.Outdated() {
		k.t.Errorf("not outdated after %s", cause)
	}
	return k.write()
}

func (k *kept) write() error {
	_, err := k.specs.Scan(struct{}{})(k.node)
	return err
}

func (k *kept) has(want ...string) {
	k.t.Helper()
	if d := cmp.Diff(want, k.files()); d != "" {
		k.t.Errorf("files (-want +got):\n%s", d)
	}
}

func TestSpecsAreKept(t *testing.T) {
	k := newKept(t)
	all := []string{"management.nvidia.com-gpu.json", "management.nvidia.com-mig.json", "nvidia.com-gpu.facts", "nvidia.com-gpu.json"}
	assert.NilError(t, k.write())
	k.has(all...)
	if k.specs.Outdated() {
		// The simulated node is younger than the clock of its folders is exact.
		assert.NilError(t, k.write())
	}

	facts := filepath.Join(k.folder, "nvidia.com-gpu.facts")
	for _, path := range []string{facts, filepath.Join(k.folder, "nvidia.com-gpu.json"), filepath.Join(k.sim.Root, "dev")} {
		if !slices.Contains(k.specs.Watched(), path) {
			t.Errorf("%s is not watched", path)
		}
	}
	assert.NilError(t, os.Remove(facts))
	assert.NilError(t, k.outdated("the facts were removed"))
	k.has(all...)

	assert.NilError(t, os.Remove(filepath.Join(k.folder, "nvidia.com-gpu.json")))
	assert.NilError(t, k.outdated("a spec was removed"))
	k.has(all...)

	lib := filepath.Join(k.sim.Root, "driver/usr/lib/x86_64-linux-gnu")
	data, err := os.ReadFile(filepath.Join(lib, "libnvidia-cfg.so.580.95.05"))
	assert.NilError(t, err)
	assert.NilError(t, os.WriteFile(filepath.Join(lib, "libnvidia-new.so.580.95.05"), data, 0o600))
	assert.NilError(t, k.outdated("a library was added"))
	spec, err := os.ReadFile(filepath.Join(k.folder, "nvidia.com-gpu.json"))
	assert.NilError(t, err)
	if !strings.Contains(string(spec), "libnvidia-new.so") {
		t.Error("the spec does not have the new library")
	}
	k.factsFit()

	foreign := filepath.Join(k.folder, "vendor.json")
	assert.NilError(t, os.WriteFile(foreign, []byte(`{"kind":"vendor.com/net"}`), 0o600))
	assert.NilError(t, k.specs.Remove())
	k.has("vendor.json")
}

// factsFit checks that the facts are those of the spec that is there.
func (k *kept) factsFit() {
	k.t.Helper()
	spec := filepath.Join(k.folder, "nvidia.com-gpu.json")
	data, err := os.ReadFile(spec)
	assert.NilError(k.t, err)
	f, err := facts.Read(spec, data)
	if err != nil || f == nil || len(f.GPUs) != 2 || f.Driver != "580.95.05" {
		k.t.Errorf("facts are %+v, %v, want those of two GPUs", f, err)
	}
}

// A part that is missing takes all specs away, with the cause; once it is back, they are.
func TestSpecsGoWhenSomethingIsMissing(t *testing.T) {
	for name, c := range map[string]struct{ path, want string }{
		"a GPU's node":    {"dev/nvidia1", "device node nvidia1 is missing"},
		"a control node":  {"dev/nvidia-uvm", "nvidia-uvm not found"},
		"a library":       {"driver/usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05", "libcuda.so"},
		"the driver root": {"driver", "incomplete"},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKept(t)
			assert.NilError(t, k.write())
			at := filepath.Join(k.sim.Root, c.path)
			assert.NilError(t, os.Rename(at, at+".away"))
			err := k.outdated(name + " was removed")
			assert.ErrorContains(t, err, c.want)
			k.has()
			assert.NilError(t, os.Rename(at+".away", at))
			assert.NilError(t, k.write())
			k.factsFit()
		})
	}
}

// A GPU that NVML does not show, because its node is missing, is not left out.
func TestHiddenGPUs(t *testing.T) {
	k := newKept(t)
	assert.NilError(t, os.Remove(filepath.Join(k.sim.Root, "dev/nvidia1")))
	k.node.GPUs = k.node.GPUs[:1]
	assert.ErrorContains(t, k.write(), "nvidia1 is missing")
	k.has()
}
