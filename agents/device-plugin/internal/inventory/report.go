package inventory

import (
	"fmt"
	"slices"
	"strings"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/resource"
)

// Reporter publishes reports for the operators of the node. It must not block.
type Reporter interface{ Report(Report) }

// ReportHealthy is the kind of a Report that requires no action, because the cause is gone.
const ReportHealthy cause.Code = "DeviceHealthy"

// Report describes an incident or its end.
type Report struct {
	// Kind is the reason of a Kubernetes Event.
	Kind cause.Code
	// Resources and Devices are empty if the Report concerns the node. Devices with the same
	// reason are in one Report, even if they belong to several resources.
	Resources []string
	Devices   []resource.Device
	// Cause is the code of the devices' health, or of the state of the node. It is empty for ReportHealthy.
	Cause cause.Code
	// Reason is empty for ReportHealthy.
	Reason string
	// Others is set if Reason is about the first device, and the other devices have similar
	// reasons: each device lacks a different device node.
	Others bool
}

// Normal reports whether the Report requires no action.
func (r Report) Normal() bool { return r.Kind == ReportHealthy || r.Kind == cause.GPUIndexShifted }

// maxNamed is the number of devices that a sentence names. More would leave no room for the
// reason in a Kubernetes Event.
const maxNamed = 12

// String returns the Report as a sentence, after its Cause. It names the first devices by index and
// UUID, and counts the others.
func (r Report) String() string {
	if r.Cause != "" {
		return string(r.Cause) + ": " + r.sentence()
	}
	return r.sentence()
}

func (r Report) sentence() string {
	names := make([]string, 0, maxNamed+1)
	for i, d := range r.Devices {
		if i == maxNamed {
			names = append(names, fmt.Sprintf("and %d more", len(r.Devices)-maxNamed))
			break
		}
		names = append(names, strings.TrimSpace(d.Index+" "+string(d.UUID)))
	}
	text := strings.Join(names, ", ")
	if len(r.Resources) > 0 {
		text = strings.Join(r.Resources, ", ") + " " + text
	}
	switch {
	case text == "":
		return r.Reason
	case r.Kind == ReportHealthy:
		return text + ": healthy again"
	case r.Others:
		return fmt.Sprintf("%s: %s; the same for other devices, see the log", text, r.Reason)
	default:
		return fmt.Sprintf("%s: %s", text, r.Reason)
	}
}

// reports returns a Report for each incident that an operator should know. It skips a driver
// that is gone or hangs, because that is reported for the node as a whole.
func reports(was, now resource.Set) []Report {
	var all grouped
	for _, c := range changes(was, now) {
		switch {
		case c.recovered():
			all.add(ReportHealthy, c.resource, c.device)
		case c.sameIncident(), c.device.Health.Kind == cause.DeviceDriver, c.device.Health.Kind == cause.DeviceHang:
		default:
			all.add(cause.DeviceUnhealthy, c.resource, c.device)
		}
	}
	for _, d := range shifted(was, now) {
		d.Health.Reason = "NVML has another index for the device now, because a GPU or MIG device has come or gone;" +
			" the agents of the node use this index until the node reboots, and programs that ask NVML should use the UUID"
		all.add(cause.GPUIndexShifted, "", d)
	}
	for _, u := range unlisted(was, now) {
		if u.Kind == cause.DeviceExcluded {
			continue
		}
		d := resource.Device{UUID: u.UUID, Index: u.Index}
		d.Health.Kind, d.Health.Reason = u.Kind, u.Reason
		all.add(cause.DeviceNotOffered, "", d)
	}
	return all
}

// sameIncident reports whether the device was unhealthy before, and the new reason belongs to
// the same incident. That is the case if a GPU that reported an XID is then lost, cannot be
// read, has to be reset, or reports a fault of its memory. An XID is always reported: a second XID is another incident, and
// an XID that comes late names the cause.
func (c change) sameIncident() bool {
	sign := func(k cause.Code) bool {
		return k == cause.DeviceLost || k == cause.DeviceFault || k == cause.DeviceRecovery || k == cause.DeviceMemory
	}
	if c.before == nil || c.before.Healthy {
		return false
	}
	before, now := c.before.Kind, c.device.Health.Kind
	return (sign(before) || before == cause.DeviceXID) && sign(now)
}

// grouped merges the Reports that differ only in their devices.
type grouped []Report

func (g *grouped) add(kind cause.Code, res string, d resource.Device) {
	for i := range *g {
		r := &(*g)[i]
		same := r.Reason == d.Health.Reason && r.Cause == d.Health.Kind
		// Devices that lack a file at the same time have one cause, although each reason names
		// another file.
		alike := d.Health.Kind == cause.DeviceUnprepared && r.Devices[0].Health.Kind == cause.DeviceUnprepared
		if r.Kind == kind && (same || alike) {
			r.Others = r.Others || !same
			r.add(res, d)
			return
		}
	}
	r := Report{Kind: kind, Cause: d.Health.Kind, Reason: d.Health.Reason}
	r.add(res, d)
	*g = append(*g, r)
}

func (r *Report) add(res string, d resource.Device) {
	if res != "" && !slices.Contains(r.Resources, res) {
		r.Resources = append(r.Resources, res)
	}
	r.Devices = append(r.Devices, d)
}

func (v *Inventory) report(all ...Report) {
	if v.cfg.Reporter == nil {
		return
	}
	for _, r := range all {
		v.cfg.Reporter.Report(r)
	}
}
