package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/gpu/simtest"
)

// named makes a command run this program under another name, as a link of the image does.
func named(t *testing.T, cmd *exec.Cmd, name string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	assert.NilError(t, err)
	link := filepath.Join(t.TempDir(), name)
	assert.NilError(t, os.Symlink(self, link))
	for i, arg := range cmd.Args {
		if arg == os.Args[0] {
			cmd.Args[i] = link
		}
	}
	if cmd.Path == os.Args[0] {
		cmd.Path = link
	}
	return cmd
}

// TestTheChartOfNVIDIAsPluginRunsWithThisImage sets what the chart, 0.17 to 0.20, sets for
// the containers of its DaemonSet with a config: an init container and a sidecar with the
// command "config-manager", and "nvidia-device-plugin". On the node, the driver is where
// NVIDIA's runtime would put it into the container.
func TestTheChartOfNVIDIAsPluginRunsWithThisImage(t *testing.T) {
	n := simtest.New(t, "--gpus", "2")
	configs, shared := t.TempDir(), t.TempDir()
	config := func(replicas string) {
		t.Helper()
		text := "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: " + replicas + "}]}}\n"
		assert.NilError(t, os.WriteFile(filepath.Join(configs, "default"), []byte(text), 0o600))
	}
	config("4")
	for name, value := range map[string]string{
		"KUBECONFIG": "", "NODE_LABEL": "nvidia.com/device-plugin.config", "NODE_NAME": "node1",
		"CONFIG_FILE_DST": filepath.Join(shared, "config.yaml"),
		"DEFAULT_CONFIG":  "", "FALLBACK_STRATEGIES": "named,single", "KUBERNETES_SERVICE_HOST": "",
	} {
		t.Setenv(name, value)
	}
	manager := func(env ...string) *exec.Cmd {
		cmd := named(t, agenttest.Command(t, nil), "config-manager")
		cmd.Env = append(append(cmd.Env, "CONFIG_FILE_SRCDIR="+configs), env...)
		return cmd
	}
	if out, err := manager("ONESHOT=true", "SEND_SIGNAL=false", "SIGNAL=", "PROCESS_TO_SIGNAL=").CombinedOutput(); err != nil {
		t.Fatalf("init container: %v: %s", err, out)
	}
	sidecar := agenttest.Start(t, manager("ONESHOT=false", "SEND_SIGNAL=true", "SIGNAL=1", "PROCESS_TO_SIGNAL=nvidia-device-plugin"))
	sidecar.Said("wrote the config")

	for name, value := range map[string]string{
		"CONFIG_FILE": filepath.Join(shared, "config.yaml"), "MPS_ROOT": "/run/nvidia/mps", "PASS_DEVICE_SPECS": "true",
		"FAIL_ON_INIT_ERROR": "true", "DEVICE_ID_STRATEGY": "uuid", "DEVICE_DISCOVERY_STRATEGY": "auto",
		"GDRCOPY_ENABLED": "false", "GDS_ENABLED": "false", "MOFED_ENABLED": "false",
		"NVIDIA_MIG_MONITOR_DEVICES": "all", "NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
	} {
		t.Setenv(name, value)
	}
	p := newProcess(t)
	p.Process = agenttest.Start(t, named(t, p.command(n), "nvidia-device-plugin"))
	p.wait(8, 0)
	config("3")
	sidecar.Said("wrote the config", "default")
	p.wait(6, 0)
}
