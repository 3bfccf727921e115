package inject

import (
	"fmt"
	"slices"
	"strings"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"outrigger.dev/agents/container-toolkit/internal/request"
	"outrigger.dev/pkg/text"
)

// Device is a device that a container gets.
type Device struct {
	// Asked is the name of the device in the request of the container.
	Asked string
	// File is the spec that has the device.
	File *File
	// Name is the name of the device in the spec.
	Name  string
	Edits *specs.ContainerEdits
}

// none is the name of the device for a container that gets the driver but no GPU.
const none = "none"

// Kinds returns the kinds of devices, each once.
func Kinds(devices []request.Device) []string {
	var out []string
	for _, d := range devices {
		if !slices.Contains(out, d.Kind) {
			out = append(out, d.Kind)
		}
	}
	return out
}

// None returns the device of a container that gets the driver's files of a kind, but no
// device.
func None(kind string) request.Device {
	return request.Device{Asked: none, Kind: kind, Names: []string{none}}
}

// HasKind reports whether the set has a spec of a kind.
func (s *Set) HasKind(kind string) bool {
	return slices.ContainsFunc(s.Files, func(f *File) bool { return f.Spec.Kind == kind })
}

// Resolve finds devices in the specs. The error names each device that is missing, and the
// fix.
func (s *Set) Resolve(devices []request.Device) ([]Device, error) {
	var out []Device
	var missing []string
	for _, d := range devices {
		found, err := s.find(d)
		if err != nil {
			return nil, err
		}
		if found == nil {
			missing = append(missing, d.Kind+"="+d.Names[0])
			continue
		}
		if !slices.ContainsFunc(out, func(o Device) bool { return o.Edits == found.Edits }) {
			out = append(out, *found)
		}
	}
	if len(missing) > 0 {
		return nil, s.missing(devices, missing)
	}
	return out, nil
}

// find returns the device for the first of its names that a spec has, or nil.
func (s *Set) find(d request.Device) (*Device, error) {
	for _, name := range d.Names {
		f, at, err := s.lookUp(d.Kind, name)
		if err != nil {
			return nil, fmt.Errorf("inject %w", err)
		}
		if f != nil {
			device := &f.Spec.Devices[at]
			return &Device{Asked: d.Asked, File: f, Name: device.Name, Edits: &device.ContainerEdits}, nil
		}
	}
	if slices.Equal(d.Names, []string{none}) {
		for _, f := range slices.Backward(s.Files) {
			if f.Spec.Kind == d.Kind {
				return &Device{Asked: d.Asked, File: f, Name: none, Edits: &specs.ContainerEdits{Env: []string{"NVCT_EMPTY_DEVICE="}}}, nil
			}
		}
	}
	return nil, nil
}

// lookUp returns the spec with a device, and the index of the device in the spec. If specs in
// several folders have the device, the last folder wins. Two specs in one folder are a conflict.
func (s *Set) lookUp(kind, name string) (*File, int, error) {
	var file *File
	var at int
	for _, f := range slices.Backward(s.Files) {
		if f.Spec.Kind != kind || file != nil && f.priority < file.priority {
			continue
		}
		i := slices.IndexFunc(f.Spec.Devices, func(d specs.Device) bool { return sameName(d.Name, name) })
		switch {
		case i < 0:
		case file != nil:
			return nil, 0, fmt.Errorf("%s=%s: both %s and %s define it: remove one", kind, name, f.Path, file.Path)
		default:
			file, at = f, i
		}
	}
	return file, at, nil
}

// Conflicts returns an error for each device that container engines reject, because two specs in one
// folder define it.
func (s *Set) Conflicts() []error {
	var out []error
	for _, name := range s.Names() {
		kind, device, _ := strings.Cut(name, "=")
		if _, _, err := s.lookUp(kind, device); err != nil {
			out = append(out, err)
		}
	}
	return out
}

// Names returns the qualified names of the devices in the specs, sorted, each once.
func (s *Set) Names() []string {
	var out []string
	for _, f := range s.Files {
		for _, device := range deviceNames(f.Spec) {
			out = append(out, f.Spec.Kind+"="+device)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// sameName reports whether a device of a spec has a name. UUIDs match in upper and lower case.
func sameName(device, name string) bool {
	if device == name {
		return true
	}
	upper := strings.ToUpper(name)
	return (strings.HasPrefix(upper, "GPU-") || strings.HasPrefix(upper, "MIG-")) && strings.EqualFold(device, name)
}

// missing returns the error for devices that no spec has.
func (s *Set) missing(devices []request.Device, names []string) error {
	var why []string
	for _, kind := range Kinds(devices) {
		if !s.HasKind(kind) {
			why = append(why, "there is no CDI spec of kind "+kind)
		}
	}
	for _, f := range s.Files {
		why = append(why, fmt.Sprintf("%s has %s", f.Path, text.Cut(strings.Join(deviceNames(f.Spec), ", "), 200)))
	}
	for _, p := range s.Problems {
		why = append(why, p.Error())
	}
	return fmt.Errorf("inject GPUs: unresolvable CDI devices %s: %s: write the specs in %s again with nvidia-ctk cdi generate, or see the log of the container toolkit's agent; "+
		"if the node has no such device any more, delete the pod",
		text.Cut(strings.Join(names, ", "), 300), strings.Join(why, "; "), text.OneOf(s.dirs))
}

func deviceNames(s *specs.Spec) []string {
	out := make([]string, len(s.Devices))
	for i := range s.Devices {
		out[i] = s.Devices[i].Name
	}
	return out
}
