package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"gotest.tools/v3/assert"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"outrigger.dev/agents/device-plugin/kubelettest"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/gpu/simtest"
)

// The tests of this package run the plugin as a process, on the simulated node
// and with a kubelet over real sockets.

const resource = "nvidia.com/gpu"

func TestMain(m *testing.M) { agenttest.Main(m, agenttest.Pod(pluginOrMPS)) }

// process is a running plugin with a kubelet.
type process struct {
	*agenttest.Process
	t       *testing.T
	kubelet *kubelettest.Kubelet
	dir     string
}

// start starts the plugin in the node, with a kubelet, or on the host where n
// is nil.
func start(t *testing.T, n *simtest.Node, args ...string) *process {
	t.Helper()
	p := newProcess(t)
	p.run(n, args...)
	return p
}

// newProcess returns a plugin that has not been started, with a kubelet.
func newProcess(t *testing.T) *process {
	t.Helper()
	p := &process{t: t, dir: agenttest.ShortDir(t)}
	for _, name := range []string{"sockets", "run", "cdi"} {
		assert.NilError(t, os.Mkdir(p.path(name), 0o755))
	}
	kubelet, err := kubelettest.Start(p.path("sockets"))
	assert.NilError(t, err)
	p.kubelet = kubelet
	t.Cleanup(kubelet.Stop)
	return p
}

// run starts the plugin of p.
func (p *process) run(n *simtest.Node, args ...string) {
	p.t.Helper()
	p.Process = agenttest.Start(p.t, p.command(n, args...))
}

// command returns the command that starts the plugin of p.
func (p *process) command(n *simtest.Node, args ...string) *exec.Cmd {
	p.t.Helper()
	return agenttest.Command(p.t, n, append([]string{
		"--kubelet-socket", p.kubelet.Socket(), "--run-root", p.path("run"), "--cdi-root", p.path("cdi"), "--listen", "127.0.0.1:0",
	}, args...)...)
}

func (p *process) path(name string) string { return filepath.Join(p.dir, name) }

// wait waits until the kubelet's newest list has so many healthy and unhealthy
// devices.
func (p *process) wait(healthy, unhealthy int) []*pluginapi.Device {
	p.t.Helper()
	u, err := p.kubelet.WaitDevices(agenttest.Deadline(p.t), resource, func(ds []*pluginapi.Device) bool {
		good := slices.DeleteFunc(slices.Clone(ds), func(d *pluginapi.Device) bool { return d.GetHealth() != pluginapi.Healthy })
		return len(good) == healthy && len(ds) == healthy+unhealthy
	})
	assert.NilError(p.t, err, "want %d healthy and %d unhealthy devices", healthy, unhealthy)
	return u.Devices
}
