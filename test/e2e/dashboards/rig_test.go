package dashboards_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/gpu/simtest"
	"outrigger.dev/pkg/podresources/podresourcestest"
)

// node is a simulated node with pods.
type node struct {
	*simtest.Node
	name string
	// gpus are the UUIDs of its GPUs, mig those of its MIG devices.
	gpus, mig []string
	kubelet   *podresourcestest.Kubelet
	socket    string
	pods      []*podresources.PodResources
	// allocate lets the kubelet of its device plugin allocate a GPU to a container.
	allocate func(context.Context) error
}

// nodes are two nodes: gpu-1 has a pod with a GPU, two that share one, one that does nothing, a GPU of
// nobody, and two pods with MIG devices; gpu-2 has a pod with two GPUs.
func nodes(t *testing.T) []*node {
	t.Helper()
	first := newNode(t, "gpu-1", "--gpus=5", "--model=h100-80")
	second := newNode(t, "gpu-2", "--gpus=2", "--model=h200")
	first.Run("mig mode", "4", "on")
	first.Run("mig create", "4", "3g.40gb", "2g.20gb", "1g.10gb")
	for _, n := range []*node{first, second} {
		n.identify(t)
	}
	first.Run("proc add", "--instance=2/0", "--memory=31000", "4")
	first.Run("proc add", "--instance=4/0", "--memory=14000", "4")
	first.pods = []*podresources.PodResources{
		pod("research", "train-0", "nvidia.com/gpu", first.gpus[0]),
		pod("serving", "chat-a", "nvidia.com/gpu.shared", first.gpus[1]+"::0"),
		pod("serving", "chat-b", "nvidia.com/gpu.shared", first.gpus[1]+"::1"),
		pod("research", "notebook", "nvidia.com/gpu", first.gpus[2]),
		pod("serving", "embed-0", "nvidia.com/mig-3g.40gb", first.mig[0]),
		pod("research", "eval-0", "nvidia.com/mig-2g.20gb", first.mig[1]),
	}
	second.pods = []*podresources.PodResources{
		pod("research", "train-1", "nvidia.com/gpu", second.gpus...),
	}
	for _, n := range []*node{first, second} {
		n.kubelet.Set(n.pods...)
	}
	return []*node{first, second}
}

func pod(namespace, name, resource string, devices ...string) *podresources.PodResources {
	return podresourcestest.Pod(namespace, name, podresourcestest.Container("main", resource, devices...))
}

func newNode(t *testing.T, name string, args ...string) *node {
	t.Helper()
	n := &node{Node: simtest.New(t, append(args, "--name="+name)...), name: name, socket: filepath.Join(t.TempDir(), "kubelet.sock")}
	n.kubelet = podresourcestest.Start(t, n.socket)
	return n
}

// identify reads the UUIDs of GPUs and MIG devices.
func (n *node) identify(t *testing.T) {
	t.Helper()
	var shown struct {
		GPUs []struct {
			UUID string
			MIG  struct {
				GPUInstances []struct {
					ComputeInstances []struct{ UUID string }
				}
			}
		}
	}
	if err := json.Unmarshal(n.Run("show", "--json"), &shown); err != nil {
		t.Fatal(err)
	}
	for _, g := range shown.GPUs {
		n.gpus = append(n.gpus, g.UUID)
		for _, gi := range g.MIG.GPUInstances {
			for _, ci := range gi.ComputeInstances {
				n.mig = append(n.mig, ci.UUID)
			}
		}
	}
}

// kubeletFails makes the kubelet answer with an error.
func (n *node) kubeletFails() {
	n.kubelet.Answer(func(context.Context) (*podresources.ListPodResourcesResponse, error) {
		return nil, errors.New("the test says so")
	})
}

// runs starts a program of the project in the node, until the test ends.
func (n *node) runs(t *testing.T, program string, args ...string) *agenttest.Process {
	t.Helper()
	path := filepath.Join(n.Bin, program)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("bin/%s is missing: build it with `make build`", program)
	}
	cmd := n.Command(context.WithoutCancel(t.Context()), path, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return agenttest.Start(t, cmd)
}

// exporter starts the DCGM exporter in the node, and returns its address.
func (n *node) exporter(t *testing.T, args ...string) string {
	t.Helper()
	return address(t, n.runs(t, "dcgm-exporter", append([]string{
		"--run-root", t.TempDir(), "--listen=127.0.0.1:0", "--collect-interval=500", "--node-name=" + n.name,
		"--kubernetes", "--pod-resources-kubelet-socket=" + n.socket, "--kernel-log=",
	}, args...)...))
}

// address returns the address that an agent serves.
func address(t *testing.T, p *agenttest.Process) string {
	t.Helper()
	p.Said("msg=serving")
	_, rest, _ := strings.Cut(p.Log.String(), "msg=serving address=")
	return strings.Fields(rest)[0]
}

// installed skips the test on a machine without a program, which the packages of the tests have.
func installed(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err == nil {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s is missing: run tools/packages.sh packages-test.txt", program)
	}
	t.Skipf("this machine has no %s: tools/packages.sh packages-test.txt installs it", program)
}
