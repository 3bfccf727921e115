package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/simtest"
)

func (p *process) fact() contract.Fact {
	return contract.Dir{Root: p.path("run")}.Read(contract.PluginReady)
}

func TestStart(t *testing.T) {
	n := simtest.New(t, "--gpus", "8")
	p := start(t, n)
	devices := p.wait(8, 0)
	p.Said("ready: devices are registered and listed")
	if f := p.fact(); f.State != contract.Valid {
		t.Errorf("plugin-ready is %s: %s", f.State, f.Reason)
	}
	resp, err := p.kubelet.Allocate(agenttest.Deadline(t), resource, devices[2].GetID())
	assert.NilError(t, err)
	if diff := cmp.Diff(map[string]string{"NVIDIA_VISIBLE_DEVICES": devices[2].GetID()}, resp.GetEnvs()); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	if got := files(t, p.path("cdi")); len(got) > 0 {
		t.Errorf("the strategy envvar made %v", got)
	}
	agenttest.Poll(t, "the config for other agents is published", func() bool {
		return contract.Dir{Root: p.path("run")}.Read(contract.PluginConfig).State == contract.Valid
	})
	p.Stop()
	if got := files(t, p.path("sockets")); !cmp.Equal(got, []string{"kubelet.sock"}) {
		t.Errorf("after the end the folder of sockets has %v", got)
	}
	if f := p.fact(); f.State != contract.Missing {
		t.Errorf("after the end plugin-ready is %s", f.State)
	}
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	assert.NilError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestSixteenGPUsWithCDI(t *testing.T) {
	n := simtest.New(t, "--gpus", "16", "--model", "h100-80")
	p := start(t, n, "--device-list-strategy", "cdi-annotations,cdi-cri", "--device-id-strategy", "index")
	devices := p.wait(16, 0)
	data, err := os.ReadFile(filepath.Join(p.path("cdi"), "k8s.device-plugin.nvidia.com-gpu.json"))
	assert.NilError(t, err)
	var spec struct {
		Kind    string
		Devices []struct{ Name string }
	}
	assert.NilError(t, json.Unmarshal(data, &spec))
	// One of them is "all".
	if spec.Kind != "k8s.device-plugin.nvidia.com/gpu" || len(spec.Devices) != 17 {
		t.Errorf("the CDI spec is of kind %s with %d devices", spec.Kind, len(spec.Devices))
	}
	resp, err := p.kubelet.Allocate(agenttest.Deadline(t), resource, devices[11].GetID())
	assert.NilError(t, err)
	if got := resp.GetCdiDevices(); len(got) != 1 || got[0].GetName() != "k8s.device-plugin.nvidia.com/gpu=11" {
		t.Errorf("CDI devices are %v", got)
	}
	if len(resp.GetAnnotations()) != 1 || len(resp.GetEnvs()) != 0 {
		t.Errorf("the answer is %v", resp)
	}
}

func TestXID(t *testing.T) {
	n := simtest.New(t, "--gpus", "4")
	p := start(t, n)
	p.wait(4, 0)
	p.Said("ready: devices")
	n.Run("xid", "1", "31")
	n.Run("xid", "2", "79")
	devices := p.wait(3, 1)
	if devices[2].GetHealth() != "Unhealthy" {
		t.Errorf("the devices are %v, want the third to be unhealthy", devices)
	}
	const reason = "xid 79 (GPU has fallen off the bus): reset the GPU or reboot the node"
	p.Said("device became unhealthy", devices[2].GetID(), reason)
	p.Said("xid ignored", devices[1].GetID(), "xid=31")
	metrics := p.Get("/metrics")
	for _, want := range []string{
		`device_health{device="` + devices[2].GetID() + `",index="2",reason="xid",resource="nvidia.com/gpu"} 0`,
		`xid_events_total{gpu="` + devices[1].GetID() + `",instance="",xid="31"} 1`,
		`registrations_total{resource="nvidia.com/gpu",result="ok"} 1`,
	} {
		if !strings.Contains(metrics, "outrigger_device_plugin_"+want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	if body := p.Get("/readyz"); body != "ok\n" {
		t.Errorf("/readyz says %q", body)
	}
}

// calls returns the NVML calls since the last calls, without those that wait for
// events.
func calls(n *simtest.Node) map[string]int {
	calls := n.Calls()
	maps.DeleteFunc(calls, func(symbol string, count int) bool { return count == 0 || symbol == "nvmlEventSetWait_v2" })
	return calls
}

func TestKubeletReturnsWithoutNVML(t *testing.T) {
	n := simtest.New(t, "--gpus", "8")
	p := start(t, n)
	p.wait(8, 0)
	if calls := calls(n); calls["nvmlDeviceGetName"] != 8 || calls["nvmlDeviceRegisterEvents"] != 8 {
		t.Errorf("NVML was called %v at the start, want each GPU to be read and watched once", calls)
	}
	for i := range 5 {
		assert.NilError(t, p.kubelet.Restart())
		if _, err := p.kubelet.WaitRegistrations(agenttest.Deadline(t), i+2); err != nil {
			t.Fatal(err)
		}
		p.wait(8, 0)
	}
	calls := calls(n)
	delete(calls, "nvmlDeviceGetMemoryInfo") // now and then, whether a GPU still works
	if len(calls) > 0 {
		t.Errorf("NVML was called when the kubelet came back: %v", calls)
	}
}

func TestLostGPUAtStart(t *testing.T) {
	n := simtest.New(t, "--gpus", "8")
	n.Run("lose", "5")
	p := start(t, n, "--device-list-strategy", "cdi-cri")
	_, err := p.kubelet.WaitDevices(agenttest.Deadline(t), resource, func(ds []*pluginapi.Device) bool {
		healthy := 0
		for _, d := range ds {
			if d.GetHealth() == pluginapi.Healthy {
				healthy++
			}
		}
		return healthy == 7
	})
	assert.NilError(t, err)
	p.Said("level=ERROR", "lost")
	p.Said("ready: devices")
}

func TestLateDriver(t *testing.T) {
	for name, tc := range map[string]struct{ args []string }{
		"envvar":  {},
		"cdi-cri": {args: []string{"--device-list-strategy", "cdi-cri"}},
	} {
		t.Run(name, func(t *testing.T) {
			n := simtest.New(t, "--gpus", "8", "--driver", "off")
			p := start(t, n, tc.args...)
			p.Said("gpus cannot be advertised, waiting", "no NVIDIA driver")
			agenttest.Poll(p.t, "/readyz says so too", func() bool { return strings.Contains(p.Get("/readyz"), "no NVIDIA driver") })
			n.Run("set", "driver=on")
			p.wait(8, 0)
			p.Said("ready: devices")
		})
	}
}

func TestIncompleteDriverRoot(t *testing.T) {
	n := simtest.New(t, "--gpus", "2")
	root := filepath.Join(n.Root, "driver")
	lib := filepath.Join(root, "usr/lib/x86_64-linux-gnu")
	cuda, err := filepath.Glob(filepath.Join(lib, "libcuda.so.5*"))
	if err != nil || len(cuda) != 1 {
		t.Fatalf("find libcuda: %v, %v", cuda, err)
	}
	away := cuda[0] + ".away"
	assert.NilError(t, os.Rename(cuda[0], away))
	p := start(t, n, "--device-list-strategy", "cdi-cri", "--driver-root", root, "--driver-root-ctr-path", root)
	p.Said("gpus cannot be advertised, waiting", "libcuda", root)
	if got := files(t, p.path("cdi")); len(got) > 0 {
		t.Errorf("an incomplete driver left %v", got)
	}
	if got := len(p.kubelet.Registrations()); got != 0 {
		t.Errorf("%d registrations, want none", got)
	}
	assert.NilError(t, os.Rename(away, cuda[0]))
	p.wait(2, 0)
}

func TestSnapshot(t *testing.T) {
	n := simtest.New(t, "--gpus", "3")
	out, err := agenttest.Command(t, n, "snapshot").Output()
	assert.NilError(t, err)
	var got gpu.Node
	assert.NilError(t, json.Unmarshal(out, &got))
	if len(got.GPUs) != 3 || got.GPUs[2].UUID == "" || got.Driver.Version == "" {
		t.Errorf("the snapshot is %s", out)
	}
}
