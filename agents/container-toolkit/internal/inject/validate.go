package inject

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"tags.cncf.io/container-device-interface/pkg/parser"
	specs "tags.cncf.io/container-device-interface/specs-go"
)

// validate returns an error if the specification of CDI does not allow the spec.
func validate(s *specs.Spec) error {
	if err := specs.ValidateVersion(s); err != nil {
		return err
	}
	if err := validKind(s.Kind); err != nil {
		return err
	}
	if err := validEdits(&s.ContainerEdits); err != nil {
		return err
	}
	if len(s.Devices) == 0 {
		return errors.New("it has no device")
	}
	seen := map[string]bool{}
	for i := range s.Devices {
		d := &s.Devices[i]
		if err := parser.ValidateDeviceName(d.Name); err != nil {
			return err
		}
		if seen[d.Name] {
			return fmt.Errorf("device %q appears twice", d.Name)
		}
		seen[d.Name] = true
		if isEmpty(&d.ContainerEdits) {
			return fmt.Errorf("device %q has no edits", d.Name)
		}
		if err := validEdits(&d.ContainerEdits); err != nil {
			return fmt.Errorf("device %q: %w", d.Name, err)
		}
	}
	return nil
}

func validKind(kind string) error {
	vendor, class := parser.ParseQualifier(kind)
	return errors.Join(parser.ValidateVendorName(vendor), parser.ValidateClassName(class))
}

func isEmpty(e *specs.ContainerEdits) bool {
	return len(e.Env)+len(e.DeviceNodes)+len(e.NetDevices)+len(e.Hooks)+len(e.Mounts)+len(e.AdditionalGIDs) == 0 && e.IntelRdt == nil
}

func validEdits(e *specs.ContainerEdits) error {
	errs := []error{validEnv(e.Env), validNetDevices(e.NetDevices)}
	for _, d := range e.DeviceNodes {
		errs = append(errs, validNode(d))
	}
	for _, h := range e.Hooks {
		if h == nil || !slices.Contains(phases(), h.HookName) || h.Path == "" {
			errs = append(errs, errors.New("a hook has no path, or no phase that OCI defines"))
			continue
		}
		errs = append(errs, validEnv(h.Env))
	}
	for _, m := range e.Mounts {
		if m == nil || m.HostPath == "" || m.ContainerPath == "" {
			errs = append(errs, errors.New("a mount lacks a path"))
		}
	}
	if r := e.IntelRdt; r != nil && r.ClosID != "/" &&
		(len(r.ClosID) >= 4096 || r.ClosID == "." || r.ClosID == ".." || strings.ContainsAny(r.ClosID, "/\n")) {
		errs = append(errs, fmt.Errorf("intelRdt: closID %q is not a name", r.ClosID))
	}
	return errors.Join(errs...)
}

func phases() []string {
	return []string{"prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"}
}

func validEnv(env []string) error {
	for _, variable := range env {
		if strings.IndexByte(variable, '=') <= 0 {
			return fmt.Errorf("%q is not a variable", variable)
		}
	}
	return nil
}

func validNode(d *specs.DeviceNode) error {
	switch {
	case d == nil || d.Path == "":
		return errors.New("a device node lacks a path")
	case !slices.Contains([]string{"", "b", "c", "u", "p"}, d.Type):
		return fmt.Errorf("device node %s has no type %q", d.Path, d.Type)
	case d.Permissions != noPermissions && strings.Trim(d.Permissions, "rwm") != "":
		return fmt.Errorf("device node %s has no permissions %q", d.Path, d.Permissions)
	}
	return nil
}

func validNetDevices(devices []*specs.LinuxNetDevice) error {
	hosts, names := map[string]bool{}, map[string]bool{}
	for _, d := range devices {
		if d == nil || d.HostInterfaceName == "" || d.Name == "" {
			return errors.New("a network device lacks a name")
		}
		if hosts[d.HostInterfaceName] || names[d.Name] {
			return fmt.Errorf("network device %s appears twice", d.HostInterfaceName)
		}
		hosts[d.HostInterfaceName], names[d.Name] = true, true
	}
	return nil
}
