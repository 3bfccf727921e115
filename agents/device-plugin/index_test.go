package main

import (
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu/simtest"
)

// TestAGPULeavesTheBus: the other GPUs keep their names, also after a restart. After a reboot, an index
// in the config that named another GPU means neither GPU.
func TestAGPULeavesTheBus(t *testing.T) {
	n := simtest.New(t, "--gpus", "4")
	p := newProcess(t)
	assert.NilError(t, os.Mkdir(p.path("index"), 0o755))
	config := filepath.Join(p.dir, "config.yaml")
	assert.NilError(t, os.WriteFile(config, []byte("version: v1\ndevices: {exclude: [\"3\"]}\n"), 0o600))
	args := []string{"--config-file", config, "--device-list-strategy", "envvar,cdi-cri", "--device-id-strategy", "index", "--index-dir", p.path("index")}
	p.run(n, args...)
	ids := map[string]string{}
	for i, d := range p.wait(3, 0) {
		ids[d.GetID()] = string(rune('0' + i))
	}
	check := func(what string) {
		t.Helper()
		for _, d := range p.wait(2, 0) {
			id := d.GetID()
			resp, err := p.kubelet.Allocate(agenttest.Deadline(t), resource, id)
			assert.NilError(t, err)
			names := resp.GetCdiDevices()
			if len(names) != 1 || names[0].GetName() != "k8s.device-plugin.nvidia.com/gpu="+ids[id] || ids[id] == "0" {
				t.Errorf("%s: CDI names %v of %s, want the index %s", what, names, id, ids[id])
			}
			if got := resp.GetEnvs()["NVIDIA_VISIBLE_DEVICES"]; got != id {
				t.Errorf("%s: NVIDIA's runtime gets %s of %s, want the UUID", what, got, id)
			}
		}
	}
	n.Run("unplug", "0")
	check("a GPU has left the bus")
	p.Said("nvml lists gpus at other indices")
	p.Stop()
	p.run(n, args...)
	p.Said("ready: devices are registered and listed")
	check("the plugin has restarted")
	p.Stop()
	// The node reboots. GPUs have NVML's indices: 1 is 0, 2 is 1, and the excluded 3 is 2.
	assert.NilError(t, os.Remove(contract.Dir{Root: p.path("run")}.Path(contract.GPUIndex)))
	p.run(n, args...)
	p.Said("ready: devices are registered and listed")
	p.wait(2, 0)
	p.Said("has changed with a reboot")
	p.Stop()
}

// A GPU that a container may have alone does not become shared when a shared GPU leaves the bus, also
// after a restart.
func TestASharedGPULeavesTheBus(t *testing.T) {
	n := simtest.New(t, "--gpus", "4")
	p := newProcess(t)
	config := filepath.Join(p.dir, "config.yaml")
	text := "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, devices: 2, replicas: 2, rename: nvidia.com/gpu.shared}]}}\n"
	assert.NilError(t, os.WriteFile(config, []byte(text), 0o600))
	p.run(n, "--config-file", config)
	alone := map[string]bool{}
	for _, d := range p.wait(2, 0) {
		alone[d.GetID()] = true
	}
	n.Run("unplug", "0")
	p.Said("2 devices are configured, and 1 are shared")
	for _, restart := range []bool{false, true} {
		if restart {
			p.Stop()
			p.run(n, "--config-file", config)
			p.Said("ready: devices are registered and listed")
		}
		for _, d := range p.wait(2, 0) {
			if !alone[d.GetID()] {
				t.Errorf("%s is not shared, and was before; restart: %v", d.GetID(), restart)
			}
		}
	}
	p.Stop()
}
