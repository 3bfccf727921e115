package gpusim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"google.golang.org/grpc"
	kubelet "k8s.io/kubelet/pkg/apis/podresources/v1"

	"outrigger.dev/test/bench/internal/process"
)

// script shows a machine without GPUs in the folder $1, and runs the agent as a container of it does. The mounts are in
// a namespace that ends with the agent. The machine's /run is in memory, as on a real node.
const script = `set -e
cd "$1"
mount -t tmpfs -o mode=0755 run run
mkdir run/nvidia
mount -t tmpfs -o mode=0755 dev dev
mount --rbind /proc proc
mount --rbind /sys sys
shift
exec "$@"`

// machine is a machine with a running agent, a fake API server and a kubelet without pods.
type machine struct {
	*process.Process

	dir     string
	api     *api
	kubelet *grpc.Server
}

// start starts the agent on a new machine. The machine has no container engine, whose NRI sends requests only when
// containers start.
func start(ctx context.Context, bin string) (*machine, error) {
	// The agent watches the folder of a socket and the folders above it, so no other program should write there.
	dir, err := os.MkdirTemp("/run", "bench-")
	if err != nil {
		return nil, fmt.Errorf("create folder of the machine: %w", err)
	}
	m := &machine{dir: dir, api: startAPI(), kubelet: grpc.NewServer()}
	if err := m.start(ctx, bin); err != nil {
		return nil, errors.Join(err, m.close())
	}
	return m, nil
}

func (m *machine) start(ctx context.Context, bin string) (err error) {
	for _, name := range []string{"run", "dev", "proc", "sys", "kubelet"} {
		if err := os.Mkdir(m.path(name), 0o755); err != nil {
			return err
		}
	}
	socket := m.path("kubelet/kubelet.sock")
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", socket)
	if err != nil {
		return err
	}
	kubelet.RegisterPodResourcesListerServer(m.kubelet, noPods{})
	go func() { _ = m.kubelet.Serve(listener) }() // until close
	config := m.path("kubeconfig")
	if err := os.WriteFile(config, m.api.kubeconfig(), 0o600); err != nil {
		return err
	}
	m.Process, err = process.Start(ctx, process.Config{
		Line: []string{
			"unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", m.dir,
			filepath.Join(bin, Name), "--node-name", nodeName, "--kubeconfig", config, "--report-events", "--listen", "127.0.0.1:0",
			"--root", m.path("run/gpu-sim/node"), "--dev", m.path("dev"), "--proc-root", m.path("proc"), "--sys-root", m.path("sys"),
			"--run-root", m.path("run/nvidia"), "--pod-resources-kubelet-socket", socket, "--nri-socket", "",
			"--lib-dir", filepath.Join(bin, "lib"), "--gpu-sim", filepath.Join(bin, "gpu-sim"), "--gpu-sim-hook", filepath.Join(bin, "gpu-sim-hook"),
		},
		Log: m.path("log"),
	})
	return err
}

func (m *machine) path(name string) string { return filepath.Join(m.dir, name) }

// close stops the agent, and removes the machine.
func (m *machine) close() error {
	var err error
	if m.Process != nil {
		err = m.Stop()
	}
	m.kubelet.Stop()
	m.api.CloseClientConnections()
	m.api.Close()
	return errors.Join(err, os.RemoveAll(m.dir))
}

// noPods is a kubelet whose node has no pods.
type noPods struct {
	kubelet.UnimplementedPodResourcesListerServer
}

// List implements the PodResources API.
func (noPods) List(context.Context, *kubelet.ListPodResourcesRequest) (*kubelet.ListPodResourcesResponse, error) {
	return &kubelet.ListPodResourcesResponse{}, nil
}
