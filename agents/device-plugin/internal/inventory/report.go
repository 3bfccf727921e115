package inventory

import (
	"fmt"
	"strings"

	"outrigger.dev/pkg/resource"
)

// Reporter publishes what a person who looks at the node should know. It must not
// block.
type Reporter interface{ Report(Report) }

// ReportKind is the kind of a Report, in the form of the reason of a Kubernetes
// Event.
type ReportKind string

// The kinds of reports.
const (
	ReportUnhealthy     ReportKind = "DeviceUnhealthy"
	ReportHealthy       ReportKind = "DeviceHealthy"
	ReportNotOffered    ReportKind = "DeviceNotOffered"
	ReportWaiting       ReportKind = "GPUsNotOffered"
	ReportConfigRefused ReportKind = "ConfigRefused"
)

// Report is one thing that happened.
type Report struct {
	Kind ReportKind
	// Resource and Devices are empty if the Report concerns the node. Devices that
	// have the same reason are in one Report.
	Resource string
	Devices  []resource.Device
	// Reason is empty for ReportHealthy.
	Reason string
}

// Normal reports whether no one has to act.
func (r Report) Normal() bool { return r.Kind == ReportHealthy }

// maxNamed is how many devices a sentence names. More would leave no room for the
// reason in a Kubernetes Event.
const maxNamed = 12

// String returns the Report as a sentence. It names the first devices by index and
// UUID, and counts the others.
func (r Report) String() string {
	names := make([]string, 0, maxNamed+1)
	for i, d := range r.Devices {
		if i == maxNamed {
			names = append(names, fmt.Sprintf("and %d more", len(r.Devices)-maxNamed))
			break
		}
		names = append(names, strings.TrimSpace(d.Index+" "+string(d.UUID)))
	}
	text := strings.Join(names, ", ")
	if r.Resource != "" {
		text = r.Resource + " " + text
	}
	switch {
	case text == "":
		return r.Reason
	case r.Kind == ReportHealthy:
		return text + ": healthy again"
	default:
		return fmt.Sprintf("%s: %s", text, r.Reason)
	}
}

// reports returns a Report for each change that a person should know.
func reports(was, now resource.Set) []Report {
	var all grouped
	for _, c := range changes(was, now) {
		switch {
		case c.healed():
			all.add(ReportHealthy, c.resource, c.device)
		case !c.device.Health.Healthy:
			all.add(ReportUnhealthy, c.resource, c.device)
		}
	}
	for _, u := range unlisted(was, now) {
		if u.Kind == resource.KindExcluded {
			continue
		}
		d := resource.Device{UUID: u.UUID, Index: u.Index}
		d.Health.Reason = u.Reason
		all.add(ReportNotOffered, "", d)
	}
	return all
}

// grouped merges the Reports that differ only in their devices.
type grouped []Report

func (g *grouped) add(kind ReportKind, res string, d resource.Device) {
	for i := range *g {
		r := &(*g)[i]
		if r.Kind == kind && r.Resource == res && r.Reason == d.Health.Reason {
			r.Devices = append(r.Devices, d)
			return
		}
	}
	*g = append(*g, Report{Kind: kind, Resource: res, Devices: []resource.Device{d}, Reason: d.Health.Reason})
}

func (v *Inventory) report(all ...Report) {
	if v.cfg.Reporter == nil {
		return
	}
	for _, r := range all {
		v.cfg.Reporter.Report(r)
	}
}
