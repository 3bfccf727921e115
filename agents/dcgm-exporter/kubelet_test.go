package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	kubelet "k8s.io/kubelet/pkg/apis/podresources/v1"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/gpu/simtest"
	"outrigger.dev/pkg/podresources/podresourcestest"
)

// A device of a pod that fits no GPU of the node is logged and counted once, from a claim or not.
func TestDevicesThatFitNoGPU(t *testing.T) {
	t.Parallel()
	n := simtest.New(t, "--gpus=1", "--model=l4")
	for name, c := range map[string]struct {
		container *kubelet.ContainerResources
		said      []string
	}{
		"a claim": {
			&kubelet.ContainerResources{Name: "main", DynamicResources: []*kubelet.DynamicResource{{ClaimNamespace: "ml", ClaimName: "one-gpu", ClaimResources: []*kubelet.ClaimResource{
				{DriverName: "gpu.nvidia.com", PoolName: "node1", DeviceName: "gpu-9"},
			}}}},
			[]string{"claim=one-gpu", "driver=gpu.nvidia.com", "pool=node1", "device=gpu-9"},
		},
		"a device plugin": {podresourcestest.Container("main", "nvidia.com/gpu", "tegra"), []string{"resource=nvidia.com/gpu", "id=tegra"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			socket := filepath.Join(t.TempDir(), "kubelet.sock")
			k := podresourcestest.Start(t, socket)
			p := start(t, n, "--kubernetes", "--pod-resources-kubelet-socket="+socket)
			agenttest.Poll(t, "an answer of the kubelet", func() bool { return p.Gauge("exporter_pod_mapping_up") == 1 })
			if got := p.Gauge("exporter_pod_mapping_unknown_devices_total"); got != 0 {
				t.Errorf("%d unknown devices at first", got)
			}
			k.Set(podresourcestest.Pod("ml", "train", c.container))
			p.Said(append(c.said, "devices of pods fit no gpu of this node", "namespace=ml", "pod=train", "container=main")...)
			// Each reading asks the kubelet again. The account of the next pod shows that it did.
			k.Set(podresourcestest.Pod("ml", "train", c.container), podresourcestest.Pod("ml", "serve", podresourcestest.Container("main", "nvidia.com/gpu", uuids(t, n)[0])))
			p.has("30", "DCGM_FI_DEV_GPU_TEMP", `pod="serve"`)
			if got := p.Gauge("exporter_pod_mapping_unknown_devices_total"); got != 1 {
				t.Errorf("%d unknown devices, want 1", got)
			}
			k.Set()
			p.lacks("DCGM_FI_DEV_GPU_TEMP", `pod="serve"`)
			k.Set(podresourcestest.Pod("ml", "train", c.container))
			agenttest.Poll(t, "the device again", func() bool { return p.Gauge("exporter_pod_mapping_unknown_devices_total") == 2 })
		})
	}
}

// A pod that has ended has no GPU, also if the kubelet still lists its device: the API server knows.
func TestPodsThatHaveEnded(t *testing.T) {
	t.Parallel()
	pod := func(name, phase string) string {
		return `{"metadata":{"namespace":"ml","name":"` + name + `","uid":"uid-` + name + `","resourceVersion":"4"},"status":{"phase":"` + phase + `"}}`
	}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("watch") {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
		_, _ = io.WriteString(w, `{"metadata":{"resourceVersion":"10"},"items":[`+strings.Join([]string{pod("done", "Succeeded"), pod("failed", "Failed"), pod("train", "Running")}, ",")+`]}`)
	}))
	t.Cleanup(server.Close)
	n := simtest.New(t, "--gpus=1", "--model=l4")
	socket := filepath.Join(t.TempDir(), "kubelet.sock")
	k := podresourcestest.Start(t, socket)
	id := uuids(t, n)[0]
	runs(k, map[string]string{"done": id, "failed": id, "train": id})
	cmd := agenttest.Command(t, n, "--run-root", t.TempDir(), "--listen", "127.0.0.1:0", "--collect-interval=250", "--node-name=node1",
		"--kubernetes", "--kubernetes-enable-pod-uid", "--pod-resources-kubelet-socket="+socket)
	agenttest.InPod(t, cmd, server.URL, agenttest.Account(t, server))
	p := &process{Process: agenttest.Start(t, cmd), t: t}
	p.has("30", "DCGM_FI_DEV_GPU_TEMP", `pod="train"`, `pod_uid="uid-train"`)
	p.lacks("DCGM_FI_DEV_GPU_TEMP", `pod="done"`)
	p.lacks("DCGM_FI_DEV_GPU_TEMP", `pod="failed"`)
}
