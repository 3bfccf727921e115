package prepare_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
)

func id(i int) string { return fmt.Sprintf("GPU-00000000-0000-4000-8000-%012x", i) }

// full returns the full names of CDI devices: of "gpu=x" and "gds=all".
func full(names ...string) []string {
	var out []string
	for _, n := range names {
		out = append(out, "k8s.device-plugin.nvidia.com/"+n)
	}
	slices.Sort(out)
	return out
}

func (r *rig) resolve(when string, want ...string) {
	r.t.Helper()
	if d := cmp.Diff(full(want...), r.names()); d != "" {
		r.t.Errorf("%s, names that resolve (-want +got):\n%s", when, d)
	}
}

func mig(n *gpu.Node, i, j int) string { return "gpu=" + string(n.GPUs[i].MIG.Devices[j].UUID) }

func TestSpecsFollowTheMIGDevices(t *testing.T) {
	r := newRig(t)
	n := gputest.Partition(gputest.Node(gputest.A100, 2), 1, "3g.20gb", "1g.5gb")
	r.caps(n)
	r.prepare(n, r.config())
	r.resolve("with MIG devices", "gpu=all", "gpu="+id(0), "gpu="+id(1), mig(n, 1, 0), mig(n, 1, 1))
	r.prepare(n, r.config(byIndex, func(c *config.Config) { c.MIGStrategy = config.MIGStrategyMixed }))
	r.resolve("after a change of the id strategy, both names", "gpu=all", "gpu="+id(0), "gpu="+id(1), mig(n, 1, 0), mig(n, 1, 1),
		"gpu=0", "gpu=1", "gpu=1:0", "gpu=1:1")
	r.prepare(gputest.Node(gputest.A100, 1), r.config(byIndex))
	r.resolve("after hardware was removed", "gpu=all", "gpu="+id(0), "gpu=0")
	r.prepare(gputest.Node(gputest.A100, 0), r.config())
	r.resolve("after all hardware was removed")
}

func TestSpecsAreWithdrawn(t *testing.T) {
	r := newRig(t)
	r.prepare(gputest.Node(gputest.A100, 1), r.config())
	r.resolve("before", "gpu=all", "gpu="+id(0))
	for _, folder := range []string{"", r.config().CDIRoot, r.config().CDIRoot} {
		assert.NilError(t, r.preparer.Withdraw(folder))
	}
	r.resolve("once they are withdrawn")
}

func TestUnresolved(t *testing.T) {
	r := newRig(t)
	n := gputest.Partition(gputest.Node(gputest.A100, 3), 1, "3g.20gb", "1g.5gb")
	r.caps(n)
	lost := n.GPUs[1].MIG.Devices[1]
	r.remove(fmt.Sprintf("dev/nvidia-caps/nvidia-cap%d", lost.ComputeInstanceCap))
	got := r.prepare(n, r.config()).Unresolved
	if len(got) != 2 || !strings.Contains(got[lost.UUID], "nvidia-modprobe -f") || !strings.Contains(got[gpu.UUID(id(2))], "nvidia2 is missing") {
		t.Errorf("unresolved are %q, want GPU 2 and one MIG device", got)
	}
	r.resolve("without those that have no nodes", "gpu=all", "gpu="+id(0), "gpu="+id(1), mig(n, 1, 0))
	r.node(fmt.Sprintf("dev/nvidia-caps/nvidia-cap%d", lost.ComputeInstanceCap))
	if !r.preparer.Outdated() {
		t.Error("Outdated() = false after a missing node has appeared")
	}
	if got := r.prepare(n, r.config()).Unresolved; len(got) != 1 {
		t.Errorf("unresolved are %q, want GPU 2", got)
	}

	for _, name := range []string{"nvidia0", "nvidia1"} {
		r.remove("dev/" + name)
	}
	if _, err := r.preparer.Scan(r.config())(n); err == nil || !strings.Contains(err.Error(), "nvidia0 is missing") {
		t.Errorf("error is %v when no GPU can be given", err)
	}
	r.resolve("while no spec can be made, the last one stays", "gpu=all", "gpu="+id(0), "gpu="+id(1), mig(n, 1, 0), mig(n, 1, 1))
}

func TestChangeOfTheListStrategy(t *testing.T) {
	r := newRig(t)
	n := gputest.Node(gputest.A100, 2)
	stale := filepath.Join(r.specs, "k8s.device-plugin.nvidia.com-gds.json")
	foreign := filepath.Join(r.specs, "nvidia.com-gpu.json")
	put(t, stale, `{"cdiVersion":"0.5.0","kind":"k8s.device-plugin.nvidia.com/gds","devices":[]}`)
	put(t, foreign, `{"cdiVersion":"0.5.0","kind":"nvidia.com/gpu","devices":[]}`)
	r.prepare(n, r.config(envvar))
	if left := files(t, r.specs); !slices.Equal(left, []string{"nvidia.com-gpu.json"}) {
		t.Errorf("the folder has %q at the start without CDI, want only what belongs to others", left)
	}
	assert.NilError(t, os.Remove(foreign))
	r.prepare(n, r.config())
	r.resolve("with CDI", "gpu=all", "gpu="+id(0), "gpu="+id(1))

	// A container that runs is restarted with the names it was given.
	r.library("libnvidia-new.so." + driver)
	if !r.preparer.Outdated() {
		t.Error("Outdated() = false after a library was added")
	}
	if got := r.prepare(n, r.config(envvar)); len(got.CDIClasses) > 0 || len(got.Unresolved) > 0 {
		t.Errorf("prepared for envvar is %+v", got)
	}
	r.resolve("after a change to envvar", "gpu=all", "gpu="+id(0), "gpu="+id(1))
	spec, err := os.ReadFile(filepath.Join(r.specs, "k8s.device-plugin.nvidia.com-gpu.json"))
	if err != nil || !strings.Contains(string(spec), "libnvidia-new.so") {
		t.Errorf("the spec does not follow the driver after a change to envvar: %v", err)
	}
	r.remove(libs + "libcuda.so." + driver)
	if _, err := r.preparer.Scan(r.config(envvar))(n); err != nil {
		t.Errorf("envvar fails for what only CDI needs: %v", err)
	}
	if !strings.Contains(r.log.String(), "libcuda.so") {
		t.Errorf("the log does not say that the specs are not up to date: %s", r.log.String())
	}
	r.resolve("while the driver is incomplete", "gpu=all", "gpu="+id(0), "gpu="+id(1))
}

// Another program that damages a spec must not keep containers from starting for
// longer than the next check.
func TestDamagedSpecsAreWrittenAgain(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"removed":                 os.Remove,
		"truncated":               func(path string) error { return os.Truncate(path, 0) },
		"removed with its folder": func(path string) error { return os.RemoveAll(filepath.Dir(path)) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			n := gputest.Node(gputest.A100, 2)
			r.settle()
			r.prepare(n, r.config())
			if r.preparer.Outdated() {
				t.Fatal("outdated although nothing has changed")
			}
			spec := filepath.Join(r.specs, "k8s.device-plugin.nvidia.com-gpu.json")
			if !slices.Contains(r.preparer.Watched(), spec) {
				t.Errorf("watched are %q, want %s among them", r.preparer.Watched(), spec)
			}
			assert.NilError(t, damage(spec))
			if !r.preparer.Outdated() {
				t.Error("Outdated() = false")
			}
			r.prepare(n, r.config())
			r.resolve("after the next Scan", "gpu=all", "gpu="+id(0), "gpu="+id(1))
		})
	}
}

// A spec of another program with a kind of the plugin is reported and stays: who
// wrote it is not known.
func TestForeignSpecsOfTheSameKindAreReported(t *testing.T) {
	r := newRig(t)
	foreign := filepath.Join(r.specs, "generated.yaml")
	put(t, foreign, "cdiVersion: 0.5.0\nkind: k8s.device-plugin.nvidia.com/gpu\n")
	for range 3 {
		r.prepare(gputest.Node(gputest.A100, 2), r.config())
	}
	if got := files(t, r.specs); !slices.Contains(got, "generated.yaml") {
		t.Errorf("the folder has %q, want the foreign spec untouched", got)
	}
	if got := strings.Count(r.log.String(), foreign); got != 1 {
		t.Errorf("the log names the foreign spec %d times, want once:\n%s", got, r.log.String())
	}
}

func put(t *testing.T, path, data string) {
	t.Helper()
	assert.NilError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	assert.NilError(t, os.WriteFile(path, []byte(data), 0o600))
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	assert.NilError(t, err)
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestFeatures(t *testing.T) {
	r := newRig(t)
	n := gputest.Node(gputest.A100, 2)
	c := r.config(func(c *config.Config) {
		c.HookPath, c.CDIDisableHooks = "/usr/bin/nvidia-cdi-hook", []string{"enable-cuda-compat"}
		c.CDIFeatureFlags = []string{"disable-nvsandboxutils"}
	})
	for range 3 {
		r.prepare(n, c)
	}
	spec, err := os.ReadFile(filepath.Join(r.specs, "k8s.device-plugin.nvidia.com-gpu.json"))
	if err != nil || !strings.Contains(string(spec), "update-ldcache") || strings.Contains(string(spec), "enable-cuda-compat") {
		t.Errorf("the spec does not have the hooks that are left: %v\n%s", err, spec)
	}
	if got := strings.Count(r.log.String(), "disable-nvsandboxutils"); got != 1 {
		t.Errorf("the log says %d times that a flag has no effect, want once", got)
	}
	c.CDIFeatureFlags = []string{"fast"}
	if _, err := r.preparer.Scan(c)(n); err == nil || !strings.Contains(err.Error(), `"fast"`) {
		t.Errorf("error is %v for an unknown flag", err)
	}
}

// BenchmarkPrepare is all that is done for the CDI specs of 8 GPUs with 7 MIG
// devices each: the driver root is read, and the specs are written anew.
func BenchmarkPrepare(b *testing.B) {
	r := newRig(b)
	for i := range 60 {
		r.library(fmt.Sprintf("libnvidia-part%d.so.%s", i, driver))
	}
	for i := 2; i < 8; i++ {
		r.node(fmt.Sprintf("dev/nvidia%d", i))
	}
	n := gputest.Node(gputest.A100, 8)
	for i := range n.GPUs {
		gputest.Partition(n, i, slices.Repeat([]string{"1g.5gb"}, 7)...)
	}
	r.caps(n)
	for _, name := range []string{"nvidia-caps-imex-channels/channel0", "nvidia-fs0", "infiniband/uverbs0", "gdrdrv"} {
		r.node("dev/" + name)
	}
	c := r.config(extras)
	b.ReportAllocs()
	for b.Loop() {
		if err := os.RemoveAll(r.specs); err != nil {
			b.Fatal(err)
		}
		if got := r.prepare(n, c); len(got.CDIClasses) != 4 || len(got.Unresolved) != 0 {
			b.Fatalf("prepared is %+v", got)
		}
	}
}

// BenchmarkOutdated is what is done after a change in a watched folder, and once a
// minute.
func BenchmarkOutdated(b *testing.B) {
	r := newRig(b)
	r.settle()
	r.prepare(gputest.Node(gputest.A100, 2), r.config(extras))
	b.ReportAllocs()
	for b.Loop() {
		if r.preparer.Outdated() {
			b.Fatal("nothing has changed")
		}
	}
}

// A container from before the last boot may use the index of another GPU.
func TestIndicesFromBeforeTheLastBoot(t *testing.T) {
	r := newRig(t)
	n := gputest.Partition(gputest.Node(gputest.A100, 2), 1, "3g.20gb")
	n.GPUs[1].Earlier = &gpu.Earlier{UUID: "GPU-before"}
	r.caps(n)
	r.prepare(n, r.config(byIndex))
	r.resolve("by index", "gpu=all", "gpu=0", "gpu="+id(1), mig(n, 1, 0))
	r.prepare(n, r.config())
	r.resolve("by index and UUID", "gpu=all", "gpu=0", "gpu="+id(0), "gpu="+id(1), mig(n, 1, 0))
	n.GPUs[1].Earlier = nil
	r.prepare(n, r.config(byIndex))
	r.resolve("after the indices were accepted", "gpu=all", "gpu=0", "gpu=1", "gpu=1:0", "gpu="+id(0), "gpu="+id(1), mig(n, 1, 0))
}
