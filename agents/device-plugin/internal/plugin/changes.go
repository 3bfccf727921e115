package plugin

import (
	"log/slog"
	"slices"

	"outrigger.dev/agents/device-plugin/internal/health"
	"outrigger.dev/agents/device-plugin/internal/resource"
	"outrigger.dev/pkg/gpu"
)

// logChanges tells what is new in what is offered, device by device.
func logChanges(log *slog.Logger, was, now resource.Set) {
	before := map[string]map[gpu.UUID]health.Status{}
	for _, r := range was.Resources {
		before[r.Name] = map[gpu.UUID]health.Status{}
		for _, d := range r.Devices {
			before[r.Name][d.UUID] = d.Health
		}
	}
	for _, r := range now.Resources {
		if len(before[r.Name]) != len(r.Devices) {
			log.Info("resource offered", "resource", r.Name, "devices", len(r.Devices), "before", len(before[r.Name]))
		}
		for _, d := range r.Devices {
			logDevice(log.With("resource", r.Name, "device", d.UUID, "index", d.Index), before[r.Name], d)
		}
	}
	told := map[resource.Unlisted]bool{}
	for _, u := range was.Unlisted {
		told[u] = true
	}
	for _, u := range now.Unlisted {
		switch {
		case told[u]:
		case u.Kind == resource.KindExcluded:
			log.Info("device is excluded", "index", u.Index, "device", u.UUID, "reason", u.Reason)
		default:
			log.Error("device cannot be offered", "index", u.Index, "device", u.UUID, "kind", u.Kind, "reason", u.Reason)
		}
	}
	for _, n := range now.Notes {
		if !slices.Contains(was.Notes, n) {
			log.Info("config on this node", "note", n)
		}
	}
}

func logDevice(log *slog.Logger, before map[gpu.UUID]health.Status, d resource.Device) {
	was, known := before[d.UUID]
	switch {
	case known && was == d.Health, !known && d.Health.Healthy:
	case d.Health.Healthy:
		log.Info("device is healthy again")
	case !known || was.Healthy:
		log.Error("device became unhealthy", "reason", d.Health.Reason)
	default:
		log.Warn("device is unhealthy for another reason", "reason", d.Health.Reason, "before", was.Reason)
	}
}
