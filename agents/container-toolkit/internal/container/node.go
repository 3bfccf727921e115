package container

import (
	"fmt"
	"slices"
	"strings"

	"outrigger.dev/agents/container-toolkit/internal/request"
	"outrigger.dev/pkg/driverproc"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/index"
)

// GPU is a GPU of the node, with the properties that are known without NVML.
type GPU struct {
	driverproc.GPU
	// Index is the index of the GPU on this node (package index). Without agents on the node, it is
	// the index of NVML, in the order of the PCI bus.
	Index int
	// Instances has the current MIG instances of the GPU.
	Instances []Instance
}

// Instance is a compute instance of a GPU in MIG mode. A MIG device is a compute instance.
type Instance struct {
	GPUInstance, ComputeInstance int
	// GPUInstanceCap and ComputeInstanceCap are the minors of the device nodes in /dev/nvidia-caps that
	// grant access to the GPU instance and to the compute instance.
	GPUInstanceCap, ComputeInstanceCap int
}

// GPUs returns the GPUs in the driver's /proc files, with their MIG instances.
func GPUs(proc driverproc.Root) ([]GPU, error) {
	var out []GPU
	for i, id := range proc.BusIDs() {
		g, err := proc.GPU(id)
		if err != nil {
			return nil, err
		}
		one := GPU{GPU: g, Index: i}
		if one.Instances, err = instances(proc, g.Minor); err != nil {
			return nil, fmt.Errorf("read MIG instances of GPU %s: %w", id, err)
		}
		out = append(out, one)
	}
	return out, nil
}

// pin gives the GPUs their indices on this node.
func pin(gpus []GPU, pins *index.Pins) {
	var n gpu.Node
	for i, g := range gpus {
		n.GPUs = append(n.GPUs, gpu.GPU{Index: i, Minor: g.Minor, UUID: g.UUID, PCI: gpu.PCI{BusID: g.BusID}})
	}
	pins.Apply(&n)
	for i := range gpus {
		at := slices.IndexFunc(n.GPUs, func(g gpu.GPU) bool { return g.PCI.BusID == gpus[i].BusID })
		gpus[i].Index = n.GPUs[at].Index
	}
	slices.SortFunc(gpus, func(a, b GPU) int { return a.Index - b.Index })
}

// instances returns the compute instances of the GPU with this minor, sorted by number.
func instances(proc driverproc.Root, minor int) ([]Instance, error) {
	var out []Instance
	var caps []driverproc.Capability
	for _, gi := range proc.GPUInstances(minor) {
		whole := driverproc.Capability{GPU: minor, GPUInstance: int(gi), ComputeInstance: driverproc.WholeInstance}
		for _, ci := range proc.ComputeInstances(minor, gi) {
			part := driverproc.Capability{GPU: minor, GPUInstance: int(gi), ComputeInstance: int(ci)}
			caps = append(caps, whole, part)
			out = append(out, Instance{GPUInstance: int(gi), ComputeInstance: int(ci)})
		}
	}
	if len(out) == 0 {
		return nil, nil
	}
	minors, err := proc.MIGMinors(caps...)
	if err != nil {
		return nil, err
	}
	for i := range out {
		var found [2]bool
		out[i].GPUInstanceCap, found[0] = minors[caps[2*i]]
		out[i].ComputeInstanceCap, found[1] = minors[caps[2*i+1]]
		if found != [2]bool{true, true} {
			return nil, fmt.Errorf("%s does not list %s", proc.MIGMinorsPath(), caps[2*i+1])
		}
	}
	return out, nil
}

// namer returns the device nodes of a MIG device by its NVML name.
type namer interface {
	DeviceNodes(name string) ([]string, error)
}

// migDevice returns a GPU with one MIG device, by its UUID or its two NVML indices. Only NVML knows
// these names, so they are read from CDI specs.
func migDevice(gpus []GPU, specs namer, name string) (Chosen, error) {
	nodes, err := specs.DeviceNodes(name)
	if err != nil {
		return Chosen{}, fmt.Errorf("find MIG device %s: %w", name, err)
	}
	for _, g := range gpus {
		for _, in := range g.Instances {
			want := []string{nodePath(g.Minor), capPath(in.GPUInstanceCap), capPath(in.ComputeInstanceCap)}
			if !slices.ContainsFunc(want, func(n string) bool { return !slices.Contains(nodes, n) }) {
				return Chosen{GPU: g, Instances: []Instance{in}}, nil
			}
		}
	}
	return Chosen{}, fmt.Errorf("find MIG device %s: its CDI spec names device nodes of an instance that no longer exists: refresh the spec with nvidia-ctk cdi generate", name)
}

// migInstance returns a GPU with one MIG device, by the name that drivers before 470 gave to it.
func migInstance(gpus []GPU, name string) (Chosen, error) {
	want, ok := request.ParseInstance(name)
	if !ok {
		return Chosen{}, fmt.Errorf("find MIG device %s: it is not MIG-<UUID of the GPU>/<GPU instance>/<compute instance>: use the UUID that nvidia-smi -L prints", name)
	}
	for _, g := range gpus {
		if !strings.EqualFold(string(g.UUID), string(want.GPU)) {
			continue
		}
		for _, in := range g.Instances {
			if in.GPUInstance == want.GPUInstance && in.ComputeInstance == want.ComputeInstance {
				return Chosen{GPU: g, Instances: []Instance{in}}, nil
			}
		}
		return Chosen{}, fmt.Errorf("find MIG device %s: GPU %s has no such instance", name, g.BusID)
	}
	return Chosen{}, fmt.Errorf("find MIG device %s: %w", name, notFoundError(gpus, strings.ToLower(string(want.GPU))))
}

func nodePath(minor int) string { return fmt.Sprintf("/dev/nvidia%d", minor) }

func capPath(minor int) string { return fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", minor) }
