package allocate

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/resource"
)

// CDIVendor and the classes form the kinds of the CDI devices for GPUs and for optional
// hardware. Each optional class has one device, "all", except the IMEX channels: they have
// one device per channel, named by its number.
const (
	CDIVendor       = "k8s.device-plugin.nvidia.com"
	CDIClass        = "gpu"
	CDIClassIMEX    = "imex-channel"
	CDIClassGDRCopy = "gdrcopy"
	CDIClassGDS     = "gds"
	CDIClassMOFED   = "mofed"
	CDIAll          = "all"
)

const (
	visibleDevices   = "NVIDIA_VISIBLE_DEVICES"
	imexChannels     = "NVIDIA_IMEX_CHANNELS"
	annotationPlugin = "nvidia-device-plugin_"

	// mountedDevices is the folder with a mount for each device. NVIDIA's container runtime
	// reads the names of the devices from these mounts. A pod without privileges cannot forge
	// them, unlike an environment variable.
	mountedDevices = "/var/run/nvidia-container-devices"
	mountSource    = "/dev/null"

	imexNodes = "/dev/nvidia-caps-imex-channels/channel"
)

// Allocate returns the variables, mounts, device nodes and CDI devices that a container
// needs to use the devices. It names each device once, in the order of ids. The
// annotation's key ends in token, which must be different in each request.
func (a *Allocator) Allocate(ids []string, token string) (*pluginapi.ContainerAllocateResponse, error) {
	devices, err := a.lookup(ids)
	if err != nil {
		return nil, err
	}
	names, live := a.names(devices, false), a.names(devices, true)
	resp := &pluginapi.ContainerAllocateResponse{Envs: map[string]string{}}
	for _, s := range a.opts.ListStrategies {
		switch s {
		case config.ListEnvvar:
			a.envvar(resp, live)
		case config.ListVolumeMounts:
			resp.Mounts = a.mounts(live)
		case config.ListCDICRI:
			resp.CdiDevices = cdiDevices(a.qualified(names))
		case config.ListCDIAnnotations:
			resp.Annotations = a.annotations(a.qualified(names), token)
		}
	}
	if slices.Contains(a.opts.ListStrategies, config.ListVolumeMounts) {
		// With this value the runtime reads the names from the mounts.
		resp.Envs[visibleDevices] = mountedDevices
	}
	if a.opts.PassDeviceSpecs && !a.opts.OnlyCDI {
		resp.Devices = a.specs(devices)
	}
	a.extras(resp)
	if i := slices.IndexFunc(devices, func(d resource.Device) bool { return d.MPS }); i >= 0 {
		addMPSClient(resp, a.opts.MPSRoot, MPSFolder(a.res, devices[i]), a.res.Name)
	}
	return resp, nil
}

// annotations returns the annotation that names the CDI devices. Without devices it returns
// no annotation, because the runtime rejects an empty one.
func (a *Allocator) annotations(devices []string, token string) map[string]string {
	if len(devices) == 0 {
		return nil
	}
	return map[string]string{a.opts.CDIAnnotationPrefix + annotationPlugin + token: strings.Join(devices, ",")}
}

// lookup returns the devices with these ids, each once.
func (a *Allocator) lookup(ids []string) ([]resource.Device, error) {
	var (
		devices []resource.Device
		seen    = map[int]bool{}
		shared  bool
	)
	for _, id := range ids {
		i, _, ok := a.find(id)
		if !ok {
			return nil, UnknownDeviceError{ID: id}
		}
		shared = shared || a.res.Devices[i].Replicas > 1 || a.res.Devices[i].MPS
		if !seen[i] {
			seen[i] = true
			devices = append(devices, a.res.Devices[i])
		}
	}
	if shared && len(ids) > 1 && a.res.FailRequestsGreaterThanOne {
		return nil, TooManySharedError{Count: len(ids)}
	}
	return devices, nil
}

// names returns the names of the devices by the id strategy. The UUID replaces an index that could
// name another device. live is set for names that NVIDIA's container runtime looks up in NVML.
func (a *Allocator) names(devices []resource.Device, live bool) []string {
	names := make([]string, 0, len(devices))
	for _, d := range devices {
		if a.opts.IDStrategy == config.IDIndex && !d.Reused && !(live && d.Shifted) {
			names = append(names, d.Index)
		} else {
			names = append(names, string(d.UUID))
		}
	}
	return names
}

func (a *Allocator) envvar(resp *pluginapi.ContainerAllocateResponse, names []string) {
	resp.Envs[visibleDevices] = strings.Join(names, ",")
	if len(a.opts.Extras.IMEXChannels) > 0 {
		resp.Envs[imexChannels] = strings.Join(a.channels(), ",")
	}
}

func (a *Allocator) channels() []string {
	out := make([]string, 0, len(a.opts.Extras.IMEXChannels))
	for _, c := range a.opts.Extras.IMEXChannels {
		out = append(out, strconv.Itoa(c))
	}
	return out
}

func (a *Allocator) mounts(names []string) []*pluginapi.Mount {
	paths := slices.Clone(names)
	for _, c := range a.channels() {
		paths = append(paths, "imex/"+c)
	}
	mounts := make([]*pluginapi.Mount, 0, len(paths))
	for _, p := range paths {
		mounts = append(mounts, &pluginapi.Mount{HostPath: mountSource, ContainerPath: mountedDevices + "/" + p})
	}
	return mounts
}

// specs returns the device nodes of the devices, each once.
func (a *Allocator) specs(devices []resource.Device) []*pluginapi.DeviceSpec {
	paths := slices.Clone(a.opts.ControlNodes)
	for _, d := range devices {
		paths = append(paths, d.Paths...)
	}
	for _, c := range a.channels() {
		paths = append(paths, imexNodes+c)
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

// extras sets the variables that request optional devices from NVIDIA's container runtime.
// The runtime needs them if CDI does not add the devices.
func (a *Allocator) extras(resp *pluginapi.ContainerAllocateResponse) {
	for env, on := range map[string]bool{
		"NVIDIA_GDRCOPY": a.opts.Extras.GDRCopy,
		"NVIDIA_GDS":     a.opts.Extras.GDS,
		"NVIDIA_MOFED":   a.opts.Extras.MOFED,
	} {
		if on {
			resp.Envs[env] = "enabled"
		}
	}
}

// qualified returns the qualified names of the CDI devices: GPUs and optional devices,
// in the order of NVIDIA's device plugin.
func (a *Allocator) qualified(names []string) []string {
	var (
		x   = a.opts.Extras
		out = make([]string, 0, len(names))
		add = func(class, name string) { out = append(out, fmt.Sprintf("%s/%s=%s", CDIVendor, class, name)) }
	)
	for _, n := range names {
		add(CDIClass, n)
	}
	if slices.Contains(x.CDIClasses, CDIClassIMEX) {
		for _, c := range a.channels() {
			add(CDIClassIMEX, c)
		}
	}
	for _, extra := range []struct {
		on    bool
		class string
	}{{x.GDRCopy, CDIClassGDRCopy}, {x.GDS, CDIClassGDS}, {x.MOFED, CDIClassMOFED}} {
		if extra.on && slices.Contains(x.CDIClasses, extra.class) {
			add(extra.class, CDIAll)
		}
	}
	return out
}

func cdiDevices(names []string) []*pluginapi.CDIDevice {
	devices := make([]*pluginapi.CDIDevice, 0, len(names))
	for _, n := range names {
		devices = append(devices, &pluginapi.CDIDevice{Name: n})
	}
	return devices
}
