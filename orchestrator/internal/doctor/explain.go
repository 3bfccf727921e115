package doctor

import (
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"outrigger.dev/orchestrator/internal/facts"
	"outrigger.dev/pkg/cause"
)

// explanation is the output of device-plugin explain --output=json.
type explanation struct {
	Resources []struct {
		Name    string      `json:"name"`
		Devices []explained `json:"devices"`
	} `json:"resources"`
	Others []explained `json:"notOffered"`
}

type explained struct {
	Index, UUID, Kind, Reason string
	Healthy                   bool
}

// parseExplanation returns nil for the output of an agent of another version.
func parseExplanation(output string) *explanation {
	x := &explanation{}
	if json.Unmarshal([]byte(output), x) != nil {
		return nil
	}
	return x
}

// causes returns the causes of the devices that do not work.
func (x *explanation) causes() (all []cause.Cause) {
	add := func(resource string, d explained) {
		if cause.Code(d.Kind).Row().Section == "device" && cause.Code(d.Kind) != cause.DeviceExcluded {
			all = append(all, cause.Cause{Code: cause.Code(d.Kind), Subject: strings.TrimSpace(resource + " " + d.Index + " " + d.UUID), Text: d.Reason})
		}
	}
	for _, r := range x.Resources {
		for _, d := range r.Devices {
			add(r.Name, d)
		}
	}
	for _, d := range x.Others {
		add("", d)
	}
	return all
}

// configLabel selects the config of a node. The command explain does not know its value.
const configLabel = "nvidia.com/device-plugin.config"

// explanationOf returns what the device plugin of a node says now, or nil if it is not known.
func (d *diagnosis) explanationOf(n *corev1.Node) *explanation {
	i := slices.IndexFunc(d.answers[n.Name], func(a facts.Answer) bool { return slices.Contains(a.Command, "explain") && a.Error == "" })
	if i < 0 || !d.close(n.Name) || n.Labels[configLabel] != "" {
		return nil
	}
	return parseExplanation(d.answers[n.Name][i].Output)
}

// settles reports whether the explanation makes an Event about a device needless: the Event is out of date, or the explanation
// says the same. The Event of an XID stays while the explanation has a sign of it, such as a lost GPU.
func (x *explanation) settles(e *corev1.Event, device string) bool {
	switch {
	case x == nil:
		return false
	case e.Reason == string(cause.DeviceNotOffered):
		return true
	case e.Reason == string(cause.ConfigRefused):
		return e.Source.Component != facts.FeatureDiscovery // explain fails if it cannot use the config
	case e.Reason != string(cause.DeviceUnhealthy):
		return false
	}
	for _, r := range x.Resources {
		for _, d := range r.Devices {
			if d.UUID == device {
				return d.Healthy || slices.ContainsFunc(codesOf(e), func(c cause.Cause) bool { return c.Code == cause.Code(d.Kind) })
			}
		}
	}
	return false
}
