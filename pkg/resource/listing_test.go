package resource_test

import (
	"fmt"
	"strings"

	"outrigger.dev/pkg/resource"
)

// listing writes everything that is in a set, for people.
func listing(set resource.Set) string {
	var b strings.Builder
	for _, r := range set.Resources {
		fmt.Fprintf(&b, "%s%s\n", r.Name, sharing(r))
		for _, d := range r.Devices {
			fmt.Fprintf(&b, "  %-4s gpu %d  numa %d  %-40s x%d  %s", d.Index, d.GPU, d.NUMANode, d.UUID, d.Replicas, strings.Join(d.Paths, " "))
			if !d.Health.Healthy {
				fmt.Fprintf(&b, "  unhealthy: %s", d.Health.Reason)
			}
			b.WriteString("\n")
		}
	}
	for _, u := range set.Unlisted {
		fmt.Fprintf(&b, "left out %s (%s), %s: %s\n", u.Index, u.UUID, u.Kind, u.Reason)
	}
	for _, n := range set.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	return b.String()
}

// short is a line for each resource, unlisted device and note.
func short(set resource.Set) []string {
	var out []string
	for _, r := range set.Resources {
		line := r.Name + sharing(r) + ":"
		for _, d := range r.Devices {
			line += " " + d.Index
			if d.Replicas > 1 {
				line += fmt.Sprintf("x%d", d.Replicas)
			}
			if !d.Health.Healthy {
				line += "(" + d.Health.Reason + ")"
			}
		}
		out = append(out, line)
	}
	for _, u := range set.Unlisted {
		out = append(out, fmt.Sprintf("%s %s: %s", u.Kind, u.Index, u.Reason))
	}
	for _, n := range set.Notes {
		out = append(out, "note: "+n)
	}
	return out
}

func sharing(r resource.Resource) string {
	text := ""
	if r.Sharing != "" {
		text = " " + string(r.Sharing)
	}
	if r.FailRequestsGreaterThanOne {
		text += " one-at-a-time"
	}
	return text
}
