package loader_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/cache"
	"outrigger.dev/agents/driver-loader/internal/loader"
	"outrigger.dev/agents/driver-loader/internal/loader/loadertest"
	"outrigger.dev/agents/driver-loader/internal/module/moduletest"
	"outrigger.dev/agents/driver-loader/internal/payload/payloadtest"
	"outrigger.dev/pkg/cause"
)

// compiled returns a folder with what a compiler would make for a kernel.
func compiled(t *testing.T, version, release string) string {
	t.Helper()
	dir := t.TempDir()
	for name, depends := range map[string][]string{"nvidia": nil, "nvidia_uvm": {"nvidia"}, "nvidia_modeset": {"nvidia"}} {
		m := moduletest.Module{Name: name, Version: version, Vermagic: release + " SMP", Depends: depends}
		payloadtest.Write(t, filepath.Join(dir, release, name+".ko"), string(m.Bytes()), 0o644)
	}
	return dir
}

// kernelNode is a node with a working driver, whose next kernels get modules.
type kernelNode struct {
	*factory
	*loader.Loader
	kernels *loader.Kernels
}

// newKernelNode returns a node. The script runs in builds for other kernels than the running one.
func newKernelNode(t *testing.T, script string) *kernelNode {
	t.Helper()
	f := newFactory(t)
	f.driver(two, "if [ $(KERNEL_UNAME) = "+booted+" ]; then cp "+compiled(t, two, booted)+"/"+booted+"/*.ko .; else "+script+"; fi")
	n := &kernelNode{factory: f, Loader: loader.New(f.cfg, loadertest.Machine)}
	if step := n.Settle(t.Context()); step.Kind != loader.Done || f.built() != 1 {
		t.Fatalf("%s %v, %d builds", step, step.Causes, f.built())
	}
	n.kernels = loader.NewKernels(n.Loader)
	return n
}

func (n *kernelNode) install(release string) {
	payloadtest.Write(n.t, filepath.Join(n.Dir, "modules", release, "modules.builtin"), "", 0o644)
}

// step lets the agent look for a new kernel, and returns the metric.
func (n *kernelNode) step() []any {
	n.t.Helper()
	assert.NilError(n.t, n.kernels.Step(n.t.Context()))
	return n.metric()
}

// metric returns the metric: the release, the code, and 0 or 1.
func (n *kernelNode) metric() []any {
	n.t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(loader.NewKernelMetrics(n.kernels))
	families, err := registry.Gather()
	assert.NilError(n.t, err)
	if len(families) == 0 {
		return nil
	}
	m := families[0].GetMetric()[0]
	return []any{m.GetLabel()[1].GetValue(), cause.Code(m.GetLabel()[0].GetValue()), m.GetGauge().GetValue()}
}

func TestModulesForANewKernelAreBuiltBeforeTheReboot(t *testing.T) {
	const next = "6.1.0-10-amd64"
	priority := filepath.Join(t.TempDir(), "nice")
	n := newKernelNode(t, "nice > "+priority+"; cp "+compiled(t, two, next)+"/"+next+"/*.ko .")
	for _, s := range []struct {
		change string
		do     func()
		builds int
		want   []any
	}{
		{"nothing", func() {}, 1, nil},
		{"an older kernel", func() { n.install("6.1.0-0-amd64") }, 1, nil},
		{"a kernel without headers", func() { n.install(next) }, 1, []any{next, cause.KernelHeadersMissing, 0.0}},
		{"its headers", func() { n.headers(next) }, 1, []any{next, cause.Code(""), 0.0}},
		{"a minute", func() {}, 2, []any{next, cause.Code(""), 1.0}},
		{"another minute", func() {}, 2, []any{next, cause.Code(""), 1.0}},
		{"a newer kernel without headers", func() { n.install("6.1.0-11-amd64") }, 2, []any{"6.1.0-11-amd64", cause.KernelHeadersMissing, 0.0}},
	} {
		s.do()
		if d := cmp.Diff(s.want, n.step(), cmpopts.EquateEmpty()); d != "" || n.built() != s.builds {
			t.Errorf("after %s: %d builds, want %d; metric (-want +got):\n%s", s.change, n.built(), s.builds, d)
		}
		if n.Ready() != nil {
			t.Errorf("after %s: %v", s.change, n.Ready())
		}
	}
	if data, err := os.ReadFile(priority); err != nil || strings.TrimSpace(string(data)) != "19" {
		t.Errorf("the build has the priority %q, %v", data, err)
	}
	// The modules go with their kernel.
	sets, err := (cache.Cache{Dir: n.cfg.Store}).List()
	assert.NilError(t, err)
	if i := slices.IndexFunc(sets, func(s cache.Set) bool { return s.Key.Release == next }); i < 0 || sets[i].Prebuilt {
		t.Errorf("%+v", sets)
	}
}

func TestOnlyAnUpdateOfTheRunningKernelIsNew(t *testing.T) {
	for running, tc := range map[string]struct {
		others []string
		update string
	}{
		"6.1.0-9-amd64":                   {[]string{"6.1.0-12-cloud-amd64", "6.1.0-12-rt-amd64", "6.1.0-8-amd64"}, "6.1.0-11-amd64"},
		"6.8.0-50-generic":                {[]string{"6.8.0-1001-aws", "6.8.0-51-generic-64k", "6.8.0-51-lowlatency"}, "6.8.0-51-generic"},
		"4.18.0-553.el8_10.x86_64":        {[]string{"4.18.0-553.5.1.el8_10.x86_64+debug", "4.18.0-513.24.1.el8_9.x86_64"}, "4.18.0-553.5.1.el8_10.x86_64"},
		"5.14.0-427.el9.aarch64":          {[]string{"5.14.0-427.el9.aarch64+64k", "5.14.0-503.11.1.el9_5.aarch64+64k"}, "5.14.0-503.11.1.el9_5.aarch64"},
		"5.14.0-503.11.1.el9_5.x86_64+rt": {[]string{"5.14.0-570.12.1.el9_6.x86_64"}, "5.14.0-570.12.1.el9_6.x86_64+rt"},
	} {
		t.Run(running, func(t *testing.T) {
			n := newFactory(t)
			n.driver(two, "exit 1")
			l := loader.New(n.cfg, loadertest.Machine)
			o, err := l.Observe(t.Context())
			assert.NilError(t, err)
			o.Kernel.Release = running
			next := func(installed ...string) string {
				for _, release := range installed {
					payloadtest.Write(t, filepath.Join(n.Dir, "modules", release, "modules.builtin"), "", 0o644)
				}
				return l.NextKernel(t.Context(), o, loader.Desired{}).Release
			}
			assert.NilError(t, os.RemoveAll(filepath.Join(n.Dir, "modules")))
			if got := next(append(tc.others, running)...); got != "" {
				t.Errorf("%s is not an update", got)
			}
			if got := next(tc.update); got != tc.update {
				t.Errorf("%q, want %s", got, tc.update)
			}
		})
	}
}

func TestABuildForANewKernelThatFailsIsNotRepeated(t *testing.T) {
	n := newKernelNode(t, "echo 'nv.c:1: error: no'; exit 1")
	n.install("6.2.0-1-amd64")
	n.headers("6.2.0-1-amd64")
	for range 5 {
		n.step()
	}
	if got := n.step(); n.built() != 2 || !slices.Equal(got, []any{"6.2.0-1-amd64", cause.ModuleBuildFailed, 0.0}) || n.Ready() != nil {
		t.Errorf("%v, %d builds, %v", got, n.built(), n.Ready())
	}
	if !slices.Equal(n.events, []cause.Code{cause.ModuleBuildFailed}) {
		t.Errorf("events %v", n.events)
	}
}

// The build fails for a reason that may pass. It is repeated after a pause.
func TestTheCauseOfAFailedBuildForANewKernelStays(t *testing.T) {
	const next = "6.1.0-10-amd64"
	begun, goOn := filepath.Join(t.TempDir(), "begun"), filepath.Join(t.TempDir(), "goon")
	assert.NilError(t, errors.Join(unix.Mkfifo(begun, 0o600), unix.Mkfifo(goOn, 0o600)))
	n := newKernelNode(t, "echo > "+begun+"; cat "+goOn+"; echo 'gcc: fatal error: Killed signal terminated program cc1'; exit 1")
	n.install(next)
	n.headers(next)
	is := func(when string, code cause.Code) {
		t.Helper()
		if got := n.metric(); !slices.Equal(got, []any{next, code, 0.0}) {
			t.Errorf("%s: %v, want the code %q", when, got, code)
		}
	}
	var before cause.Code
	for build := range 3 {
		n.step()
		is("before the build", before)
		var building sync.WaitGroup
		building.Go(func() { n.step() })
		_, err := os.ReadFile(begun)
		assert.NilError(t, err)
		is("during the build", before)
		assert.NilError(t, os.WriteFile(goOn, nil, 0o600))
		building.Wait()
		before = cause.ModuleBuildKilled
		is("after the build", before)
		n.step()
		is("during the pause", before)
		if n.built() != build+2 {
			t.Fatalf("%d builds, want %d", n.built(), build+2)
		}
		n.now = n.now.Add(time.Hour)
	}
}

// TestTheDriverOfTheRunningKernelComesFirst changes the driver while modules for a new kernel are built.
func TestTheDriverOfTheRunningKernelComesFirst(t *testing.T) {
	begun := filepath.Join(t.TempDir(), "begun")
	assert.NilError(t, unix.Mkfifo(begun, 0o600))
	n := newKernelNode(t, "echo > "+begun+"; sleep 600")
	n.install("6.2.0-1-amd64")
	n.headers("6.2.0-1-amd64")
	n.step()
	var building sync.WaitGroup
	building.Go(func() { n.step() })
	_, err := os.ReadFile(begun) // when the build has begun
	assert.NilError(t, err)
	n.driver("590.10.02", "echo 'nv.c:1: error: no'; exit 1")
	if step := n.Settle(t.Context()); step.Kind != loader.Wait || step.Causes[0].Code != cause.ModuleBuildFailed {
		t.Errorf("%s %v", step, step.Causes)
	}
	building.Wait()
}
