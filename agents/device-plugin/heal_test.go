package main

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu/simtest"
)

// What the plugin publishes on the node is there again, whoever removes or changes it.
func TestPublishedFilesHeal(t *testing.T) {
	p := start(t, simtest.New(t, "--gpus", "2"), "--device-list-strategy", "cdi-cri")
	p.wait(2, 0)
	p.Said("ready: devices are registered and listed")
	spec := p.path("cdi/k8s.device-plugin.nvidia.com-gpu.json")
	was, err := os.ReadFile(spec)
	assert.NilError(t, err)
	healed := func() bool {
		now, err := os.ReadFile(spec)
		return err == nil && string(now) == string(was) && p.fact().State == contract.Valid
	}
	for name, damage := range map[string]func(path string) error{
		"removed":                   os.Remove,
		"truncated":                 func(path string) error { return os.Truncate(path, 0) },
		"removed with their folder": func(path string) error { return os.RemoveAll(filepath.Dir(path)) },
		"moved with their folder": func(path string) error {
			return os.Rename(filepath.Dir(path), filepath.Join(t.TempDir(), "old"))
		},
	} {
		for _, path := range []string{p.path("run/validations/plugin-ready"), spec} {
			assert.NilError(t, damage(path))
			agenttest.Poll(t, path+" to be as it was before it was "+name, healed)
		}
	}
}

// A process that may only read the run root, such as a pod that mounts it read-only, can
// lock all that is in it.
func TestLocksOfReadersDelayNothing(t *testing.T) {
	n := simtest.New(t, "--gpus", "2")
	p := start(t, n)
	p.wait(2, 0)
	p.Said("ready: devices are registered and listed")
	p.Kill()
	for _, name := range []string{"run", "run/validations", "run/validations/plugin-ready", "run/leases", "run/leases/nvml"} {
		f, err := os.Open(p.path(name))
		assert.NilError(t, err)
		t.Cleanup(func() { _ = f.Close() })
		assert.NilError(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
	}
	if f := p.fact(); f.State != contract.WriterDead {
		t.Errorf("plugin-ready of a dead plugin is %s", f.State)
	}
	p.run(n)
	p.wait(2, 0)
	p.Said("ready: devices are registered and listed")
	agenttest.Poll(t, "plugin-ready", func() bool { return p.fact().State == contract.Valid })
}
