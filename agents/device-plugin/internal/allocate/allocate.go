// Package allocate answers the kubelet's requests for devices: pure functions
// of the resource, the options and the request.
//
// An Allocator is made once for each state of a resource, so that whatever is
// costly about the state is computed before the first request comes.
package allocate

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"outrigger.dev/agents/device-plugin/internal/config"
	"outrigger.dev/agents/device-plugin/internal/resource"
)

// CDIVendor and CDIClass make the kind of the CDI devices that stand for GPUs.
const (
	CDIVendor = "k8s.device-plugin.nvidia.com"
	CDIClass  = "gpu"
)

const (
	visibleDevices   = "NVIDIA_VISIBLE_DEVICES"
	annotationPlugin = "nvidia-device-plugin_"
)

// Options are what shapes an answer, besides the devices.
type Options struct {
	ListStrategies      []config.ListStrategy
	IDStrategy          config.IDStrategy
	CDIAnnotationPrefix string
	PassDeviceSpecs     bool
	// OnlyCDI says that all ListStrategies are CDI strategies.
	OnlyCDI bool
	// DevRoot is the folder on the host under which the device nodes lie.
	DevRoot string
	// ControlNodes are the device nodes that every container with a GPU gets
	// when device specs are passed, for example "/dev/nvidiactl".
	ControlNodes []string
}

// UnknownDeviceError says that a request names a device that is not offered.
type UnknownDeviceError struct{ ID string }

// Error returns the words that NVIDIA's device plugin uses.
func (e UnknownDeviceError) Error() string {
	return "invalid request: unknown device: " + e.ID
}

// Allocator answers requests for the devices of one resource. It is never
// changed, and safe for concurrent use.
type Allocator struct {
	opts    Options
	devices map[string]resource.Device
	// rank is the position of each device in the resource.
	rank map[string]int
}

// New returns the Allocator of one state of a resource.
func New(r resource.Resource, opts Options) *Allocator {
	a := &Allocator{
		opts:    opts,
		devices: make(map[string]resource.Device, len(r.Devices)),
		rank:    make(map[string]int, len(r.Devices)),
	}
	for i, d := range r.Devices {
		for n := range max(d.Replicas, 1) {
			a.devices[d.ID(n)] = d
			a.rank[d.ID(n)] = i
		}
	}
	return a
}

// Allocate returns what a container that got the devices needs. The hardware
// is named in the order of ids, each once. The annotation's key ends in token,
// which must differ from request to request.
func (a *Allocator) Allocate(ids []string, token string) (*pluginapi.ContainerAllocateResponse, error) {
	devices, err := a.lookup(ids)
	if err != nil {
		return nil, err
	}
	names := a.names(devices)
	resp := &pluginapi.ContainerAllocateResponse{}
	for _, s := range a.opts.ListStrategies {
		switch s {
		case config.ListEnvvar:
			resp.Envs = map[string]string{visibleDevices: strings.Join(names, ",")}
		case config.ListCDICRI:
			resp.CdiDevices = cdiDevices(names)
		case config.ListCDIAnnotations:
			resp.Annotations = map[string]string{
				a.opts.CDIAnnotationPrefix + annotationPlugin + token: strings.Join(qualified(names), ","),
			}
		}
	}
	if a.opts.PassDeviceSpecs && !a.opts.OnlyCDI {
		resp.Devices = a.specs(devices)
	}
	return resp, nil
}

func (a *Allocator) lookup(ids []string) ([]resource.Device, error) {
	devices := make([]resource.Device, 0, len(ids))
	for _, id := range ids {
		d, ok := a.devices[id]
		if !ok {
			return nil, UnknownDeviceError{ID: id}
		}
		devices = append(devices, d)
	}
	return devices, nil
}

// names returns the hardware behind the devices by the id strategy, each once.
func (a *Allocator) names(devices []resource.Device) []string {
	names := make([]string, 0, len(devices))
	for _, d := range devices {
		name := string(d.UUID)
		if a.opts.IDStrategy == config.IDIndex {
			name = d.Index
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// specs returns the device nodes of the devices, each once.
func (a *Allocator) specs(devices []resource.Device) []*pluginapi.DeviceSpec {
	paths := slices.Clone(a.opts.ControlNodes)
	for _, d := range devices {
		paths = append(paths, d.Paths...)
	}
	var (
		specs []*pluginapi.DeviceSpec
		seen  = make(map[string]bool, len(paths))
	)
	for _, p := range paths {
		if seen[p] {
			continue
		}
		seen[p] = true
		specs = append(specs, &pluginapi.DeviceSpec{
			ContainerPath: p,
			HostPath:      filepath.Join(a.opts.DevRoot, p),
			Permissions:   "rw",
		})
	}
	return specs
}

func cdiDevices(names []string) []*pluginapi.CDIDevice {
	devices := make([]*pluginapi.CDIDevice, 0, len(names))
	for _, n := range qualified(names) {
		devices = append(devices, &pluginapi.CDIDevice{Name: n})
	}
	return devices
}

func qualified(names []string) []string {
	out := make([]string, 0, len(names))
	for _, n := range names {
		out = append(out, fmt.Sprintf("%s/%s=%s", CDIVendor, CDIClass, n))
	}
	return out
}
