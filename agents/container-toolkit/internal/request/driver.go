package request

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"outrigger.dev/agents/container-toolkit/internal/toolconfig"
	"outrigger.dev/pkg/text"
)

const driverCapabilities = "NVIDIA_DRIVER_CAPABILITIES"

// capabilities derives the driver capabilities.
func (d *deriver) capabilities() error {
	supported := slices.Sorted(slices.Values(d.cfg.Capabilities))
	value, set := d.Env[driverCapabilities]
	names := toolconfig.SplitList(value)
	d.r.CapabilitiesSet = len(names) > 0
	switch {
	case slices.Contains(names, "all"):
		d.r.Capabilities = supported
		d.decide("capabilities", strings.Join(supported, ", "), driverCapabilities+"=all")
	case len(names) > 0:
		for _, name := range names {
			if !slices.Contains(supported, name) {
				return fmt.Errorf("inject GPUs: %s has %q: use all, or any of %s (supported-driver-capabilities in config.toml)",
					driverCapabilities, text.Cut(text.Printable(name), 40), strings.Join(supported, ", "))
			}
		}
		slices.Sort(names)
		d.r.Capabilities = slices.Compact(names)
		d.decide("capabilities", strings.Join(d.r.Capabilities, ", "), driverCapabilities)
	case !set && d.legacyImage():
		d.r.Capabilities = supported
		d.decide("capabilities", strings.Join(supported, ", "), "an image with CUDA_VERSION, but without "+driverCapabilities)
	default:
		for _, name := range []string{"compute", "utility"} {
			if slices.Contains(supported, name) {
				d.r.Capabilities = append(d.r.Capabilities, name)
			}
		}
		d.decide("capabilities", strings.Join(d.r.Capabilities, ", "), "the default without "+driverCapabilities)
	}
	return nil
}

// requirements collects the requirements.
func (d *deriver) requirements() error {
	for _, name := range sorted(d.Env, "NVIDIA_REQUIRE_") {
		if value := strings.TrimSpace(d.Env[name]); value != "" && !strings.HasPrefix(name, "NVIDIA_REQUIRE_JETPACK") {
			d.r.Requirements = append(d.r.Requirements, Requirement{name, value})
		}
	}
	if d.legacyImage() {
		version, err := majorMinor(d.Env["CUDA_VERSION"])
		if err != nil {
			return err
		}
		d.r.Requirements = append(d.r.Requirements, Requirement{"CUDA_VERSION", "cuda>=" + version})
	}
	if len(d.r.Requirements) == 0 {
		return nil
	}
	reason := ""
	if disabled, err := strconv.ParseBool(d.Env["NVIDIA_DISABLE_REQUIRE"]); err == nil && disabled {
		reason = "NVIDIA_DISABLE_REQUIRE is true"
	} else if d.cfg.DisableRequire {
		reason = "disable-require is true in config.toml"
	}
	if reason != "" {
		d.r.Requirements = nil
		d.decide("requirements", "ignored", reason)
		return nil
	}
	for _, r := range d.r.Requirements {
		d.decide("requirement", text.Printable(r.Condition), r.Variable)
	}
	return nil
}

// majorMinor returns the first two numbers of a version.
func majorMinor(version string) (string, error) {
	parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
	if len(parts) == 1 {
		parts = append(parts, "0")
	}
	for _, part := range parts[:2] {
		if _, err := strconv.ParseUint(part, 10, 32); err != nil {
			return "", fmt.Errorf("inject GPUs: CUDA_VERSION=%s is not a version: use a version like 12.4, or set NVIDIA_REQUIRE_CUDA",
				text.Cut(text.Printable(version), 40))
		}
	}
	return parts[0] + "." + parts[1], nil
}

// migRights derives the rights to all MIG devices.
func (d *deriver) migRights() error {
	for _, right := range []struct {
		name    string
		granted *bool
	}{
		{"NVIDIA_MIG_CONFIG_DEVICES", &d.r.MIGConfig},
		{"NVIDIA_MIG_MONITOR_DEVICES", &d.r.MIGMonitor},
	} {
		name := right.name
		value := strings.TrimSpace(d.Env[name])
		switch {
		case value == "":
			continue
		case value != "all":
			return fmt.Errorf("inject GPUs: %s=%s: the only value is all", name, text.Cut(text.Printable(value), 40))
		case !d.Privileged:
			return fmt.Errorf("inject GPUs: %s needs a privileged container: add the capability CAP_SYS_ADMIN", name)
		}
		*right.granted = true
		d.decide("mig", "the right to the MIG devices of all GPUs", name+"=all in a privileged container")
	}
	return nil
}

// channels derives the IMEX channels.
func (d *deriver) channels() error {
	names, from := d.requestedChannels()
	if len(names) == 0 {
		return nil
	}
	if d.cfg.Features.IgnoreIMEXChannelRequests {
		d.decide("imex", "ignored", "features.ignore-imex-channel-requests is true in config.toml")
		return nil
	}
	for _, name := range names {
		number, err := ParseChannel(name)
		if err != nil {
			return fmt.Errorf("inject GPUs: %s: %w", from, err)
		}
		d.r.IMEX = append(d.r.IMEX, strconv.Itoa(number))
	}
	d.r.IMEX = unique(d.r.IMEX)
	d.decide("imex", "channels "+strings.Join(d.r.IMEX, ", "), from)
	return nil
}

// requestedChannels returns the names of IMEX channels, and the source of the names.
func (d *deriver) requestedChannels() (names []string, from string) {
	if d.cfg.AcceptMounts {
		for name := range d.mountedNames() {
			if id, ok := strings.CutPrefix(name, "imex/"); ok {
				names = append(names, id)
			}
		}
		if len(names) > 0 {
			return names, "mounts below " + mountFolder + "/imex"
		}
	}
	const variable = "NVIDIA_IMEX_CHANNELS"
	names = toolconfig.SplitList(d.Env[variable])
	switch {
	case len(names) == 1 && names[0] == "all":
		d.decide("imex", "ignored", variable+"=all names no channel")
		return nil, ""
	case len(names) > 0 && !d.Privileged && !d.cfg.AcceptVariable:
		d.decide("imex", "ignored", fmt.Sprintf("the container is not privileged, and %s is false in config.toml", acceptVariable))
		return nil, ""
	}
	return names, variable
}

// Extra returns the devices that the container must get in addition to its GPUs: MIG capabilities
// and IMEX channels.
func (r *Request) Extra() []Device {
	var out []Device
	for _, c := range []struct {
		wanted bool
		name   string
	}{{r.MIGConfig, "config"}, {r.MIGMonitor, "monitor"}} {
		if c.wanted {
			out = append(out, Device{Asked: "NVIDIA_MIG_" + strings.ToUpper(c.name) + "_DEVICES=all", Kind: "management.nvidia.com/mig", Names: []string{c.name}})
		}
	}
	for _, number := range r.IMEX {
		out = append(out, imexDevice("IMEX channel "+number, number))
	}
	return out
}

// Optional returns the devices of optional hardware, which the node may lack. The container gets
// them in every mode.
func (r *Request) Optional() []Device {
	var out []Device
	for _, gate := range r.Gates {
		out = append(out, Device{Asked: "NVIDIA_" + strings.ToUpper(gate) + "=enabled", Kind: "nvidia.com/" + gate, Names: []string{"all"}})
	}
	return out
}
