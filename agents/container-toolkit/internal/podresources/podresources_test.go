package podresources_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/agents/container-toolkit/internal/podresources"
	"outrigger.dev/agents/container-toolkit/internal/podresources/podresourcestest"
)

func TestPod(t *testing.T) {
	k := podresourcestest.Start(t)
	k.Add("a", "pod", podresourcestest.Containers{
		"main": {podresourcestest.Devices("nvidia.com/gpu", "GPU-1", "GPU-2"), podresourcestest.Devices("example.com/nic", "eth1")},
		"side": nil,
	})
	k.Add("b", "pod", podresourcestest.Containers{"main": {podresourcestest.Devices("nvidia.com/gpu", "GPU-3")}})
	k.Add("b", "twice", nil)
	k.Add("b", "twice", nil)
	of := podresources.Kubelet{Socket: k.Socket}
	for name, c := range map[string]struct {
		namespace, pod string
		want           podresources.Pod
		err            string
	}{
		"a pod has the devices of each container": {namespace: "a", pod: "pod", want: podresources.Pod{
			"main": {{Resource: "nvidia.com/gpu", ID: "GPU-1"}, {Resource: "nvidia.com/gpu", ID: "GPU-2"}, {Resource: "example.com/nic", ID: "eth1"}},
			"side": nil,
		}},
		"a pod of another namespace has its own":    {namespace: "b", pod: "pod", want: podresources.Pod{"main": {{Resource: "nvidia.com/gpu", ID: "GPU-3"}}}},
		"a pod that the kubelet does not know":      {namespace: "c", pod: "pod"},
		"two pods of one name cannot be told apart": {namespace: "b", pod: "twice", err: "it lists two pods b/twice: wait until the older one is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := of.Pod(t.Context(), c.namespace, c.pod)
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("the error is %v, want %q", err, c.err)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("the pod (-want +got):\n%s", d)
			}
		})
	}
}

func TestWithoutAKubelet(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "none.sock")
	_, err := podresources.Kubelet{Socket: socket}.Pod(t.Context(), "a", "pod")
	if err == nil || !strings.Contains(err.Error(), "ask the kubelet at "+socket) || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("the error is %v, want the socket and the reason", err)
	}
}
