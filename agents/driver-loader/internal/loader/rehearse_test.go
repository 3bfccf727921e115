package loader_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/build"
	"outrigger.dev/agents/driver-loader/internal/cache"
	"outrigger.dev/agents/driver-loader/internal/kernel"
	"outrigger.dev/agents/driver-loader/internal/loader"
	"outrigger.dev/agents/driver-loader/internal/module"
	"outrigger.dev/agents/driver-loader/internal/module/moduletest"
	"outrigger.dev/agents/driver-loader/internal/payload"
	"outrigger.dev/agents/driver-loader/internal/payload/payloadtest"
	"outrigger.dev/agents/driver-loader/internal/root"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/devnode"
)

// untouched is a kernel that must not be changed.
type untouched struct{ t *testing.T }

func (u untouched) Load(_ context.Context, m *module.Module, _ []string) error {
	u.t.Errorf("loaded %s", m.Name)
	return errors.New("untouched")
}

func (u untouched) Unload(name string) error {
	u.t.Errorf("unloaded %s", name)
	return errors.New("untouched")
}

// useHostDriver writes the files of a node with a GPU, on which driver 1 is loaded, and describes it.
func useHostDriver(t *testing.T) loader.Config {
	t.Helper()
	dir := t.TempDir()
	const bus = "sys/bus/pci/devices/0000:17:00.0/"
	for path, content := range map[string]string{
		bus + "vendor": "0x10de\n", bus + "device": "0x2330\n", bus + "class": "0x030200\n",
		"sys/module/nvidia/initstate": "live\n", "sys/module/nvidia/version": "1.0\n", "sys/module/nvidia/refcnt": "0\n",
		"run/driver-loader.json":    `{"version": "1.0"}`, // the agent has loaded it
		"proc/sys/kernel/osrelease": "6.1.0-1-amd64\n",
		"proc/version":              "Linux version 6.1.0-1-amd64 (a@b) (gcc-12 (Debian 12.2.0-14) 12.2.0, GNU ld 2.40) #1 SMP\n",
	} {
		payloadtest.Write(t, filepath.Join(dir, path), content, 0o644)
	}
	roots := kernel.Root{Proc: dir + "/proc", Sys: dir + "/sys", Modules: dir + "/modules", Dev: dir + "/dev"}
	return loader.Config{
		Kernel: roots, Store: dir + "/store", Log: slog.New(slog.DiscardHandler), Calls: untouched{t},
		Place:    root.Driver{At: dir + "/driver", Proc: roots.Proc, Sys: roots.Sys},
		Contract: contract.Dir{Root: dir + "/run", ProcRoot: roots.Proc},
		Nodes:    devnode.Config{Proc: roots.Proc, Dev: roots.Dev},
		Builder:  &build.Builder{Places: build.Places{Root: dir}},
		Desired: func() (loader.Desired, error) {
			return loader.Desired{Version: "2.0", Flavour: payload.Open}, nil
		},
	}
}

// stocked imports driver 2 into the store of a host, with a module for another kernel in the
// place of one that was built.
func stocked(t *testing.T, cfg loader.Config) payload.Payload {
	t.Helper()
	return stockedWith(t, cfg, "../module/testdata/sample.ko.xz")
}

// stockedWith imports driver 2 into the store of a host, with a file as its module nvidia.
func stockedWith(t *testing.T, cfg loader.Config, file string) payload.Payload {
	t.Helper()
	p, err := payload.Store{Dir: cfg.Store, Machine: "x86_64"}.Import(t.Context(), payloadtest.Driver{Version: "2.0"}.Folder(t))
	assert.NilError(t, err)
	k, err := kernel.Observe(cfg.Kernel)
	assert.NilError(t, err)
	request := build.Request{Release: k.Release, Machine: k.Machine, Banner: k.Banner, Payload: p, Flavour: payload.Open}
	set := cache.Set{Key: request.Key(k.Banner), Modules: []cache.Module{{Name: "nvidia", File: file}}}
	if _, err := (cache.Cache{Dir: cfg.Store}).Add(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestADriverIsNotUnloadedForOneThatTheKernelWouldReject(t *testing.T) {
	cfg := useHostDriver(t)
	stocked(t, cfg)
	staysFor(t, cfg, cause.ModuleWrongRelease)
}

func TestADriverIsNotUnloadedForOneWhoseDependencyIsMissing(t *testing.T) {
	cfg := useHostDriver(t)
	file := filepath.Join(t.TempDir(), "nvidia.ko")
	m := moduletest.Module{Name: "nvidia", Version: "2.0", Vermagic: "6.1.0-1-amd64 SMP", Depends: []string{"drm"}}
	payloadtest.Write(t, file, string(m.Bytes()), 0o644)
	stockedWith(t, cfg, file)
	staysFor(t, cfg, cause.KernelModuleMissing)
}

// staysFor fails the test unless the loaded driver stays, for a cause.
func staysFor(t *testing.T, cfg loader.Config, code cause.Code) {
	t.Helper()
	step := loader.New(cfg, "x86_64").Settle(t.Context())
	if step.Kind != loader.Wait || !slices.ContainsFunc(step.Causes, func(c cause.Cause) bool { return c.Code == code }) {
		t.Errorf("%s %v", step, step.Causes)
	}
	data, err := os.ReadFile(filepath.Join(cfg.Store, "journal.json"))
	if err != nil || strings.Contains(string(data), `"change"`) || !strings.Contains(string(data), `"failure"`) {
		t.Errorf("the journal has a change, or no failure: %s, %v", data, err)
	}
}
