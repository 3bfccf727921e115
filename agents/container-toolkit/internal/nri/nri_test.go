package nri_test

import (
	"context"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/encoding/protojson"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"
	kubeletapi "k8s.io/kubelet/pkg/apis/podresources/v1"

	"outrigger.dev/agents/container-toolkit/internal/inject"
	"outrigger.dev/agents/container-toolkit/internal/nri"
	"outrigger.dev/agents/container-toolkit/internal/toolconfig"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/nri/nritest"
	"outrigger.dev/pkg/podresources"
	"outrigger.dev/pkg/podresources/podresourcestest"
)

const (
	gpu0 = "GPU-00000000-0000-4000-8000-000000000000"
	gpu1 = "GPU-00000000-0000-4000-8000-000000000001"
	mig  = "MIG-00000000-0000-5000-8000-000000000002"
)

// spec is a CDI spec of two GPUs and a MIG device. Its nodes need not exist.
const spec = `{"cdiVersion":"0.5.0","kind":"nvidia.com/gpu","containerEdits":{"env":["NVIDIA_VISIBLE_DEVICES=void","A=first"],
"deviceNodes":[{"path":"/dev/nvidiactl","type":"c","major":195,"minor":255,"fileMode":438,"permissions":"rw"}],
"mounts":[{"hostPath":"/usr/lib64/libcuda.so.580.95.05","containerPath":"/usr/lib64/libcuda.so.580.95.05","options":["ro","nosuid","nodev","rbind","rprivate"]},
{"hostPath":"/usr/lib64/libnvidia-encode.so.580.95.05","containerPath":"/usr/lib64/libnvidia-encode.so.580.95.05","options":["ro","nosuid","nodev","rbind","rprivate"]}],
"hooks":[{"hookName":"createContainer","path":"/usr/bin/nvidia-cdi-hook","args":["nvidia-cdi-hook","prepare-container"],"env":["NVIDIA_CTK_DEBUG=false"]}]},
"devices":[{"name":"` + gpu0 + `","containerEdits":{"env":["A=0"],"deviceNodes":[{"path":"/dev/nvidia0","type":"c","major":195,"fileMode":438,"permissions":"rw"}]}},
{"name":"` + gpu1 + `","containerEdits":{"env":["A=1"],"deviceNodes":[{"path":"/dev/nvidia1","type":"c","major":195,"minor":1,"fileMode":438,"permissions":"rw"}]}},
{"name":"` + mig + `","containerEdits":{"deviceNodes":[{"path":"/dev/nvidia1","type":"c","major":195,"minor":1,"fileMode":438},
{"path":"/dev/nvidia-caps/nvidia-cap12","type":"c","major":235,"minor":12,"fileMode":292}]}}]}`

// rig is a plugin with its surroundings.
type rig struct {
	socket  string
	kubelet *podresourcestest.Kubelet
	log     *agenttest.Lines

	mu      sync.Mutex
	reports []string
}

// start starts a plugin until the test ends.
func start(t *testing.T) *rig {
	t.Helper()
	dir := t.TempDir()
	assert.NilError(t, os.WriteFile(filepath.Join(dir, "gpu.json"), []byte(spec), 0o600))
	r := &rig{socket: filepath.Join(dir, "nri", "nri.sock"), log: agenttest.NewLines(), kubelet: podresourcestest.Start(t, filepath.Join(dir, "kubelet.sock"))}
	kubelet, err := podresources.New(podresources.Config{Socket: filepath.Join(dir, "kubelet.sock")})
	assert.NilError(t, err)
	p := nri.New(nri.Config{
		Index: "10", Socket: r.socket, Kubelet: kubelet,
		Tools: toolconfig.Default(), Kind: "nvidia.com/gpu", Folder: dir,
		Stat: func(path string) (inject.Node, error) {
			return inject.Node{}, &fs.PathError{Op: "stat", Path: path, Err: fs.ErrNotExist}
		},
		Report: r.report, Log: slog.New(slog.NewTextHandler(io.MultiWriter(t.Output(), r.log), &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	agenttest.Run(t, p.Run)
	return r
}

func (r *rig) report(err error) {
	text := "asked"
	if err != nil {
		text = err.Error()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.reports) == 0 || r.reports[len(r.reports)-1] != text {
		r.reports = append(r.reports, text)
	}
}

// reported waits until there are reports with these texts, in this order, since the last
// call.
func (r *rig) reported(t *testing.T, texts ...string) {
	t.Helper()
	agenttest.Poll(t, "reports of "+strings.Join(texts, ", "), func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		at := 0
		for _, report := range r.reports {
			if at < len(texts) && strings.Contains(report, texts[at]) {
				at++
			}
		}
		if at < len(texts) {
			return false
		}
		r.reports = nil
		return true
	})
}

func device(path string, major, minor int64) *api.LinuxDevice {
	return &api.LinuxDevice{Path: path, Type: "c", Major: major, Minor: minor}
}

// nodes returns the Linux part of a container with the nodes of all GPUs.
func nodes() *api.LinuxContainer {
	return &api.LinuxContainer{Devices: []*api.LinuxDevice{device("/dev/nvidiactl", 195, 255), device("/dev/nvidia0", 195, 0), device("/dev/nvidia1", 195, 1)}}
}

// devices returns devices of a resource.
func devices(resource string, ids ...string) *kubeletapi.ContainerDevices {
	return &kubeletapi.ContainerDevices{ResourceName: resource, DeviceIds: ids}
}

// The pods of the kubelet, and their containers.
func pods(k *podresourcestest.Kubelet) {
	var containers []*kubeletapi.ContainerResources
	for name, of := range map[string][]*kubeletapi.ContainerDevices{
		"one":      {devices("nvidia.com/gpu", gpu0)},
		"shared":   {devices("nvidia.com/gpu.shared", gpu1+"::3", gpu1+"::12")},
		"mig":      {devices("nvidia.com/mig-1g.10gb", mig)},
		"two":      {devices("nvidia.com/gpu", gpu0), devices("example.com/renamed", gpu1)},
		"lost":     {devices("nvidia.com/gpu", "GPU-99999999-0000-4000-8000-000000000000")},
		"numbered": {devices("nvidia.com/gpu", "nvidia0")},
		"other":    {devices("example.com/gpu", "0000:03:00.0"), devices("nvidia.com/GRID_T4-1Q", "0000:04:00.1")},
		"none":     nil,
	} {
		containers = append(containers, &kubeletapi.ContainerResources{Name: name, Devices: of})
	}
	k.Set(podresourcestest.Pod("ns", "pod", containers...), podresourcestest.Pod("ns", "without", &kubeletapi.ContainerResources{Name: "none"}))
}

func TestWhatAContainerGets(t *testing.T) {
	r := start(t)
	pods(r.kubelet)
	e := nritest.Start(t, r.socket)
	e.Await(t)
	r.reported(t, "asked")
	for name, c := range map[string]struct {
		pod       string // "pod" if it is empty
		container *api.Container
		// golden is a file; without it, the container gets nothing, or the error.
		golden string
		err    []string
	}{
		"the GPU that the kubelet allocated to it": {container: &api.Container{Name: "one", Env: []string{"PATH=/bin", "NVIDIA_VISIBLE_DEVICES=" + gpu0}}, golden: "one"},
		"whatever its variable names":              {container: &api.Container{Name: "one", Env: []string{"NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_IMEX_CHANNELS=0", "NVIDIA_MIG_CONFIG_DEVICES=all", "NVIDIA_GDS=enabled"}}, golden: "one"},
		"without any variable":                     {container: &api.Container{Name: "one"}, golden: "one"},
		"one GPU once, of which it has replicas":   {container: &api.Container{Name: "shared"}, golden: "shared"},
		"a MIG device":                             {container: &api.Container{Name: "mig"}, golden: "mig"},
		"two GPUs, one by a resource of another name, and variables only once": {container: &api.Container{Name: "two"}, golden: "two"},
		"the part of the driver that it needs":                                 {container: &api.Container{Name: "one", Env: []string{"NVIDIA_DRIVER_CAPABILITIES=utility,video"}}, golden: "video"},
		"nodes that belong to its user": {container: &api.Container{
			Name: "one", User: &api.User{Uid: 1000, Gid: 2000}, Linux: &api.LinuxContainer{Namespaces: []*api.LinuxNamespace{{Type: "user"}}},
		}, golden: "user"},
		"nothing without an allocation, but NVIDIA_VISIBLE_DEVICES=all": {container: &api.Container{Name: "none", Env: []string{"NVIDIA_VISIBLE_DEVICES=all"}}},
		"nothing without an allocation, but the UUID of a GPU":          {container: &api.Container{Name: "none", Env: []string{"NVIDIA_VISIBLE_DEVICES=" + gpu0}}},
		"nothing without an allocation, but annotations": {container: &api.Container{
			Name: "none", Annotations: map[string]string{"nvidia.cdi.k8s.io/pod": "nvidia.com/gpu=all", "cdi.k8s.io/x": "nvidia.com/gpu=all"},
		}},
		"nothing without an allocation, but mounts":           {container: &api.Container{Name: "none", Mounts: []*api.Mount{{Source: "/dev/null", Destination: "/var/run/nvidia-container-devices/" + gpu0}}}},
		"nothing in a pod that the kubelet does not know":     {pod: "unknown", container: &api.Container{Name: "one"}},
		"nothing for devices of other plugins":                {container: &api.Container{Name: "other"}},
		"nothing again if the engine has given it, by CDI":    {container: &api.Container{Name: "one", Env: []string{"NVIDIA_VISIBLE_DEVICES=void"}, Linux: nodes()}},
		"its GPU if it is privileged, and has only the nodes": {container: &api.Container{Name: "one", Linux: nodes()}, golden: "one"},
		"its GPU if the image wants no GPU":                   {container: &api.Container{Name: "one", Env: []string{"NVIDIA_VISIBLE_DEVICES=void"}}, golden: "one"},
		"as an init container the GPU of its pod":             {container: &api.Container{Name: "init", Env: []string{"NVIDIA_VISIBLE_DEVICES=" + gpu0}}, golden: "one"},
		"as an init container the GPU of its pod, by a mount": {container: &api.Container{Name: "init", Mounts: []*api.Mount{{Source: "/dev/null", Destination: "/var/run/nvidia-container-devices/" + gpu0}}}, golden: "one"},
		"as an init container no GPU by its index":            {container: &api.Container{Name: "init", Env: []string{"NVIDIA_VISIBLE_DEVICES=0"}}, err: []string{"the container names 0", "has not allocated this device"}},
		"nothing without an allocation, but an index":         {container: &api.Container{Name: "none", Env: []string{"NVIDIA_VISIBLE_DEVICES=0"}}},
		"as an init container nothing if it names all":        {container: &api.Container{Name: "init", Env: []string{"NVIDIA_VISIBLE_DEVICES=all"}}},
		"as an init container no GPU that its pod has not":    {pod: "without", container: &api.Container{Name: "init", Env: []string{"NVIDIA_VISIBLE_DEVICES=" + gpu0}}, err: []string{"the container names " + gpu0, "request GPUs in a container of the pod too", "cdi-cri"}},
		"an error in a pod that the kubelet does not know":    {pod: "unknown", container: &api.Container{Name: "one", Env: []string{"NVIDIA_VISIBLE_DEVICES=" + gpu0}}, err: []string{gpu0}},
		"an error if no spec has its device":                  {container: &api.Container{Name: "lost"}, err: []string{"inject GPUs: unresolvable CDI devices nvidia.com/gpu=GPU-99999999", "nvidia-ctk cdi generate"}},
		"an error if a device has no UUID":                    {container: &api.Container{Name: "numbered"}, err: []string{`device "nvidia0" of the resource nvidia.com/gpu is not named by the UUID of a GPU`, "disable the NRI plugin"}},
		"an error if it requires another driver":              {container: &api.Container{Name: "one", Env: []string{"NVIDIA_REQUIRE_X=arch>=nonsense,"}}, err: []string{"inject GPUs: ", "NVIDIA_REQUIRE_X"}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := c.pod
			if pod == "" {
				pod = "pod"
			}
			got, err := e.Create(t.Context(), "ns", pod, c.container)
			check(t, got, err, c.golden, c.err)
		})
	}
}

// check compares what a container got with a golden file, or with an error.
func check(t *testing.T, got *api.ContainerAdjustment, err error, file string, parts []string) {
	t.Helper()
	if (err != nil) != (len(parts) > 0) {
		t.Fatalf("the error is %v, want %q", err, parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error is %q, want %q in it", err, part)
		}
	}
	if err != nil {
		return
	}
	given := len(got.GetEnv())+len(got.GetMounts())+len(got.GetLinux().GetDevices())+len(got.GetHooks().Hooks().GetCreateContainer()) > 0
	if given != (file != "") {
		t.Fatalf("the container gets %v", got)
	}
	if file == "" {
		return
	}
	text := protojson.MarshalOptions{Multiline: true, Indent: "  "}.Format(got)
	// The package varies the white space on purpose.
	golden.Assert(t, strings.ReplaceAll(text, ":  ", ": ")+"\n", file+".golden")
}

func TestWithoutTheKubelet(t *testing.T) {
	r := start(t)
	pods(r.kubelet)
	e := nritest.Start(t, r.socket)
	e.Await(t)
	// The engine creates a container without asking a plugin that does not answer in time.
	r.kubelet.Answer(func(ctx context.Context) (*kubeletapi.ListPodResourcesResponse, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	if got, err := e.Create(t.Context(), "ns", "pod", &api.Container{Name: "none", Env: []string{"NVIDIA_VISIBLE_DEVICES=all"}}); err != nil || len(got.GetEnv()) > 0 {
		t.Errorf("a container that names no GPU gets %v, %v", got, err)
	}
	_, err := e.Create(t.Context(), "ns", "pod", &api.Container{Name: "one", Env: []string{"NVIDIA_VISIBLE_DEVICES=" + gpu0}})
	check(t, nil, err, "", []string{"the container names " + gpu0 + ", but its allocation cannot be read", "ask the kubelet at ", "no answer in time", "check the load of the node"})
}

// The log names containers that started while the plugin was away, and only these.
func TestContainersThatThePluginMissed(t *testing.T) {
	r := start(t)
	named := []string{"NVIDIA_VISIBLE_DEVICES=" + gpu0}
	var running []*api.Container
	var listed []*kubeletapi.PodResources
	for name, c := range map[string]*api.Container{
		"missed":  {Env: named, State: api.ContainerState_CONTAINER_RUNNING},
		"given":   {Env: append(named, "NVIDIA_VISIBLE_DEVICES=void"), State: api.ContainerState_CONTAINER_RUNNING},
		"stopped": {Env: named, State: api.ContainerState_CONTAINER_STOPPED},
		"without": {Env: named, State: api.ContainerState_CONTAINER_RUNNING},
	} {
		c.Name = name
		running = append(running, c)
		has := &kubeletapi.ContainerResources{Name: name}
		if name != "without" {
			has.Devices = append(has.Devices, devices("nvidia.com/gpu", gpu0))
		}
		listed = append(listed, podresourcestest.Pod("ns", name, has))
	}
	r.kubelet.Set(listed...)
	nritest.StartWith(t, r.socket, running).Await(t)
	var warned []string
	for line := range strings.Lines(r.log.String()) {
		if strings.Contains(line, "a container started while the nri plugin was not connected") {
			warned = append(warned, line)
		}
	}
	if len(warned) != 1 || !strings.Contains(warned[0], "pod=ns/missed container=missed gpus=["+gpu0+"]") {
		t.Errorf("the log has the warnings %q, want one, about the container missed", warned)
	}
}

// What docs/container-toolkit.md advises, so that no container starts while the plugin is
// away.
func TestEngineThatRequiresThePlugin(t *testing.T) {
	dir := t.TempDir()
	e := nritest.Start(t, filepath.Join(dir, "nri.sock"), nri.Name)
	_, err := e.Create(t.Context(), "ns", "pod", &api.Container{Name: "none"})
	check(t, nil, err, "", []string{`required plugin "nvidia-container-toolkit" not present`})
	e.Stop()
	r := start(t)
	e = nritest.Start(t, r.socket, nri.Name)
	e.Await(t)
	if _, err := e.Create(t.Context(), "ns", "pod", &api.Container{Name: "none"}); err != nil {
		t.Error(err)
	}
}
