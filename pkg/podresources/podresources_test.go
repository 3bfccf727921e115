package podresources_test

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	kubelet "k8s.io/kubelet/pkg/apis/podresources/v1"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/podresources"
)

const (
	whole = "GPU-0d2e3f44-1111-2222-3333-444455556666" // minor 0, index 1
	cut   = "GPU-1d2e3f44-1111-2222-3333-444455556666" // minor 1, index 0, in MIG mode
	mig1  = "MIG-aaaaaaaa-1111-2222-3333-444455556666" // gi 1, ci 0, slices 0 to 3
	mig2a = "MIG-bbbbbbbb-1111-2222-3333-444455556666" // gi 2, ci 0, slices 4 to 7
	mig2b = "MIG-cccccccc-1111-2222-3333-444455556666" // gi 2, ci 1
	other = "GPU-ffffffff-1111-2222-3333-444455556666" // of no node
)

// node has a whole GPU and one with three MIG devices, on which the minors are not the indices.
func node() *gpu.Node {
	return &gpu.Node{GPUs: []gpu.GPU{
		{Index: 0, UUID: cut, Minor: 1, MIG: &gpu.MIG{Enabled: true, Devices: []gpu.MIGDevice{
			{UUID: mig1, GPUInstance: 1, ComputeInstance: 0, Placement: gpu.Placement{Start: 0, Size: 4}},
			{UUID: mig2a, Index: 1, GPUInstance: 2, ComputeInstance: 0, Placement: gpu.Placement{Start: 4, Size: 4}},
			{UUID: mig2b, Index: 2, GPUInstance: 2, ComputeInstance: 1, Placement: gpu.Placement{Start: 4, Size: 4}},
			{Index: 3, GPUInstance: gpu.NoInstance, ComputeInstance: gpu.NoInstance, Fault: &gpu.Fault{Op: "nvmlDeviceGetUUID"}},
		}}},
		{Index: 1, UUID: whole, Minor: 0},
		{Index: 2, Fault: &gpu.Fault{Op: "nvmlDeviceGetUUID"}},
	}}
}

// allocated returns an answer with one container, which has devices of a resource.
func allocated(resource string, ids ...string) *kubelet.ListPodResourcesResponse {
	return answer(of("ns", "pod", container("main", &kubelet.ContainerDevices{ResourceName: resource, DeviceIds: ids})))
}

func answer(of ...*kubelet.PodResources) *kubelet.ListPodResourcesResponse {
	return &kubelet.ListPodResourcesResponse{PodResources: of}
}

func of(namespace, name string, of ...*kubelet.ContainerResources) *kubelet.PodResources {
	return &kubelet.PodResources{Namespace: namespace, Name: name, Containers: of}
}

func container(name string, of ...*kubelet.ContainerDevices) *kubelet.ContainerResources {
	return &kubelet.ContainerResources{Name: name, Devices: of}
}

func TestDeriveResolvesEachFormOfAnID(t *testing.T) {
	const gpuName, migName = "nvidia.com/gpu", "nvidia.com/mig-1g.5gb"
	for name, c := range map[string]struct {
		resource, id string
		of           *gpu.Node
		more         []string
		// want are the keys, with replica the number in each.
		want    []gpu.UUID
		replica string
		unknown bool
	}{
		"a GPU":                               {resource: gpuName, id: whole, want: []gpu.UUID{whole}},
		"a GPU in MIG mode":                   {resource: gpuName, id: cut, want: []gpu.UUID{cut}},
		"a replica of a GPU":                  {resource: gpuName, id: whole + "::12", want: []gpu.UUID{whole}, replica: "12"},
		"a MIG device":                        {resource: migName, id: mig2a, want: []gpu.UUID{mig2a}},
		"a MIG device, strategy single":       {resource: gpuName, id: mig1, want: []gpu.UUID{mig1}},
		"a replica of a MIG device":           {resource: migName + ".shared", id: mig1 + "::0", want: []gpu.UUID{mig1}, replica: "0"},
		"a MIG device of an old driver":       {resource: migName, id: "MIG-" + cut + "/2/1", want: []gpu.UUID{mig2b}},
		"a replica of one of an old driver":   {resource: migName, id: "MIG-" + cut + "/2/1::3", want: []gpu.UUID{mig2b}, replica: "3"},
		"GKE, a GPU by its minor":             {resource: gpuName, id: "nvidia0", want: []gpu.UUID{whole}},
		"GKE, a part of a GPU":                {resource: gpuName, id: "nvidia0/vgpu7", want: []gpu.UUID{whole}, replica: "7"},
		"GKE, a GPU instance":                 {resource: gpuName, id: "nvidia1/gi1", want: []gpu.UUID{mig1}},
		"GKE, an instance with two compute":   {resource: gpuName, id: "nvidia1/gi2", want: []gpu.UUID{mig2a, mig2b}},
		"GKE, a part of a GPU instance":       {resource: gpuName, id: "nvidia1/gi1/vgpu0", want: []gpu.UUID{mig1}, replica: "0"},
		"GKE, an instance that is gone":       {resource: gpuName, id: "nvidia1/gi9", unknown: true},
		"GKE, a GPU that is gone":             {resource: gpuName, id: "nvidia9", unknown: true},
		"GKE, without a node":                 {resource: gpuName, id: "nvidia0", of: new(gpu.Node), unknown: true},
		"a renamed shared resource":           {resource: gpuName + ".shared", id: whole + "::1", want: []gpu.UUID{whole}, replica: "1"},
		"a resource of any name":              {resource: "example.com/h200", id: whole, want: []gpu.UUID{whole}},
		"a shared resource of any name":       {resource: "example.com/h200", id: mig1 + "::4", want: []gpu.UUID{mig1}, replica: "4"},
		"an old MIG device of any name":       {resource: "example.com/h200", id: "MIG-" + cut + "/1/0", want: []gpu.UUID{mig1}},
		"any name, of no GPU here":            {resource: "example.com/h200", id: other, want: []gpu.UUID{other}},
		"any name, an id of a minor":          {resource: "example.com/nic", id: "nvidia0"},
		"a resource of the user":              {resource: "example.com/part", id: "nvidia0", more: []string{"example.com/part"}, want: []gpu.UUID{whole}},
		"a resource of the user, shared":      {resource: "example.com/part.shared", id: "nvidia0", more: []string{"example.com/part"}, want: []gpu.UUID{whole}},
		"another resource":                    {resource: "example.com/nic", id: "eth0"},
		"a resource with a similar name":      {resource: "nvidia.com/gpumem", id: "0"},
		"a GPU that the node does not have":   {resource: gpuName, id: other, want: []gpu.UUID{other}, unknown: true},
		"a replica the node does not have":    {resource: gpuName, id: other + "::2", want: []gpu.UUID{other}, replica: "2", unknown: true},
		"an old MIG device that is gone":      {resource: gpuName, id: "MIG-" + cut + "/7/0", want: []gpu.UUID{"MIG-" + cut + "/7/0"}, unknown: true},
		"no form that is known":               {resource: gpuName, id: "tegra", unknown: true},
		"an empty id":                         {resource: gpuName, id: "", unknown: true},
		"a UUID that would break a metric":    {resource: gpuName, id: "GPU-a\nb", unknown: true},
		"a UUID without a rest":               {resource: gpuName, id: "GPU-", unknown: true},
		"a replica that is no number":         {resource: gpuName, id: whole + "::x", unknown: true},
		"an old MIG device without instances": {resource: gpuName, id: "MIG-" + cut, want: nil, unknown: true},
		"an old MIG device, a part too many":  {resource: gpuName, id: "MIG-" + cut + "/1/0/0", unknown: true},
		"a minor with a zero before it":       {resource: gpuName, id: "nvidia00", unknown: true},
		"a minor that is too large":           {resource: gpuName, id: "nvidia4294967296", unknown: true},
		"GKE, a part too many":                {resource: gpuName, id: "nvidia0/vgpu1/vgpu2", unknown: true},
		"GKE, an empty part":                  {resource: gpuName, id: "nvidia0/", unknown: true},
		"GKE, an empty instance":              {resource: gpuName, id: "nvidia0/gi", unknown: true},
		"GKE, no number":                      {resource: gpuName, id: "nvidiactl", unknown: true},
	} {
		t.Run(name, func(t *testing.T) {
			of := c.of
			if of == nil {
				of = node()
			}
			got, unknown := podresources.Derive(allocated(c.resource, c.id), podresources.Options{Node: of, Resources: c.more})
			want := podresources.Map{}
			for _, uuid := range c.want {
				want[uuid] = []podresources.User{{Namespace: "ns", Pod: "pod", Container: "main", Resource: c.resource, Replica: c.replica}}
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("users (-want +got):\n%s", d)
			}
			if is := len(unknown) == 1 && unknown[0].ID == c.id; is != c.unknown || !is && len(unknown) > 0 {
				t.Errorf("unknown devices: %v, want %v", unknown, c.unknown)
			}
		})
	}
}

func TestDeriveWithoutANodeKeepsUUIDs(t *testing.T) {
	got, unknown := podresources.Derive(allocated("nvidia.com/gpu", whole, mig1+"::1", "MIG-"+cut+"/1/0", "nvidia0"), podresources.Options{})
	u := podresources.User{Namespace: "ns", Pod: "pod", Container: "main", Resource: "nvidia.com/gpu"}
	replica := u
	replica.Replica = "1"
	if d := cmp.Diff(podresources.Map{whole: {u}, mig1: {replica}, "MIG-" + cut + "/1/0": {u}}, got); d != "" {
		t.Errorf("users (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]podresources.Unknown{{User: u, ID: "nvidia0"}}, unknown); d != "" {
		t.Errorf("unknown devices (-want +got):\n%s", d)
	}
}

func TestDeriveKeepsAllPodsOfASharedGPU(t *testing.T) {
	devices := func(ids ...string) *kubelet.ContainerDevices {
		return &kubelet.ContainerDevices{ResourceName: "nvidia.com/gpu.shared", DeviceIds: ids}
	}
	all := []*kubelet.PodResources{
		of("b", "pod", container("main", devices(whole+"::10", whole+"::9"))),
		of("a", "pod", container("side", devices(whole+"::2")), container("main", devices(whole+"::1")), container("none")),
		of("a", "done", container("main", devices(whole+"::2"))),
		of("a", "again", container("main", devices(whole+"::3"))),
		of("a", "again", container("main", devices(whole+"::3"))), // while a static pod is replaced
	}
	user := func(namespace, pod, container, replica string) podresources.User {
		return podresources.User{Namespace: namespace, Pod: pod, Container: container, Resource: "nvidia.com/gpu.shared", Replica: replica}
	}
	want := podresources.Map{whole: {
		user("a", "again", "main", "3"), user("a", "pod", "main", "1"), user("a", "pod", "side", "2"),
		user("b", "pod", "main", "9"), user("b", "pod", "main", "10"),
	}}
	for range 20 { // in whatever order the kubelet lists them
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		got, unknown := podresources.Derive(answer(all...), podresources.Options{
			Node:  node(),
			Ended: func(namespace, pod string) bool { return namespace == "a" && pod == "done" },
		})
		if d := cmp.Diff(want, got); d != "" || len(unknown) > 0 {
			t.Fatalf("unknown devices %v, users (-want +got):\n%s", unknown, d)
		}
	}
}

func TestDeriveResolvesDevicesOfClaims(t *testing.T) {
	for name, c := range map[string]struct {
		driver, device, cdi string
		options             podresources.Options
		want                []gpu.UUID
		unknown             bool
	}{
		"by what the caller says":              {device: "x", options: podresources.Options{Node: node(), Claimed: map[string]gpu.UUID{"x": mig1}}, want: []gpu.UUID{mig1}},
		"the caller before the name":           {device: "gpu-0", options: podresources.Options{Node: node(), Claimed: map[string]gpu.UUID{"gpu-0": cut}}, want: []gpu.UUID{cut}},
		"by the CDI device":                    {device: "x", cdi: "k8s.gpu.nvidia.com/gpu=" + mig2b, options: podresources.Options{Node: node()}, want: []gpu.UUID{mig2b}},
		"by the CDI device, without a node":    {device: "x", cdi: "k8s.gpu.nvidia.com/gpu=" + mig2b, want: []gpu.UUID{mig2b}},
		"a GPU by its name":                    {device: "gpu-0", options: podresources.Options{Node: node()}, want: []gpu.UUID{whole}},
		"NVIDIA's CDI device has no UUID":      {device: "gpu-0", cdi: "k8s.gpu.nvidia.com/claim=0d2e-gpu-0", options: podresources.Options{Node: node()}, want: []gpu.UUID{whole}},
		"Outrigger's name of a MIG device":     {device: "gpu-1-mig-2-1", options: podresources.Options{Node: node()}, want: []gpu.UUID{mig2b}},
		"NVIDIA's name of a MIG device":        {device: "gpu-1-mig-9-0-4", options: podresources.Options{Node: node()}, want: []gpu.UUID{mig1}},
		"NVIDIA's name of one that it makes":   {device: "gpu-1-mig-3g20gb-9-0", options: podresources.Options{Node: node()}, want: []gpu.UUID{mig1}},
		"NVIDIA's name with an attribute":      {device: "gpu-1-mig-1g10gb-me-20-4", options: podresources.Options{Node: node()}, want: []gpu.UUID{mig2a, mig2b}},
		"a MIG device without a placement":     {device: "gpu-0-mig-0-0-0", options: podresources.Options{Node: &gpu.Node{GPUs: []gpu.GPU{{UUID: cut, MIG: &gpu.MIG{Devices: []gpu.MIGDevice{{UUID: mig1}}}}}}}, unknown: true},
		"a device that is gone":                {device: "gpu-5", options: podresources.Options{Node: node()}, unknown: true},
		"a name without a number":              {device: "gpu-x", options: podresources.Options{Node: node()}, unknown: true},
		"a GPU for a virtual machine":          {device: "gpu-vfio-0", options: podresources.Options{Node: node()}, unknown: true},
		"a name that only begins as a MIG one": {device: "gpu-1-mig-x-0", options: podresources.Options{Node: node()}, unknown: true},
		"a name that ends early":               {device: "gpu-1-mig", options: podresources.Options{Node: node()}, unknown: true},
		"no name":                              {options: podresources.Options{Node: node()}, unknown: true},
		"another driver":                       {driver: "compute-domain.nvidia.com", device: "channel-0", options: podresources.Options{Node: node()}},
	} {
		t.Run(name, func(t *testing.T) {
			driver := c.driver
			if driver == "" {
				driver = "gpu.nvidia.com"
			}
			r := &kubelet.ClaimResource{DriverName: driver, PoolName: "node1", DeviceName: c.device}
			if c.cdi != "" {
				r.CdiDevices = []*kubelet.CDIDevice{{Name: "k8s.gpu.nvidia.com/common=all"}, {Name: c.cdi}}
			}
			got, unknown := podresources.Derive(answer(of("ns", "pod", &kubelet.ContainerResources{
				Name: "main", DynamicResources: []*kubelet.DynamicResource{{ClaimName: "claim", ClaimNamespace: "ns", ClaimResources: []*kubelet.ClaimResource{r}}},
			})), c.options)
			u := podresources.User{Namespace: "ns", Pod: "pod", Container: "main", Claim: podresources.Claim{Namespace: "ns", Name: "claim", Driver: driver, Pool: "node1", Device: c.device}}
			want := podresources.Map{}
			for _, uuid := range c.want {
				want[uuid] = []podresources.User{u}
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("users (-want +got):\n%s", d)
			}
			if is := len(unknown) == 1 && unknown[0] == (podresources.Unknown{User: u}); is != c.unknown || !is && len(unknown) > 0 {
				t.Errorf("unknown devices: %v, want %v", unknown, c.unknown)
			}
		})
	}
}

// FuzzDerive checks that no id, name of a device or name of a resource leads to a key that is
// no UUID, and that what Outrigger's device plugin advertises is found.
func FuzzDerive(f *testing.F) {
	for _, id := range []string{whole, whole + "::3", mig1, "MIG-" + cut + "/2/1", "nvidia0", "nvidia1/gi2/vgpu3", "gpu-1-mig-3g20gb-9-0", "gpu-1-mig-9-0-4"} {
		f.Add("nvidia.com/gpu", id, "k8s.gpu.nvidia.com/gpu="+whole)
	}
	f.Fuzz(func(t *testing.T, resource, id, cdi string) {
		list := answer(of("ns", "pod", &kubelet.ContainerResources{
			Name:    "main",
			Devices: []*kubelet.ContainerDevices{{ResourceName: resource, DeviceIds: []string{id}}},
			DynamicResources: []*kubelet.DynamicResource{{ClaimResources: []*kubelet.ClaimResource{
				{DriverName: "gpu.nvidia.com", DeviceName: id, CdiDevices: []*kubelet.CDIDevice{{Name: cdi}}},
			}}},
		}))
		of := node()
		known := map[gpu.UUID]bool{whole: true, cut: true, mig1: true, mig2a: true, mig2b: true}
		got, unknown := podresources.Derive(list, podresources.Options{Node: of})
		if len(unknown) > 2 {
			t.Errorf("%d unknown devices of two", len(unknown))
		}
		for uuid, users := range got {
			if len(users) == 0 || !known[uuid] && len(unknown) == 0 {
				t.Errorf("%q: users %v, unknown %v", uuid, users, unknown)
			}
			for _, u := range users {
				for _, digit := range u.Replica {
					if digit < '0' || digit > '9' {
						t.Errorf("replica %q", u.Replica)
					}
				}
			}
			for _, c := range uuid {
				if c != '-' && c != '/' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
					t.Errorf("key %q", uuid)
				}
			}
		}
		if known[gpu.UUID(id)] && len(got[gpu.UUID(id)]) == 0 {
			t.Errorf("%q of %q has no user", id, resource)
		}
		podresources.Derive(list, podresources.Options{})
	})
}
