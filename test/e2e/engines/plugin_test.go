//go:build e2e

package engines_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"outrigger.dev/agents/device-plugin/kubelettest"
)

const resource = "nvidia.com/gpu"

// plugin is a container with the device plugin, and a kubelet outside of it.
type plugin struct {
	*engine
	node    *node
	kubelet *kubelettest.Kubelet
	sockets string
	id      string
}

// startPlugin runs the image's entry point with args.
func startPlugin(t *testing.T, options []string, args ...string) *plugin {
	t.Helper()
	p := &plugin{node: newNode(t)}
	p.engine = newEngine(t, p.node)
	p.kubelet, p.sockets = newKubelet(t)
	run := append([]string{"run", "--detach", "-v", p.sockets + ":/var/lib/kubelet/device-plugins"}, options...)
	p.id = p.must(append(append(run, p.image("device-plugin")), args...)...)
	t.Cleanup(func() {
		if t.Failed() {
			_, log, _ := p.try("logs", p.id)
			t.Logf("the plugin's log:\n%s", log)
		}
	})
	return p
}

// wait waits until the kubelet has all GPUs, and those at the indices are
// unhealthy.
func (p *plugin) wait(unhealthy ...int) []*pluginapi.Device {
	p.t.Helper()
	u, err := p.kubelet.WaitDevices(deadline(p.t), resource, func(ds []*pluginapi.Device) bool {
		var got []int
		for i, d := range ds {
			if d.GetHealth() != pluginapi.Healthy {
				got = append(got, i)
			}
		}
		return len(ds) == gpus && slices.Equal(got, unhealthy)
	})
	if err != nil {
		p.t.Fatalf("want %d devices, of which %v are unhealthy: %v", gpus, unhealthy, err)
	}
	return u.Devices
}

// allocate wants an answer of Allocate for one device.
func (p *plugin) allocate(id string, want *pluginapi.ContainerAllocateResponse) {
	p.t.Helper()
	got, err := p.kubelet.Allocate(deadline(p.t), resource, id)
	if err != nil {
		p.t.Fatal(err)
	}
	if d := cmp.Diff(want, got, protocmp.Transform()); d != "" {
		p.t.Errorf("Allocate(%s) (-want +got):\n%s", id, d)
	}
}

// stop wants the container to end well, long before Docker would kill it, and
// to leave no socket.
func (p *plugin) stop() {
	p.t.Helper()
	begin := time.Now()
	p.must("stop", p.id)
	if took := time.Since(begin); took > 5*time.Second {
		p.t.Errorf("docker stop took %s, want at most 5 s", took)
	}
	if code := p.must("inspect", "--format", "{{.State.ExitCode}}", p.id); code != "0" {
		p.t.Errorf("the plugin ended with %s, want 0", code)
	}
	left, err := os.ReadDir(p.sockets)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, file := range left {
		if file.Name() != "kubelet.sock" {
			p.t.Errorf("the plugin left %s", file.Name())
		}
	}
	p.must("rm", p.id)
}

func TestDevicePluginWithoutPrivileges(t *testing.T) {
	p := startPlugin(t, slices.Concat(safely(), driver(), devices(gpus)))
	list := p.wait()
	if got := list[gpus-1].GetTopology().GetNodes(); len(got) != 1 || got[0].GetID() != 1 {
		t.Errorf("the last GPU is on the NUMA nodes %v, want node 1", got)
	}
	p.allocate(list[2].GetID(), &pluginapi.ContainerAllocateResponse{
		Envs: map[string]string{"NVIDIA_VISIBLE_DEVICES": list[2].GetID()},
	})
	p.node.run(t, "xid", "3", "79")
	p.wait(3)
	p.node.run(t, "reset", "3")
	p.wait()
	p.stop()
}

func TestDevicePluginWithPrivileges(t *testing.T) {
	p := startPlugin(t, slices.Concat([]string{"--network=none", "--privileged"}, driver()), "--pass-device-specs")
	list := p.wait()
	want := &pluginapi.ContainerAllocateResponse{Envs: map[string]string{"NVIDIA_VISIBLE_DEVICES": list[5].GetID()}}
	for _, path := range []string{"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset", "/dev/nvidia5"} {
		want.Devices = append(want.Devices, &pluginapi.DeviceSpec{ContainerPath: path, HostPath: path, Permissions: "rw"})
	}
	p.allocate(list[5].GetID(), want)
	if err := p.kubelet.Restart(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.kubelet.WaitRegistrations(deadline(t), 2); err != nil {
		t.Fatal(err)
	}
	p.wait()
	p.node.run(t, "xid", "0", "79")
	p.wait(0)
	p.stop()
}

func TestDevicePluginWithoutDevicesSaysHowToGiveThem(t *testing.T) {
	e := newEngine(t, newNode(t))
	image := e.image("device-plugin")
	for name, c := range map[string]struct {
		options []string
		want    []string
	}{
		"without anything": {
			nil, []string{"libnvidia-ml.so.1", "-v /:/driver-root:ro", "--gpus all"},
		},
		"without device nodes": {
			driver(), []string{"the kernel module is loaded", "has no /dev/nvidiactl", "--device /dev/nvidiactl", "privileged"},
		},
		"with device nodes that the cgroup denies": {
			append(driver(), "-v", "/dev:/dev"), []string{"cgroup", "does not allow /dev/nvidiactl", "--device /dev/nvidiactl", "privileged"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			options := append(safely(), c.options...)
			_, stderr, err := e.once(append(options, image, "--fail-on-init-error", "--kubelet-socket=")...)
			if err == nil {
				t.Error("it did not fail")
			}
			for _, want := range c.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("%q is missing in:\n%s", want, stderr)
				}
			}
		})
	}
}
