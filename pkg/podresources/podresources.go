// Package podresources reads from the kubelet which containers use which GPUs and MIG devices.
//
// Client asks the kubelet's PodResources API, and keeps the Map of its last answer. It can also ask
// for one pod.
package podresources

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	kubelet "k8s.io/kubelet/pkg/apis/podresources/v1"

	"outrigger.dev/pkg/gpu"
)

// Map has the containers that use a device, by the UUID of the GPU or MIG device in the form of
// NVML. All other forms of IDs are resolved to these UUIDs, so that one look-up finds the
// containers of a device:
//
//	m[g.UUID]          // containers that use the whole GPU, or a replica of it
//	m[migDevice.UUID]  // containers that use the MIG device, or a replica of it
//
// The containers of a GPU instance are the containers of its MIG devices. The containers of MIG
// devices are not listed for their GPU. The users of a device are ordered, and each is listed once.
type Map map[gpu.UUID][]User

// User is a container that uses a device. Users are comparable.
type User struct {
	Namespace, Pod, Container string
	// Resource is the extended resource through which the container got the device, such as
	// "nvidia.com/gpu". It is empty for a device of a claim.
	Resource string
	// Replica is the number of the replica of a shared device, in decimal digits. It is
	// empty if the device is not shared.
	Replica string
	// Claim is the ResourceClaim through which the container got the device. It is the zero Claim
	// for a device of an extended resource.
	Claim Claim
}

// Claim is a device of a ResourceClaim, as the kubelet lists it.
type Claim struct {
	Namespace, Name string
	// Driver, Pool and Device name the device as in its ResourceSlice.
	Driver, Pool, Device string
}

// Unknown is an allocated device that a Client cannot match with a device of the node.
type Unknown struct {
	User
	// ID is the id of the device, empty for a device of a claim.
	ID string
}

// Options configures which resources count as GPUs, and has the devices of the node. The zero value
// counts the resources of NVIDIA's device plugin, and the driver gpu.nvidia.com.
type Options struct {
	// Node has the devices of this node. If it is nil, only devices whose IDs are UUIDs are in the
	// Map.
	Node *gpu.Node
	// Resources are additional extended resources whose devices are GPUs or MIG devices, by their
	// full names, as in --nvidia-resource-names. A name also stands for the same name with
	// ".shared". Resources whose IDs are UUIDs of Node always count.
	Resources []string
	// Claimed has the UUIDs of the devices of the driver gpu.nvidia.com, by their names in the
	// ResourceSlices of this node. It may be nil, because the names in the drivers of Outrigger and
	// NVIDIA are also resolved with Node.
	Claimed map[string]gpu.UUID
	// Ended reports whether a pod has ended, if the caller knows. It may be nil. Older kubelets
	// list ended pods, with devices that other pods may already have.
	Ended func(namespace, pod string) bool
}

// errUses is the error of an answer with too many users of devices.
var errUses = errors.New("too many users of GPUs")

// derive returns the users of each device, and the allocated devices that it cannot resolve. A UUID
// that Node does not have is in both results, because the GPU may be lost but its containers are
// known. It is only in the first result if the resource is not known to have only GPUs or MIG devices.
// derive returns errUses if the users and the unknown devices are more than the limit most.
func derive(from pods, o Options, most int) (Map, []Unknown, error) {
	d := derivation{options: o, of: index(o.Node), users: Map{}}
	for pod, err := range from {
		if err != nil {
			return nil, nil, err
		}
		if o.Ended != nil && o.Ended(pod.GetNamespace(), pod.GetName()) {
			continue
		}
		for _, c := range pod.GetContainers() {
			d.container(User{Namespace: pod.GetNamespace(), Pod: pod.GetName(), Container: c.GetName()}, c)
		}
		if d.users.uses()+len(d.unknown) > most {
			return nil, nil, fmt.Errorf("%w: more than %d", errUses, most)
		}
	}
	for uuid, users := range d.users {
		slices.SortFunc(users, compare)
		d.users[uuid] = slices.Compact(users)
	}
	slices.SortFunc(d.unknown, func(a, b Unknown) int { return cmp.Or(compare(a.User, b.User), cmp.Compare(a.ID, b.ID)) })
	return d.users, slices.Compact(d.unknown), nil
}

// derivation holds the intermediate results of derive.
type derivation struct {
	options Options
	of      devices
	users   Map
	unknown []Unknown
}

// uses counts the users of all devices.
func (m Map) uses() int {
	n := 0
	for _, users := range m {
		n += len(users)
	}
	return n
}

func (d *derivation) container(u User, c *kubelet.ContainerResources) {
	for _, of := range c.GetDevices() {
		with := u
		with.Resource = of.GetResourceName()
		counts := d.counts(with.Resource)
		for _, id := range of.GetDeviceIds() {
			d.device(with, id, counts)
		}
	}
	for _, claim := range c.GetDynamicResources() {
		for _, r := range claim.GetClaimResources() {
			if r.GetDriverName() != draDriver {
				continue
			}
			with := u
			with.Claim = Claim{
				Namespace: claim.GetClaimNamespace(), Name: claim.GetClaimName(),
				Driver: r.GetDriverName(), Pool: r.GetPoolName(), Device: r.GetDeviceName(),
			}
			d.claimed(with, r)
		}
	}
}

// device records a device of an extended resource. The parameter counts is set if all devices of the
// resource are GPUs or MIG devices. If it is not set, device ignores devices whose IDs contain no UUID,
// and records no unknown device.
func (d *derivation) device(u User, id string, counts bool) {
	n, ok := parse(id)
	if !ok {
		if counts {
			d.unknown = append(d.unknown, Unknown{User: u, ID: id})
		}
		return
	}
	if !counts && n.uuid == "" {
		return
	}
	u.Replica = n.replica
	found := d.of.find(n)
	for _, uuid := range found {
		d.users[uuid] = append(d.users[uuid], u)
	}
	if len(found) > 0 {
		return
	}
	if n.uuid != "" {
		// The MIG device may be destroyed. Its container is known, also if the config names its
		// resource.
		uuid := n.uuidText()
		d.users[uuid] = append(d.users[uuid], u)
		if d.options.Node == nil {
			return
		}
	}
	if !counts {
		return
	}
	d.unknown = append(d.unknown, Unknown{User: u, ID: id})
}

// The resources of NVIDIA's device plugin, and the suffix of shared resources.
const (
	gpuResource = "nvidia.com/gpu"
	migPrefix   = "nvidia.com/mig-"
	shared      = ".shared"
)

// counts reports whether all devices of a resource are GPUs or MIG devices.
func (d *derivation) counts(resource string) bool {
	name := strings.TrimSuffix(resource, shared)
	return name == gpuResource || strings.HasPrefix(name, migPrefix) ||
		slices.Contains(d.options.Resources, resource) || slices.Contains(d.options.Resources, name)
}

// compare orders users. It orders replicas by number.
func compare(a, b User) int {
	return cmp.Or(
		cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Container, b.Container),
		cmp.Compare(a.Resource, b.Resource),
		cmp.Compare(len(a.Replica), len(b.Replica)), cmp.Compare(a.Replica, b.Replica),
		cmp.Compare(a.Claim.Namespace, b.Claim.Namespace), cmp.Compare(a.Claim.Name, b.Claim.Name),
		cmp.Compare(a.Claim.Driver, b.Claim.Driver), cmp.Compare(a.Claim.Pool, b.Claim.Pool), cmp.Compare(a.Claim.Device, b.Claim.Device),
	)
}
