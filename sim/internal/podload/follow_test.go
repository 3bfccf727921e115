package podload_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	kubelet "k8s.io/kubelet/pkg/apis/podresources/v1"

	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/podresources"
	"outrigger.dev/pkg/podresources/podresourcestest"
	"outrigger.dev/pkg/scenario"
	"outrigger.dev/sim/internal/load/loadtest"
	"outrigger.dev/sim/internal/podload"
	"outrigger.dev/sim/internal/state"
)

// trainID is the ID of the container of the pod ml/train.
var trainID = strings.Repeat("a", 64)

// pod returns a Pod object.
func pod(name, phase string, annotations map[string]string) string {
	data, err := json.Marshal(annotations)
	if err != nil {
		panic(err)
	}
	containerState := `"running":{}`
	if phase != "Running" {
		containerState = `"terminated":{}`
	}
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"ml","name":%q,"uid":"uid-%s","resourceVersion":"4","annotations":%s},
		"status":{"phase":%q,"containerStatuses":[{"name":"main","containerID":"containerd://%s","state":{%s}}]}}`, name, name, data, phase, trainID, containerState)
}

// api lists no pods, and then sends events.
type api struct{ events chan string }

func (a api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/api/v1/pods" || r.URL.Query().Get("fieldSelector") != "spec.nodeName=node1" {
		http.NotFound(w, r)
		return
	}
	if !r.URL.Query().Has("watch") {
		_, _ = io.WriteString(w, `{"metadata":{"resourceVersion":"1"},"items":[]}`)
		return
	}
	_ = http.NewResponseController(w).Flush()
	for {
		select {
		case e := <-a.events:
			_, _ = io.WriteString(w, e)
			_ = http.NewResponseController(w).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

func (a api) send(kind, object string) {
	a.events <- `{"type":"` + kind + `","object":` + object + "}\n"
}

// reports has the messages of Events.
type reports struct {
	mu  sync.Mutex
	all []string
}

func (r *reports) add(e kube.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, e.Reason+": "+e.Message)
}

func (r *reports) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.all, "\n")
}

// rig is a node whose pods a Follower follows.
type rig struct {
	loadtest.Node
	api
	*podresourcestest.Kubelet
	reports
}

func newRig(t *testing.T, change func(*podload.Config)) *rig {
	t.Helper()
	r := &rig{Node: loadtest.New(t, "h100-80", 2), api: api{make(chan string)}}
	server := httptest.NewServer(r.api)
	t.Cleanup(server.Close)
	dir := t.TempDir()
	config := filepath.Join(dir, "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %s}}]\ncontexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n", server.URL)
	assert.NilError(t, os.WriteFile(config, []byte(text), 0o600))
	log := slog.New(slog.DiscardHandler)
	client, err := kube.New(kube.Config{Kubeconfig: config, Node: "node1", Agent: "gpu-sim", Log: log})
	assert.NilError(t, err)
	socket := filepath.Join(dir, "s")
	r.Kubelet = podresourcestest.Start(t, socket)
	asks, err := podresources.New(podresources.Config{Socket: socket})
	assert.NilError(t, err)
	cfg := podload.Config{Root: r.Root, Client: client, NodeName: "node1", Kubelet: asks, Event: r.add, Log: log, Proc: dir}
	change(&cfg)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { assert.Check(t, podload.New(cfg).Run(ctx)) })
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	return r
}

// poll waits until ok returns true.
func (r *rig) poll(what string, ok func() bool) {
	r.Helper()
	for begin := 0; !ok(); begin++ {
		if begin == 6000 || !pace.Pause(r.Context(), 10*time.Millisecond) { // a minute
			r.Fatalf("%s did not happen; GPU 0: %+v\nreports:\n%s", what, r.GPU(0).Values, &r.reports)
		}
	}
}

func (r *rig) utilization(want uint32) func() bool {
	return func() bool { return r.GPU(0).UtilizationGPU == want }
}

// uses makes the kubelet say that the pod ml/train has GPU 0.
func (r *rig) uses(name string) {
	r.Set(podresourcestest.Pod("ml", name, podresourcestest.Container("main", "nvidia.com/gpu", r.GPU(0).UUID)))
}

func TestAPodsAnnotationsAreFollowed(t *testing.T) {
	t.Parallel()
	sleep := exec.CommandContext(t.Context(), "sleep", "600")
	assert.NilError(t, sleep.Start())
	pid := sleep.Process.Pid
	r := newRig(t, func(cfg *podload.Config) {
		dir := filepath.Join(cfg.Proc, fmt.Sprint(pid))
		assert.NilError(t, os.Mkdir(dir, 0o755))
		cgroup := "0::/kubepods/pod0d2e3f44-1111-2222-3333-444455556666/" + trainID + "\n"
		assert.NilError(t, os.WriteFile(filepath.Join(dir, "cgroup"), []byte(cgroup), 0o600))
	})
	assert.NilError(t, r.State.SetField(1, "temperature", "77"))
	idle := r.GPU(0)
	r.uses("train")
	r.send("ADDED", pod("train", "Running", map[string]string{podload.Prefix + "utilization": "75", podload.Prefix + "memory": "20Gi", podload.Prefix + "utilization-encoder": "33", "other": "x"}))
	r.poll("the load", r.utilization(75))
	g := r.GPU(0)
	want := state.Process{PID: pid, GPUInstance: state.WholeGPU, ComputeInstance: state.WholeGPU, MemoryBytes: 20 << 30, Use: state.Use{SM: 75, Memory: 37}}
	if len(g.Processes) != 1 || g.Processes[0] != want || g.Values["utilization-encoder"] != 33 || g.PowerMilliwatts <= idle.PowerMilliwatts {
		t.Errorf("GPU %+v, want the process %+v", g, want)
	}
	r.send("MODIFIED", pod("train", "Running", map[string]string{podload.Prefix + "utilization": "25"}))
	r.poll("the change of the annotation", r.utilization(25))
	r.send("MODIFIED", pod("train", "Succeeded", map[string]string{podload.Prefix + "utilization": "25"}))
	r.poll("the end of the pod", r.utilization(0))
	if g := r.GPU(0); g.PowerMilliwatts != idle.PowerMilliwatts || g.Temperature != idle.Temperature || len(g.Processes) != 0 {
		t.Errorf("after the pod: %+v", g)
	}
	if g := r.GPU(1); g.Temperature != 77 {
		t.Errorf("a value by hand on a GPU without a pod: %d", g.Temperature)
	}
}

func TestPodsWithoutAnnotations(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		standard *scenario.Range
		want     uint32
	}{
		"the default load replaces values by hand": {&scenario.Range{Low: 40, High: 40}, 40},
		"a default of 0 too":                       {&scenario.Range{}, 0},
		"without a default, they stay":             {nil, 55},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(cfg *podload.Config) { cfg.Default = tc.standard })
			assert.NilError(t, r.State.SetField(0, "utilization-gpu", "55"))
			r.uses("train")
			r.send("ADDED", pod("train", "Running", nil))
			// The pod b shows that the Follower has seen the pod train.
			r.send("ADDED", pod("b", "Running", map[string]string{podload.Prefix + "x": "y"}))
			r.poll("the report", func() bool { return r.reports.String() != "" })
			r.poll("the load", r.utilization(tc.want))
			r.send("DELETED", pod("train", "Running", nil))
			r.poll("the end of the pod", r.utilization(55))
		})
	}
}

// TestBadAnnotations has a pod with a good and three bad annotations: each bad one is reported once, and the good one has effect.
func TestBadAnnotations(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(*podload.Config) {})
	r.uses("train")
	bad := map[string]string{podload.Prefix + "utilization": "6o", podload.Prefix + "memory": "20GB", podload.Prefix + "utilisation": "5", podload.Prefix + "utilization-encoder": "33"}
	r.send("ADDED", pod("train", "Running", bad))
	r.poll("the good annotation", func() bool { return r.GPU(0).Values["utilization-encoder"] == 33 })
	bad[podload.Prefix+"sm-active"] = "44"
	r.send("MODIFIED", pod("train", "Running", bad))
	r.poll("the second change", func() bool { return r.GPU(0).Values["sm-active"] == 44 })
	want := `InvalidSimulatedLoad: pod ml/train: annotation outrigger.dev/sim.memory: invalid value "20GB": must be a quantity such as 20Gi
InvalidSimulatedLoad: pod ml/train: annotation outrigger.dev/sim.utilisation: unknown annotation: did you mean outrigger.dev/sim.utilization?
InvalidSimulatedLoad: pod ml/train: annotation outrigger.dev/sim.utilization: invalid value "6o": must be a number such as 75, or a range such as 60-90, from 0 to 100`
	if got := r.reports.String(); got != want {
		t.Errorf("reports:\n%s\nwant:\n%s", got, want)
	}
}

// TestADeviceOfAClaim has a pod whose MIG device has only the name of its ResourceSlice, and a pod that starts.
func TestADeviceOfAClaim(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(*podload.Config) {})
	r.Divide("3g.40gb")
	gi := r.GPU(0).MIG.GPUInstances[0]
	r.Set(&kubelet.PodResources{Namespace: "ml", Name: "train", Containers: []*kubelet.ContainerResources{{
		Name: "main", DynamicResources: []*kubelet.DynamicResource{{ClaimName: "c", ClaimNamespace: "ml", ClaimResources: []*kubelet.ClaimResource{{
			DriverName: "gpu.nvidia.com", PoolName: "node1", DeviceName: fmt.Sprintf("gpu-0-mig-%d-0", gi.ID),
		}}}},
	}}}, podresourcestest.Pod("ml", "starts", podresourcestest.Container("main", "nvidia.com/gpu", r.GPU(1).UUID)))
	r.send("ADDED", pod("starts", "Pending", map[string]string{podload.Prefix + "utilization": "90"}))
	r.send("ADDED", pod("train", "Running", map[string]string{podload.Prefix + "utilization": "75"}))
	r.poll("the load of the MIG device", func() bool { return r.GPU(0).MIG.GPUInstances[0].Values["sm-active"] == 75 })
	if g := r.GPU(1); g.UtilizationGPU != 0 {
		t.Errorf("a pod that has not started has the load %d", g.UtilizationGPU)
	}
}

// TestTheNodeIsReplaced has a node that is absent at first.
func TestTheNodeIsReplaced(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(cfg *podload.Config) {
		assert.NilError(t, os.Rename(filepath.Join(cfg.Root, "state"), filepath.Join(cfg.Root, "later")))
	})
	r.uses("train")
	r.send("ADDED", pod("train", "Running", map[string]string{podload.Prefix + "utilization": "75"}))
	assert.NilError(t, os.Rename(filepath.Join(r.Root, "later"), filepath.Join(r.Root, "state")))
	r.poll("the load", r.utilization(75))
}
