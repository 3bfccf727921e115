package migrate

import (
	"fmt"
	"strings"

	"outrigger.dev/charts"
)

// release is the name of the release in the plan. The names of objects do not matter for it.
const release = "outrigger"

// applyCharts removes the values that the charts ignore or reject, and records why. The charts find some mistakes only
// after others are corrected, so it repeats until the values render.
func (p *Plan) applyCharts(o Options) error {
	const most = 300
	seen := map[string]bool{}
	for range most {
		r := charts.Release{Name: release, Namespace: release, Kubernetes: o.Kubernetes, Values: clone(p.Values), Nodes: o.Nodes}
		_, err := charts.Stages(r)
		if err == nil {
			break
		}
		removed := false
		for line := range strings.Lines(err.Error()) {
			removed = p.reject(strings.TrimSpace(line), seen) || removed
		}
		if !removed {
			p.Refused = append(p.Refused, Difference{Path: "values", Why: err.Error(), Fix: "correct the values by hand: the chart rejects them"})
			break
		}
	}
	r := charts.Release{Name: release, Namespace: release, Kubernetes: o.Kubernetes, Values: clone(p.Values), Nodes: o.Nodes}
	lines, err := charts.Ignored(r)
	if err != nil {
		return fmt.Errorf("find values without effect: %w", err)
	}
	for _, line := range lines {
		p.ignore(line)
	}
	return nil
}

// reject removes the value that an error of the charts names. It returns false if it has removed nothing. seen has the
// lines of earlier calls.
func (p *Plan) reject(line string, seen map[string]bool) bool {
	path, why, is := strings.Cut(line, ": ")
	if !is || seen[line] {
		return false
	}
	seen[line] = true
	removed, value := p.removeNamed(path)
	if removed == "" {
		return false
	}
	why, fix, _ := strings.Cut(why, "; ")
	p.Refused = append(p.Refused, Difference{Path: removed, From: short(value), Why: why, Fix: fix})
	return true
}

// removeNamed removes the value at a path. A message about a value that several agents use begins with the key of one
// agent, which is not part of the path.
func (p *Plan) removeNamed(path string) (removed string, value any) {
	if removed, value = remove(p.Values, path); removed != "" {
		return removed, value
	}
	if _, shared, is := strings.Cut(path, "."); is {
		if removed, value = remove(p.Values, shared); removed != "" {
			return removed, value
		}
	}
	return "", nil
}

// ignore removes a value that has no effect. The line is "path: reason; fix".
func (p *Plan) ignore(line string) {
	path, why, _ := strings.Cut(line, ": ")
	why, fix, _ := strings.Cut(why, "; ")
	value := lookup(p.Values, path)
	removed, _ := remove(p.Values, path)
	if removed == "" || empty(value) {
		return
	}
	if fix == "remove it" {
		fix = ""
	}
	p.Ignored = append(p.Ignored, Difference{Path: removed, From: short(value), Why: why, Fix: fix})
}
