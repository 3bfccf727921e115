package request

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"outrigger.dev/agents/container-toolkit/internal/toolconfig"
	"outrigger.dev/pkg/text"
)

const (
	visible = "NVIDIA_VISIBLE_DEVICES"
	// mountFolder is the folder where mounts of /dev/null name devices.
	mountFolder = "/var/run/nvidia-container-devices"

	acceptVariable = "accept-nvidia-visible-devices-envvar-when-unprivileged"
	acceptMounts   = "accept-nvidia-visible-devices-as-volume-mounts"
	acceptCDI      = "accept-cdi-annotations-when-unprivileged"
)

// devices derives the devices from the first source that names devices: annotations, mounts,
// variables.
func (d *deriver) devices() error {
	if names := d.annotated(); len(names) > 0 {
		if !d.permitted() && !d.cfg.AcceptAnnotations {
			return d.refuseAnnotations(names)
		}
		return d.add(names)
	}
	if d.cfg.AcceptMounts {
		if names := d.mounted(); len(names) > 0 {
			d.decide("devices", strings.Join(names, ", "), "mounts below "+mountFolder)
			return d.add(names)
		}
	}
	return d.fromVariables()
}

// annotated returns the devices that annotations name.
func (d *deriver) annotated() []string {
	var names []string
	for _, prefix := range d.cfg.Runtime.CDI.AnnotationPrefixes {
		for _, key := range sorted(d.Annotations, prefix) {
			if prefix == "" {
				continue
			}
			found := toolconfig.SplitList(d.Annotations[key])
			if len(found) > 0 {
				d.decide("devices", strings.Join(found, ", "), "annotation "+key)
			}
			names = append(names, found...)
		}
	}
	return unique(names)
}

// permitted reports whether the container may name its GPUs itself. Everybody who creates a pod can set
// its variables and, with CRI-O, its annotations.
func (d *deriver) permitted() bool { return d.Privileged || d.cfg.AcceptVariable }

// refuseAnnotations handles annotations of a container that is not permitted to name GPUs. It ignores
// "all" and "none". It returns an error for single GPUs, because an allocation sets such names, and the
// container would start without its GPUs.
func (d *deriver) refuseAnnotations(names []string) error {
	why := fmt.Sprintf("the container is not privileged, and %s is false in config.toml", acceptCDI)
	for _, name := range names {
		if id := name[strings.LastIndex(name, "=")+1:]; id != "all" && id != "none" {
			return fmt.Errorf("inject GPUs: an annotation names the device %s, but %s: let the device plugin pass devices by CDI (deviceListStrategy cdi-cri in the chart device-plugin), or set it to true (acceptCDIAnnotations in the chart container-toolkit)",
				text.Cut(text.Printable(name), 80), why)
		}
	}
	d.decide("devices", "no GPU container", "the annotations are ignored: "+why)
	return nil
}

// mounted returns the devices that mounts name, without IMEX channels.
func (d *deriver) mounted() []string {
	var names []string
	for name := range d.mountedNames() {
		if strings.HasPrefix(name, "imex/") {
			continue
		}
		if rest, ok := strings.CutPrefix(name, "cdi/"); ok {
			name = mountedCDI(rest)
		}
		names = append(names, name)
	}
	return unique(names)
}

// Named returns the devices that a container names one by one in its variable and its mounts.
// Device plugins name devices by UUID or, if configured, by index. Images name "all". The devices
// may be allocated to other containers.
func Named(c Container) []string {
	d := deriver{Container: c}
	var out []string
	for _, name := range append(toolconfig.SplitList(c.Env[visible]), d.mounted()...) {
		if _, id, qualified := strings.Cut(name, "="); qualified {
			name = id
		}
		if !slices.Contains([]string{"all", "none", "void", mountFolder}, name) {
			out = append(out, name)
		}
	}
	return unique(out)
}

// mountedNames yields the names of mounts of /dev/null below mountFolder.
func (d *deriver) mountedNames() func(func(string) bool) {
	return func(yield func(string) bool) {
		for _, m := range d.Mounts {
			name, ok := strings.CutPrefix(path.Clean(m.Destination), mountFolder+"/")
			if ok && path.Clean(m.Source) == "/dev/null" && !yield(name) {
				return
			}
		}
	}
}

// mountedCDI returns the CDI name for the path of a mount: <vendor>/<class>/<device> or
// <vendor>/<class>=<device>.
func mountedCDI(name string) string {
	if strings.Contains(name, "=") {
		return name
	}
	kind, device := path.Split(name)
	return strings.TrimSuffix(kind, "/") + "=" + device
}

// fromVariables derives the devices from NVIDIA_VISIBLE_DEVICES, or from the variables that
// replace it.
func (d *deriver) fromVariables() error {
	variable, value, set := d.variable()
	if err := acceptLength(variable, value); err != nil {
		return err
	}
	names := toolconfig.SplitList(value)
	switch {
	case !set && d.legacyImage():
		variable, names = "CUDA_VERSION of an image without "+visible, []string{"all"}
	case !set:
		d.decide("devices", "no GPU container", visible+" is not set")
		return nil
	case len(names) == 0 || slices.Contains(names, "void"):
		d.decide("devices", "no GPU container", fmt.Sprintf("%s=%s", variable, text.Printable(value)))
		return nil
	}
	if !d.permitted() {
		return d.refuse(variable, names)
	}
	d.decide("devices", text.Printable(strings.Join(names, ", ")), variable)
	return d.add(names)
}

// variable returns the name and the value of the variable that names the devices.
func (d *deriver) variable() (name, value string, set bool) {
	var names, values []string
	for _, swarm := range d.cfg.SwarmResources {
		if v, ok := d.Env[swarm]; ok {
			names, values = append(names, swarm), append(values, v)
		}
	}
	if len(names) > 0 {
		return strings.Join(names, ", "), strings.Join(values, ","), true
	}
	value, set = d.Env[visible]
	return visible, value, set
}

// refuse handles the variable of a container that is not privileged. It ignores values such as
// "all", because images set them and must start on any node. It returns an error if the variable
// names single GPUs, or says that mounts name them. An allocation sets such values, and the
// container would start without its GPUs.
func (d *deriver) refuse(variable string, names []string) error {
	why := fmt.Sprintf("the container is not privileged, and %s is false in config.toml", acceptVariable)
	for _, name := range names {
		switch {
		case name == mountFolder:
			return fmt.Errorf("inject GPUs: %s=%s requests GPUs by mounts, but %s is false in config.toml: set it to true (acceptVisibleDevicesVolumeMounts in the chart container-toolkit), or let the device plugin pass devices by CDI (deviceListStrategy cdi-cri in the chart device-plugin)",
				variable, name, acceptMounts)
		case name != "all" && name != "none" && !strings.Contains(name, "="):
			return fmt.Errorf("inject GPUs: %s=%s names a GPU, but %s: set it to true (acceptVisibleDevicesEnvvar in the chart container-toolkit), or let the device plugin pass devices by CDI (deviceListStrategy cdi-cri in the chart device-plugin)",
				variable, text.Cut(text.Printable(name), 80), why)
		}
	}
	d.decide("devices", "no GPU container", fmt.Sprintf("%s=%s is ignored: %s", variable, text.Printable(strings.Join(names, ",")), why))
	return nil
}

// add adds the devices with these names to the request.
func (d *deriver) add(names []string) error {
	for i := 0; i < len(names); i++ {
		switch name := names[i]; {
		case name == "none":
			d.r.None = true
		case name == mountFolder:
			return fmt.Errorf("inject GPUs: %s=%s requests GPUs by mounts, but the container has no mount of /dev/null below that folder, or %s is false in config.toml: add the mounts, or set it to true",
				visible, name, acceptMounts)
		case strings.HasPrefix(name, "mode="):
			id := ""
			if i+1 < len(names) {
				if after, ok := strings.CutPrefix(names[i+1], "id="); ok {
					id, i = after, i+1
				}
			}
			if err := d.byMode(strings.TrimPrefix(name, "mode="), id); err != nil {
				return err
			}
		default:
			device, err := parseDevice(name, d.cfg.Runtime.CDI.DefaultKind)
			if err != nil {
				return err
			}
			d.r.Devices = append(d.r.Devices, device)
		}
	}
	for _, device := range d.r.Devices {
		if strings.HasPrefix(device.Kind, "management.") && !d.Privileged {
			return fmt.Errorf("inject GPUs: %s=%s allows changes of the GPUs of all containers, so the container needs the capability CAP_SYS_ADMIN",
				device.Kind, device.Names[0])
		}
	}
	if d.r.None && len(d.r.Devices) > 0 {
		d.r.None = false
		d.decide("none", "ignored", "the container names devices as well")
	}
	return nil
}

// byMode adds the devices of a discovery mode of NVIDIA's toolkit.
func (d *deriver) byMode(mode, id string) error {
	asked := "mode=" + mode
	if id != "" {
		asked += ",id=" + id
	}
	kind, name := "", "all"
	switch mode {
	case "gds", "mofed", "gdrcopy", "nvswitch":
		kind = "nvidia.com/" + mode
	case "management":
		kind = "management.nvidia.com/gpu"
	case "imex":
		number, err := ParseChannel(id)
		if err != nil {
			return fmt.Errorf("inject GPUs: %s: %w", asked, err)
		}
		d.r.Devices = append(d.r.Devices, imexDevice(asked, strconv.Itoa(number)))
		return nil
	case "auto", "nvml":
		if id == "" {
			id = name
		}
		device, err := parseDevice(id, d.cfg.Runtime.CDI.DefaultKind)
		device.Asked = asked
		d.r.Devices = append(d.r.Devices, device)
		return err
	default:
		return fmt.Errorf("inject GPUs: %s: unknown mode: use one of gdrcopy, gds, imex, management, mofed, nvml, nvswitch", text.Printable(asked))
	}
	d.r.Devices = append(d.r.Devices, Device{Asked: asked, Kind: kind, Names: []string{name}})
	return nil
}

var errNoDevice = errors.New("it is not an index, UUID, PCI bus ID or CDI name")

func unique(names []string) []string {
	var out []string
	seen := make(map[string]bool, len(names))
	for _, name := range names {
		if !seen[name] {
			seen[name] = true
			out = append(out, name)
		}
	}
	return out
}
