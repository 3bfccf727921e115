package gpu_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
)

func TestDecodeRejects(t *testing.T) {
	for name, c := range map[string]struct {
		change func(n *gpu.Node)
		text   string
		want   []string
	}{
		"an empty file":               {text: "", want: []string{"line 1", "EOF"}},
		"null":                        {text: "null", want: []string{"no node"}},
		"a cut file":                  {text: "{\n\"gpus\": [\n", want: []string{"line 3", "EOF"}},
		"an unknown field":            {text: `{"gpus": [], "gpu": 1}`, want: []string{`unknown field "gpu"`}},
		"a value of another type":     {text: "{\n\"gpus\": [{\"index\": \"0\"}]}", want: []string{"line 2", "gpus.index"}},
		"something behind it":         {text: `{"driver":{"version":"1.2"},"gpus":[]} x`, want: []string{"more than one"}},
		"no driver version":           {change: func(n *gpu.Node) { n.Driver.Version = "" }, want: []string{"driver.version: is missing"}},
		"two GPUs with one UUID":      {change: func(n *gpu.Node) { n.GPUs[1].UUID = n.GPUs[0].UUID }, want: []string{"gpus[1].uuid: GPU-", "twice"}},
		"a UUID that cannot be named": {change: func(n *gpu.Node) { n.GPUs[1].UUID = "GPU-1\n=2" }, want: []string{`gpus[1].uuid: "GPU-1\n=2"`}},
		"GPUs out of order":           {change: func(n *gpu.Node) { slices.Reverse(n.GPUs) }, want: []string{"gpus[1].index"}},
		"a bus ID of NVML":            {change: func(n *gpu.Node) { n.GPUs[1].PCI.BusID = "00000000:0F:00.0" }, want: []string{`gpus[1].pci.busId: "00000000:0F:00.0"`}},
		"a fault without reason":      {change: func(n *gpu.Node) { n.GPUs[0].Fault = &gpu.Fault{} }, want: []string{"gpus[0].fault.reason"}},
		"a link to nowhere":           {change: func(n *gpu.Node) { n.Links[0].B = 7 }, want: []string{"links[0]: there is no GPU 7"}},
		"a link backwards":            {change: func(n *gpu.Node) { n.Links[0].A, n.Links[0].B = 1, 0 }, want: []string{"links[0]: a (1) must be less than b (0)"}},
		"a link to a broken GPU":      {change: func(n *gpu.Node) { n.GPUs[1].Fault = &gpu.Fault{Reason: "x"} }, want: []string{"links[0]: GPU 1 has a fault"}},
		"a memory fault of no driver": {change: func(n *gpu.Node) { n.GPUs[1].MemoryFaults = []gpu.MemoryFault{"worn"} }, want: []string{`gpus[1].memoryFaults[0]: "worn"`, "row-remap-failed"}},
		"a recovery of no driver":     {change: func(n *gpu.Node) { n.GPUs[1].Recovery = "pray" }, want: []string{`gpus[1].recovery: "pray"`, "drain-and-reset"}},
		"an unknown path":             {change: func(n *gpu.Node) { n.Links[0].Path = "NV12" }, want: []string{`links[0].path: "NV12"`}},
		"several bad values, all reported": {
			change: func(n *gpu.Node) { n.GPUs[0].UUID, n.GPUs[1].Minor = "", -1 },
			want:   []string{"gpus[0].uuid", "gpus[1].minor"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			text := []byte(c.text)
			if c.change != nil {
				node := gputest.Node(gputest.A100, 2)
				c.change(node)
				text = encode(t, node)
			}
			_, err := gpu.Decode(text)
			if err == nil {
				t.Fatal("Decode() accepts it")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("Decode() = %q, want %q in it", err, want)
				}
			}
		})
	}
}

func TestDecodeRejectsFabrics(t *testing.T) {
	const cluster = "d1c4be3f-6f0a-4b1e-9d0c-3a5f0c5b7e21"
	for name, c := range map[string]struct {
		fabric gpu.Fabric
		want   string
	}{
		"without a state":                  {gpu.Fabric{}, `fabric.state: "" is not one of`},
		"in a state that NVML hides":       {gpu.Fabric{State: "not-supported"}, `fabric.state: "not-supported" is not one of ["not-started"`},
		"completed without a status":       {gpu.Fabric{State: gpu.FabricCompleted}, "fabric.status: is missing"},
		"that succeed before they end":     {gpu.Fabric{State: gpu.FabricInProgress, Status: gpu.FabricSuccess}, `fabric.status: must be empty while the state is "in-progress"`},
		"of a cluster in capitals":         {gpu.Fabric{State: gpu.FabricNotStarted, ClusterUUID: strings.ToUpper(cluster)}, "fabric.clusterUuid: \"D1C4"},
		"of a cluster whose name is cut":   {gpu.Fabric{State: gpu.FabricNotStarted, ClusterUUID: cluster[:35]}, "is not a UUID like"},
		"of a cluster that is all zeroes":  {gpu.Fabric{State: gpu.FabricNotStarted, ClusterUUID: "00000000-0000-0000-0000-000000000000"}, "has only zeros"},
		"of a cluster with a clique in it": {gpu.Fabric{State: gpu.FabricNotStarted, ClusterUUID: cluster + ".1"}, "is not a UUID like"},
	} {
		t.Run(name, func(t *testing.T) {
			node := gputest.Node(gputest.H100, 2)
			node.GPUs[1].Fabric = &c.fabric
			_, err := gpu.Decode(encode(t, node))
			if err == nil || !strings.Contains(err.Error(), "gpus[1].fabric.") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Decode() = %v, want %q in it", err, c.want)
			}
		})
	}
}

func TestDecodeAcceptsFabrics(t *testing.T) {
	node := gputest.Node(gputest.H100, 4)
	for i, f := range []*gpu.Fabric{
		nil, // as in snapshots that were written before there was the field
		{State: gpu.FabricInProgress},
		{State: gpu.FabricCompleted, Status: "Unknown Error"},
		{State: gpu.FabricCompleted, Status: gpu.FabricSuccess, ClusterUUID: "d1c4be3f-6f0a-4b1e-9d0c-3a5f0c5b7e21", CliqueID: 32766},
	} {
		node.GPUs[i].Fabric = f
	}
	text := encode(t, node)
	if n := strings.Count(string(text), `"fabric"`); n != 3 {
		t.Errorf("the snapshot has %d fabrics, want 3: a GPU without one does not show it", n)
	}
	got, err := gpu.Decode(text)
	assert.NilError(t, err)
	if d := cmp.Diff(node, got); d != "" {
		t.Errorf("mismatch (-want +got):\n%s", d)
	}
}

func TestDecodeAcceptsAFaultyGPUOfWhichLittleIsKnown(t *testing.T) {
	node := gputest.Node(gputest.L4, 2)
	node.GPUs[1] = gpu.GPU{Index: 1, Minor: -1, NUMANode: -1, Fault: &gpu.Fault{Op: "nvmlDeviceGetHandleByIndex_v2", Reason: "GPU is lost"}}
	node.Links = nil
	got, err := gpu.Decode(encode(t, node))
	assert.NilError(t, err)
	if d := cmp.Diff(node, got); d != "" {
		t.Errorf("mismatch (-want +got):\n%s", d)
	}
}

// FuzzDecode checks that what Decode accepts survives a round trip, and that
// nothing makes it panic.
func FuzzDecode(f *testing.F) {
	for _, model := range []gputest.Model{gputest.A100, gputest.H100, gputest.L4} {
		data, err := json.Marshal(gputest.Node(model, 2))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	data, err := json.Marshal(gputest.Partition(gputest.Node(gputest.A100, 1), 0, "1g.5gb+me", "1c.3g.20gb"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"driver":{"version":"1"},"gpus":[null]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		node, err := gpu.Decode(data)
		if err != nil {
			return
		}
		again, err := gpu.Decode(encode(t, node))
		if err != nil {
			t.Fatalf("Decode() of what it accepted before: %v", err)
		}
		if d := cmp.Diff(node, again, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("round trip (-want +got):\n%s", d)
		}
	})
}

func TestDecodeRejectsMIGDevices(t *testing.T) {
	for name, c := range map[string]struct {
		change func(m *gpu.MIG)
		want   string
	}{
		"while the mode is off":        {func(m *gpu.MIG) { m.Enabled = false }, "mig.devices: must be empty while the mode is off"},
		"without UUID":                 {func(m *gpu.MIG) { m.Devices[1].UUID = "" }, "devices[1].uuid: is missing"},
		"with a UUID of the old form":  {func(m *gpu.MIG) { m.Devices[1].UUID = "MIG-GPU-1/1/0" }, "devices[1].uuid: \"MIG-GPU-1/1/0\""},
		"with the UUID of a GPU":       {func(m *gpu.MIG) { m.Devices[1].UUID = "GPU-00000000-0000-4000-8000-000000000000" }, "it is also gpus[0].uuid"},
		"with the UUID of another one": {func(m *gpu.MIG) { m.Devices[1].UUID = m.Devices[0].UUID }, "it is also gpus[1].mig.devices[0].uuid"},
		"with an index below zero":     {func(m *gpu.MIG) { m.Devices[1].Index = -1 }, "devices[1].index: is negative"},
		"with one index":               {func(m *gpu.MIG) { m.Devices[1].Index = m.Devices[0].Index }, "devices[1].index: 0 appears twice"},
		"out of order":                 {func(m *gpu.MIG) { slices.Reverse(m.Devices) }, "devices[1]: is not in order"},
		"of no GPU instance":           {func(m *gpu.MIG) { m.Devices[2].GPUInstance = gpu.NoInstance }, "devices[2].gpuInstance: is missing"},
		"of no compute instance":       {func(m *gpu.MIG) { m.Devices[2].ComputeInstance = gpu.NoInstance }, "devices[2].computeInstance: is missing"},
		"with one compute instance":    {func(m *gpu.MIG) { m.Devices[1].ComputeInstance = m.Devices[0].ComputeInstance }, "devices[1].computeInstance: 0 of GPU instance 2 appears twice"},
		"without profile":              {func(m *gpu.MIG) { m.Devices[0].Profile = gpu.Profile{} }, "devices[0].profile: is missing"},
		"below the GPU":                {func(m *gpu.MIG) { m.Devices[0].Placement.Start = -1 }, "devices[0].placement.start: is negative"},
		"of less than nothing":         {func(m *gpu.MIG) { m.Devices[0].Placement.Size = -1 }, "devices[0].placement.size: is negative"},
		"on top of each other":         {func(m *gpu.MIG) { m.Devices[2].Placement = m.Devices[0].Placement }, "devices[2].placement: overlaps the placement of GPU instance 2"},
		"of one instance in two places": {
			func(m *gpu.MIG) { m.Devices[1].Placement = gpu.Placement{Size: 4} },
			"devices[1].placement: differs from the placement of the other devices of GPU instance 2",
		},
		"without a capability of the GPU instance":     {func(m *gpu.MIG) { m.Devices[0].GPUInstanceCap = -1 }, "devices[0].gpuInstanceCap: is negative"},
		"without a capability of the compute instance": {func(m *gpu.MIG) { m.Devices[0].ComputeInstanceCap = -1 }, "devices[0].computeInstanceCap: is negative"},
		"with fewer engines than none":                 {func(m *gpu.MIG) { m.Devices[0].Engines.OFA = -1 }, "devices[0].engines: -1 is negative"},
		"that fail for no reason":                      {func(m *gpu.MIG) { m.Devices[0].Fault = &gpu.Fault{} }, "devices[0].fault.reason: is missing"},
		"of a GPU instance that is not listed":         {func(m *gpu.MIG) { m.GPUInstances = m.GPUInstances[:1] }, "mig.gpuInstances: GPU instance 10 of a device is missing"},
		"of a GPU instance in another place":           {func(m *gpu.MIG) { m.GPUInstances[0].Placement.Size = 2 }, "mig.gpuInstances: GPU instance 2 and its devices have different placements"},
		"with GPU instances out of order":              {func(m *gpu.MIG) { slices.Reverse(m.GPUInstances) }, "mig.gpuInstances[1].id: must be greater"},
		"with a GPU instance without id":               {func(m *gpu.MIG) { m.GPUInstances[1].ID = gpu.NoInstance }, "mig.gpuInstances[1].id: is missing"},
		"with a GPU instance below the GPU":            {func(m *gpu.MIG) { m.GPUInstances[0].Placement.Start = -1 }, "mig.gpuInstances[0].placement: is negative"},
		"with GPU instances on top of each other":      {func(m *gpu.MIG) { m.GPUInstances[1].Placement = m.GPUInstances[0].Placement }, "mig.gpuInstances[1].placement: overlaps the placement of GPU instance 2"},
		"with GPU instances while the mode is off":     {func(m *gpu.MIG) { m.Enabled, m.Devices = false, nil }, "mig.gpuInstances: must be empty while the mode is off"},
	} {
		t.Run(name, func(t *testing.T) {
			node := divided()
			c.change(node.GPUs[1].MIG)
			if _, err := gpu.Decode(encode(t, node)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Decode() = %v, want %q in it", err, c.want)
			}
		})
	}
}

// divided has two devices of one GPU instance, and one of another.
func divided() *gpu.Node {
	return gputest.Partition(gputest.Node(gputest.A100, 2), 1, "1c.3g.20gb", "2c.3g.20gb", "1g.5gb")
}

// Snapshots from before GPU instances were listed have none.
func TestDecodeAcceptsSnapshotsWithoutGPUInstances(t *testing.T) {
	node := divided()
	node.GPUs[1].MIG.GPUInstances = nil
	text := encode(t, node)
	if strings.Contains(string(text), "gpuInstances") {
		t.Fatalf("the snapshot is not of the old form: %s", text)
	}
	got, err := gpu.Decode(text)
	assert.NilError(t, err)
	if d := cmp.Diff(node, got); d != "" {
		t.Errorf("mismatch (-want +got):\n%s", d)
	}
}

func TestDecodeAcceptsGPUInstancesWithoutDevices(t *testing.T) {
	node := divided()
	mig := node.GPUs[1].MIG
	mig.Devices = nil
	mig.GPUInstances[1] = gpu.GPUInstance{ID: mig.GPUInstances[1].ID} // the driver does not report more
	got, err := gpu.Decode(encode(t, node))
	assert.NilError(t, err)
	if d := cmp.Diff(node, got); d != "" {
		t.Errorf("mismatch (-want +got):\n%s", d)
	}
}

func TestDecodeAcceptsMIGDevicesOfWhichLittleIsKnown(t *testing.T) {
	node := divided()
	fault := &gpu.Fault{Op: "nvmlDeviceGetUUID", Reason: "Unknown Error"}
	for i := range 2 {
		node.GPUs[1].MIG.Devices = append(node.GPUs[1].MIG.Devices, gpu.MIGDevice{
			Index: 3 + i, GPUInstance: gpu.NoInstance, ComputeInstance: gpu.NoInstance,
			GPUInstanceCap: -1, ComputeInstanceCap: -1, Fault: fault,
		})
	}
	node.GPUs[1].MIG.Devices[2].Placement = gpu.Placement{} // the driver does not report it
	got, err := gpu.Decode(encode(t, node))
	assert.NilError(t, err)
	if d := cmp.Diff(node, got); d != "" {
		t.Errorf("mismatch (-want +got):\n%s", d)
	}
}

func encode(t *testing.T, node *gpu.Node) []byte {
	t.Helper()
	data, err := json.Marshal(node)
	assert.NilError(t, err)
	return data
}
