package inventory

import (
	"log/slog"
	"slices"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/resource"
)

// change is a device whose health has changed.
type change struct {
	resource string
	device   resource.Device
	// before is the earlier health, nil for a device that was not advertised.
	before *health.Status
}

func (c change) recovered() bool { return c.device.Health.Healthy && c.before != nil }

// changes returns the devices that became unhealthy or healthy again, and the devices whose
// reason for being unhealthy has changed. A new healthy device is not a change.
func changes(was, now resource.Set) []change {
	var out []change
	before := map[string]map[gpu.UUID]*health.Status{}
	for _, r := range was.Resources {
		before[r.Name] = map[gpu.UUID]*health.Status{}
		for i := range r.Devices {
			before[r.Name][r.Devices[i].UUID] = &r.Devices[i].Health
		}
	}
	for _, r := range now.Resources {
		for _, d := range r.Devices {
			old := before[r.Name][d.UUID]
			if old == nil && d.Health.Healthy || old != nil && *old == d.Health {
				continue
			}
			out = append(out, change{resource: r.Name, device: d, before: old})
		}
	}
	return out
}

// unlisted returns the devices that are not advertised and were not reported before.
func unlisted(was, now resource.Set) []resource.Unlisted {
	reported := map[resource.Unlisted]bool{}
	for _, u := range was.Unlisted {
		reported[u] = true
	}
	return slices.DeleteFunc(slices.Clone(now.Unlisted), func(u resource.Unlisted) bool { return reported[u] })
}

// shifted returns the devices that are Shifted in the set now, and were not in the set was.
func shifted(was, now resource.Set) []resource.Device {
	before := map[gpu.UUID]bool{}
	for _, r := range was.Resources {
		for _, d := range r.Devices {
			before[d.UUID] = d.Shifted
		}
	}
	var out []resource.Device
	for _, r := range now.Resources {
		for _, d := range r.Devices {
			if d.Shifted && !before[d.UUID] {
				out = append(out, d)
			}
		}
	}
	return out
}

// logChanges logs the changes of each resource and device.
func logChanges(log *slog.Logger, was, now resource.Set) {
	logResources(log, was, now)
	for _, c := range changes(was, now) {
		c.log(log)
	}
	for _, u := range unlisted(was, now) {
		if u.Kind == cause.DeviceExcluded {
			log.Info("device is excluded", "index", u.Index, "device", u.UUID, "reason", u.Reason)
			continue
		}
		log.Error("device cannot be advertised", "index", u.Index, "device", u.UUID, "kind", u.Kind, "reason", u.Reason)
	}
	for _, n := range now.Notes {
		if !slices.Contains(was.Notes, n) {
			log.Info("config note for this node", "note", n)
		}
	}
}

// logResources logs which resources are new or gone, or have another number of devices.
func logResources(log *slog.Logger, was, now resource.Set) {
	count := func(set resource.Set) map[string]int {
		out := map[string]int{}
		for _, r := range set.Resources {
			out[r.Name] = len(r.Devices)
		}
		return out
	}
	before, after := count(was), count(now)
	for _, r := range now.Resources {
		if before[r.Name] != after[r.Name] {
			log.Info("resource advertised", "resource", r.Name, "devices", after[r.Name], "before", before[r.Name])
		}
	}
	for _, r := range was.Resources {
		if after[r.Name] == 0 {
			log.Info("resource withdrawn", "resource", r.Name, "before", before[r.Name])
		}
	}
}

func (c change) log(log *slog.Logger) {
	log = log.With("resource", c.resource, "device", c.device.UUID, "index", c.device.Index)
	switch {
	case c.recovered():
		log.Info("device is healthy again")
	case c.before == nil || c.before.Healthy:
		log.Error("device became unhealthy", "reason", c.device.Health.Reason)
	default:
		log.Warn("device is unhealthy for another reason", "reason", c.device.Health.Reason, "before", c.before.Reason)
	}
}
