// Package allocate answers the kubelet's requests for devices, with pure functions of the
// resource, the options and the request.
//
// The caller builds one Allocator for each state of a resource, and one Topology for each
// snapshot of the node. It builds them before the first request, because that is costly.
package allocate

import (
	"fmt"

	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/resource"
)

// Options configures the answers.
type Options struct {
	ListStrategies      []config.ListStrategy
	IDStrategy          config.IDStrategy
	CDIAnnotationPrefix string
	PassDeviceSpecs     bool
	// OnlyCDI is set if all ListStrategies are CDI strategies.
	OnlyCDI bool
	// DevRoot is the folder on the host that contains dev/nvidia*.
	DevRoot string
	// ControlNodes are the device nodes that each container with a GPU gets if
	// PassDeviceSpecs is set, for example "/dev/nvidiactl".
	ControlNodes []string
	Extras       Extras
	// MPSRoot is the folder on the host with the pipes of the MPS daemons, for
	// resources that are shared by MPS.
	MPSRoot string
	// Policy chooses among shared devices and MIG devices. The default is
	// config.PolicyDistributed.
	Policy config.Policy
	// Topology scores the links between GPUs. It is nil if the links are unknown.
	Topology Topology
}

// Extras are the optional devices that containers get with their GPUs.
type Extras struct {
	// GDS, MOFED and GDRCopy add variables that request these devices from the runtime.
	GDS, MOFED, GDRCopy bool
	// IMEXChannels are the channels to pass that exist, in order.
	IMEXChannels []int
	// CDIClasses are the classes of optional devices that have a CDI spec. Answers name no device
	// without a spec, because the runtime rejects a container with a name that it cannot resolve.
	CDIClasses []string
}

// UnknownDeviceError is the error of a request for a device that is not advertised.
type UnknownDeviceError struct{ ID string }

// Error returns the same message as NVIDIA's device plugin.
func (e UnknownDeviceError) Error() string {
	return "invalid request: unknown device: " + e.ID
}

// TooManySharedError is the error of a request for several replicas of a shared resource
// that rejects requests for more than one.
type TooManySharedError struct{ Count int }

// Error returns the same message as NVIDIA's device plugin.
func (e TooManySharedError) Error() string {
	return fmt.Sprintf("invalid request: maximum request size for shared resources is 1; found %d", e.Count)
}

// Allocator answers requests for the devices of one resource. It does not change, and
// is safe for concurrent use.
type Allocator struct {
	opts Options
	res  resource.Resource
	// position has the position of each device in the resource, by UUID.
	position map[gpu.UUID]int
	// gpus are the physical GPUs, in the order of the resource.
	gpus []physical
	// gpuOf[i] is the position in gpus of the GPU of device i.
	gpuOf []int
}

// physical is a GPU and its devices.
type physical struct {
	// index is its NVML index.
	index int
	// devices are positions in the resource, in order.
	devices []int
}

// New returns the Allocator for one state of a resource.
func New(r resource.Resource, opts Options) *Allocator {
	a := &Allocator{opts: opts, res: r, position: map[gpu.UUID]int{}, gpuOf: make([]int, len(r.Devices))}
	places := map[int]int{}
	for i, d := range r.Devices {
		a.position[d.UUID] = i
		place, ok := places[d.GPU]
		if !ok {
			place = len(a.gpus)
			places[d.GPU] = place
			a.gpus = append(a.gpus, physical{index: d.GPU})
		}
		a.gpus[place].devices = append(a.gpus[place].devices, i)
		a.gpuOf[i] = place
	}
	return a
}

// NeedsLinks reports whether the preferred devices depend on the links between GPUs. Two
// GPUs have only one link, so that there is no choice.
func (a *Allocator) NeedsLinks() bool { return len(a.gpus) > 2 }

func replicas(d resource.Device) int { return max(d.Replicas, 1) }

// find returns the position of the device with the kubelet's id, and the number of the
// replica.
func (a *Allocator) find(id string) (device, replica int, ok bool) {
	uuid, replica, shared := resource.SplitID(id)
	device, ok = a.position[uuid]
	if !ok {
		return 0, 0, false
	}
	advertised := replicas(a.res.Devices[device])
	return device, replica, shared == (advertised > 1) && replica < advertised
}
