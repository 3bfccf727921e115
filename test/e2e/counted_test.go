//go:build e2e

package e2e_test

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"outrigger.dev/test/e2e/stack"
)

// registerTwice registers the socket of the running plugin once more, as a second plugin of
// the resource would during an update.
func registerTwice(t *testing.T) error {
	t.Helper()
	kubelet, err := shared.Path(t.Context(), gpuNode(), kubeletSockets+"kubelet.sock")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient("unix://"+kubelet, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = pluginapi.NewRegistrationClient(conn).Register(t.Context(), &pluginapi.RegisterRequest{
		Version: pluginapi.Version, Endpoint: "nvidia-gpu.sock", ResourceName: stack.GPU,
	})
	return err
}

// A kubelet that has refused a second connection to a socket refuses each plugin at that
// socket, until it restarts.
func TestAKubeletThatRefusesTheSocketGetsItsGPUsBack(t *testing.T) {
	plugin(t)
	t.Cleanup(func() {
		if err := shared.Restart(context.WithoutCancel(t.Context()), "kubelet", gpuNode()); err != nil {
			t.Error(err)
		}
	})
	if err := registerTwice(t); err == nil || !strings.Contains(err.Error(), "already connected") {
		t.Fatalf("the second registration of a socket: %v", err)
	}
	onGPUNode(t, "busybox killall -KILL device-plugin")
	eventually(t, "the kubelet lists the devices of the new plugin", func() bool {
		out, err := shared.Kubectl(t.Context(), "-n", stack.Namespace, "logs", pluginPod(t))
		return err == nil && strings.Contains(out, "nvidia-gpu~1.sock") && strings.Contains(out, "ready: devices are registered and listed")
	})
	allocatable(t, gpus, limit)
	if _, err := shared.RunVectorAdd(t.Context(), "at-another-socket", limit); err != nil {
		t.Error(err)
	}
}
