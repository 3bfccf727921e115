package migrate

import (
	"strings"

	"outrigger.dev/charts"
	"outrigger.dev/orchestrator/internal/pools"
)

// release is the name of the release in the plan. The names of objects do not matter for it.
const release = "outrigger"

// applyCharts changes the values that the chart rejects as it advises, or removes them, and removes values without
// effect. It repeats this, because the chart may find a mistake only after another one is corrected.
func (p *Plan) applyCharts(o Options) {
	const most = 50
	for range most {
		values := clone(p.Values)
		if empty(lookup(values, "global.registry")) {
			set(values, "global.registry", "outrigger.dev") // the plan says that it is missing
		}
		problems, notes, err := charts.Check(charts.Release{Name: release, Namespace: release, Kubernetes: o.Kubernetes, Values: values})
		if err != nil {
			p.Refused = append(p.Refused, Difference{Path: "values", Why: err.Error(), Fix: "correct the values by hand: the chart rejects them"})
			return
		}
		progress := false
		for _, problem := range problems {
			progress = p.correct(problem) || progress
		}
		for _, note := range notes {
			p.ignore(note)
		}
		if progress {
			continue
		}
		for _, problem := range problems {
			p.Refused = append(p.Refused, Difference{Path: problem.Path, Why: problem.Reason, Fix: problem.Instead})
		}
		return
	}
}

// correct follows the advice of the chart, or removes the value. It returns false if that changes nothing.
func (p *Plan) correct(problem charts.Problem) bool {
	d := Difference{Path: problem.Path, Why: problem.Reason, Fix: problem.Instead}
	if from := lookup(p.Values, problem.Path); from != nil {
		d.From = short(from)
	}
	before := text(p.Values)
	p.Values = charts.Problems{problem}.Apply(p.Values)
	for at := problem.Path; text(p.Values) == before; {
		removed, value := remove(p.Values, at)
		if removed != "" && removed != problem.Path {
			d.Path, d.From, d.Why = removed, short(value), problem.Path+": "+problem.Reason
		}
		if text(p.Values) != before {
			break
		}
		// The value is missing: remove the part that needs it.
		dot := strings.LastIndex(at, ".")
		if dot < 0 {
			return false
		}
		at = at[:dot]
	}
	for _, change := range problem.Changes {
		if change.Path == problem.Path && !empty(change.Value) {
			d.To = text(change.Value)
		}
	}
	if d.To == "" || d.To == "false" {
		p.Refused = append(p.Refused, d)
	} else {
		p.Changed = append(p.Changed, d)
	}
	return true
}

// checkPools refuses pools that the orchestrator does not accept. The chart does not compare pools.
func (p *Plan) checkPools() {
	if _, err := pools.Parse(p.Values); err != nil {
		p.Refused = append(p.Refused, Difference{Path: pools.Key, Why: err.Error(), Fix: "change the nodeSelectors of the NVIDIADriver objects, or the pools in the values"})
	}
}

// ignore removes a value that has no effect.
func (p *Plan) ignore(note charts.Problem) {
	value := lookup(p.Values, note.Path)
	removed, _ := remove(p.Values, note.Path)
	if removed != "" && !empty(value) {
		p.Ignored = append(p.Ignored, Difference{Path: removed, From: short(value), Why: note.Reason, Fix: strings.TrimSuffix(note.Instead, "remove it")})
	}
}
