// Package allocate answers the kubelet's requests for devices, with pure functions of the
// resource, the options and the request.
//
// There is one Allocator per state of a resource, and one Topology per snapshot of the
// node. What is costly about them is computed before the first request.
package allocate

import (
	"fmt"

	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/resource"
)

// Options has what shapes an answer, besides the devices.
type Options struct {
	ListStrategies      []config.ListStrategy
	IDStrategy          config.IDStrategy
	CDIAnnotationPrefix string
	PassDeviceSpecs     bool
	// OnlyCDI says that all ListStrategies are CDI strategies.
	OnlyCDI bool
	// DevRoot is the folder on the host that holds dev/nvidia*.
	DevRoot string
	// ControlNodes has the device nodes that each container with a GPU gets if device
	// specs are passed, for example "/dev/nvidiactl".
	ControlNodes []string
	Extras       Extras
	// MPSRoot is the folder on the host that has the pipes of the MPS daemons, for
	// resources that are shared by MPS.
	MPSRoot string
	// Policy chooses among devices that are shared, or parts of a GPU; empty
	// is config.PolicyDistributed.
	Policy config.Policy
	// Topology says which GPUs are close to each other; nil if that is unknown.
	Topology *Topology
}

// Extras is what containers get besides GPUs.
type Extras struct {
	// GDS, MOFED and GDRCopy request their devices in the container's environment.
	GDS, MOFED, GDRCopy bool
	// IMEXChannels has the existing channels to pass, in order.
	IMEXChannels []int
	// CDIClasses has the classes besides CDIClass that have a CDI spec: a name that the
	// runtime cannot resolve would fail the container.
	CDIClasses []string
}

// UnknownDeviceError says that a request names a device that is not advertised.
type UnknownDeviceError struct{ ID string }

// Error returns the message of NVIDIA's device plugin.
func (e UnknownDeviceError) Error() string {
	return "invalid request: unknown device: " + e.ID
}

// TooManySharedError says that a container requests several replicas of a resource that
// gives each container only one.
type TooManySharedError struct{ Count int }

// Error returns the message of NVIDIA's device plugin.
func (e TooManySharedError) Error() string {
	return fmt.Sprintf("invalid request: maximum request size for shared resources is 1; found %d", e.Count)
}

// Allocator answers requests for the devices of one resource. It is never
// changed, and safe for concurrent use.
type Allocator struct {
	opts Options
	res  resource.Resource
	// index has the positions of the devices in the resource.
	index index
	// slots[i] is the number of replicas of all devices before device i.
	slots []int
	// gpus are the physical GPUs, in the order of the resource.
	gpus []physical
	// home is the position in gpus of each device's GPU.
	home []int
}

// physical is a GPU with its devices.
type physical struct {
	// row is its place in the Topology, -1 if it has none.
	row int
	// devices are positions in the resource, in order.
	devices []int
	// total counts the replicas of all devices.
	total int
}

// New returns the Allocator of one state of a resource.
func New(r resource.Resource, opts Options) *Allocator {
	a := &Allocator{
		opts:  opts,
		res:   r,
		index: newIndex(r.Devices),
		slots: make([]int, len(r.Devices)+1),
		home:  make([]int, len(r.Devices)),
	}
	places := map[int]int{}
	for i, d := range r.Devices {
		a.slots[i+1] = a.slots[i] + replicas(d)
		place, ok := places[d.GPU]
		if !ok {
			place = len(a.gpus)
			places[d.GPU] = place
			a.gpus = append(a.gpus, physical{row: opts.Topology.row(d.GPU)})
		}
		p := &a.gpus[place]
		p.devices = append(p.devices, i)
		p.total += replicas(d)
		a.home[i] = place
	}
	return a
}

func replicas(d resource.Device) int { return max(d.Replicas, 1) }

// find returns the device that the kubelet's id names, as a position in the
// resource, and the number of the replica.
func (a *Allocator) find(id []byte) (device, replica int, ok bool) {
	uuid, replica, shared := resource.SplitID(id)
	device, ok = a.index.find(uuid)
	if !ok {
		return 0, 0, false
	}
	offered := a.slots[device+1] - a.slots[device]
	return device, replica, shared == (offered > 1) && replica < offered
}
