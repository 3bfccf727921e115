package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/gpu/simtest"
)

// No container could start with a spec that another program has damaged.
func TestDamagedCDISpecIsWrittenAgain(t *testing.T) {
	n := simtest.New(t, "--gpus", "2")
	p := start(t, n, "--device-list-strategy", "cdi-cri")
	p.wait(2, 0)
	spec := filepath.Join(p.path("cdi"), "k8s.device-plugin.nvidia.com-gpu.json")
	foreign := filepath.Join(p.path("cdi"), "k8s.device-plugin.nvidia.com-notes.json")
	want, err := os.ReadFile(spec)
	assert.NilError(t, err)
	assert.NilError(t, os.WriteFile(foreign, []byte(`{"kind":"k8s.device-plugin.nvidia.com/notes"}`), 0o600))
	for _, c := range []struct {
		name   string
		damage func() error
	}{
		{"removed", func() error { return os.Remove(spec) }},
		{"truncated", func() error { return os.Truncate(spec, 100) }},
		{"replaced", func() error { return errors.Join(os.Remove(spec), os.WriteFile(spec, []byte("{}"), 0o600)) }},
	} {
		assert.NilError(t, c.damage())
		agenttest.Poll(t, "the spec that was "+c.name+" is written again", func() bool {
			got, err := os.ReadFile(spec)
			return err == nil && bytes.Equal(got, want)
		})
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Errorf("a spec of another kind of the vendor: %v", err)
	}
	assert.NilError(t, os.RemoveAll(filepath.Dir(spec)))
	agenttest.Poll(t, "the spec is written again after its folder was removed", func() bool {
		got, err := os.ReadFile(spec)
		return err == nil && bytes.Equal(got, want)
	})
}

// A library that is installed while the plugin runs reaches containers that start
// later.
func TestCDISpecFollowsTheDriver(t *testing.T) {
	n := simtest.New(t, "--gpus", "2")
	root := filepath.Join(n.Root, "driver")
	lib := filepath.Join(root, "usr/lib/x86_64-linux-gnu")
	encode, err := filepath.Glob(filepath.Join(lib, "libnvidia-encode.so.5*"))
	if err != nil || len(encode) != 1 {
		t.Fatalf("find libnvidia-encode: %v, %v", encode, err)
	}
	away := filepath.Join(root, "away")
	assert.NilError(t, os.Rename(encode[0], away))
	p := start(t, n, "--device-list-strategy", "cdi-cri", "--driver-root", root, "--driver-root-ctr-path", root)
	p.wait(2, 0)
	assert.NilError(t, os.Rename(away, encode[0]))
	agenttest.Poll(t, "the spec has the library", func() bool {
		got, err := os.ReadFile(filepath.Join(p.path("cdi"), "k8s.device-plugin.nvidia.com-gpu.json"))
		return err == nil && bytes.Contains(got, []byte(encode[0]))
	})
}
