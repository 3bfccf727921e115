package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/nri/nritest"
	"outrigger.dev/pkg/podresources/podresourcestest"
)

func TestNRIPlugin(t *testing.T) {
	h := newHost(t, "--gpus", "2")
	podResources := filepath.Join(t.TempDir(), "kubelet.sock")
	kubelet := podresourcestest.Start(t, podResources)
	gpu := h.uuid("1")
	kubelet.Set(podresourcestest.Pod("ns", "pod", podresourcestest.Container("gpu", "nvidia.com/gpu", gpu), podresourcestest.Container("none", "")))
	socket := filepath.Join(t.TempDir(), "nri.sock")
	p := h.start("--host-root-mount", "/", "--enable-nri-plugin", "--nri-socket", socket, "--pod-resources-socket", podResources)
	p.unready("nri: connect to the container engine's NRI: dial unix " + socket)
	engine := nritest.Start(t, socket)
	engine.Await(t)
	p.ready()
	if got := h.text(engineConfig); got != engineText {
		t.Errorf("the config of the engine is %q, want it left alone", got)
	}
	all := []string{"NVIDIA_VISIBLE_DEVICES=all"}
	got, err := engine.Create(t.Context(), "ns", "pod", &api.Container{Name: "gpu", Env: all})
	assert.NilError(t, err)
	var paths []string
	for _, d := range got.GetLinux().GetDevices() {
		paths = append(paths, d.GetPath())
		if d.GetMajor() == 0 {
			t.Errorf("the device node %s has no number", d.GetPath())
		}
	}
	if !slices.Contains(paths, "/dev/nvidia1") || slices.Contains(paths, "/dev/nvidia0") || !slices.Contains(paths, "/dev/nvidiactl") {
		t.Errorf("the container gets the device nodes %q, want those of %s", paths, gpu)
	}
	if !slices.ContainsFunc(got.GetMounts(), func(m *api.Mount) bool { return strings.Contains(m.GetDestination(), "/libcuda.so.") }) {
		t.Errorf("the container gets the mounts %v, want libcuda among them", got.GetMounts())
	}
	if hooks := got.GetHooks().GetCreateContainer(); len(hooks) != 1 || hooks[0].GetPath() != h.path("nvidia/toolkit/nvidia-cdi-hook") {
		t.Errorf("the container gets the hooks %v, want that of the installed tool", hooks)
	}
	got, err = engine.Create(t.Context(), "ns", "pod", &api.Container{Name: "none", Env: all})
	if err != nil || len(got.GetEnv())+len(got.GetMounts())+len(got.GetLinux().GetDevices()) > 0 {
		t.Errorf("a container without an allocation gets %v, %v", got, err)
	}
	engine.Stop()
	p.unready("nri: ")
}

func TestNRIPluginIsRejected(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"without CDI specs":      {[]string{"--cdi-enabled=false"}, "the plugin needs CDI specs: set --cdi-enabled too"},
		"if the agent exits":     {[]string{"--no-daemon"}, "the plugin runs in the agent: remove --no-daemon"},
		"with a wrong index":     {[]string{"--nri-plugin-index=1"}, "two digits"},
		"with a relative socket": {[]string{"--nri-socket=nri.sock"}, "an absolute path"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			out, err := h.command(append(c.args, "--enable-nri-plugin")...).CombinedOutput()
			if err == nil || !strings.Contains(string(out), c.want) {
				t.Errorf("the agent says %q, %v, want %q", out, err, c.want)
			}
		})
	}
}
