package nodestate

import (
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Desired is what a writer publishes. It is immutable.
type Desired struct {
	// Labels and Annotations are all that the Node has of the writer. While both are nil, those
	// that are published stay as they are.
	Labels, Annotations map[string]string
	// Condition is nil if none is published. Its LastTransition is not read.
	Condition *Condition
	// Remove is a taint that is removed, and never added. If it has no key, no taint is removed.
	Remove Taint
}

// plan has the writes that make the Node as desired.
type plan struct {
	// metadata is set if labels and annotations are applied. They are applied as a whole: the API
	// server removes those that the writer applied before and that are not among them.
	metadata            bool
	labels, annotations map[string]string
	// condition and taint are nil if they need no request.
	condition *Condition
	taint     *Taint
}

func (p plan) empty() bool { return !p.metadata && p.condition == nil && p.taint == nil }

// LogValue lists the writes of the plan.
func (p plan) LogValue() slog.Value {
	var parts []string
	if p.metadata {
		parts = append(parts, "labels")
	}
	if p.condition != nil {
		parts = append(parts, "condition")
	}
	if p.taint != nil {
		parts = append(parts, "taint")
	}
	return slog.StringValue(strings.Join(parts, ","))
}

// plan compares the Node with the desired state. A label with the desired value
// needs no request, whoever wrote it. A label that the writer applied and no longer
// desires is removed.
func (c Config) plan(there Node, desired Desired) plan {
	var p plan
	if desired.Labels != nil || desired.Annotations != nil {
		labels, annotations := there.applied(c.manager)
		wanted := c.withoutYielded(there, desired.Labels)
		now := relevant(there.Labels, wanted, labels)
		if at, is := there.Labels[c.Timestamp]; is && len(wanted) > 0 {
			now[c.Timestamp] = at
		}
		stamped, differ := Stamp(c.Timestamp, c.Time, wanted, now)
		if differ || !maps.Equal(relevant(there.Annotations, desired.Annotations, annotations), desired.Annotations) {
			p.metadata, p.labels, p.annotations = true, stamped, desired.Annotations
		}
	}
	if desired.Condition != nil {
		p.condition = c.condition(there, *desired.Condition)
	}
	if t := desired.Remove; t.Key != "" && slices.ContainsFunc(there.Taints, t.sameTaint) {
		p.taint = &t
	}
	return p
}

// sameTaint reports whether a toleration of the key and the effect is for both.
func (t Taint) sameTaint(other Taint) bool { return t.Key == other.Key && t.Effect == other.Effect }

// relevant returns the entries of a map whose keys are desired, or have been applied.
func relevant(of, desired map[string]string, applied []string) map[string]string {
	out := maps.Clone(of)
	maps.DeleteFunc(out, func(key, _ string) bool {
		_, is := desired[key]
		return !is && !slices.Contains(applied, key)
	})
	if out == nil {
		out = map[string]string{}
	}
	return out
}

// withoutYielded returns labels without those that the writer leaves to another one.
func (c Config) withoutYielded(there Node, labels map[string]string) map[string]string {
	if c.Yields == nil {
		return labels
	}
	out := maps.Clone(labels)
	maps.DeleteFunc(out, func(key, _ string) bool { return c.Yields(key) && there.ownedByOthers(key, c.manager) })
	return out
}

// condition returns the condition to apply, nil if the Node has it. The time of the
// transition is that of the status (API conventions, "Typical status properties").
func (c Config) condition(there Node, want Condition) *Condition {
	want.LastTransition = c.Time()
	for _, old := range there.Conditions {
		if old.Type != want.Type {
			continue
		}
		if old.Status == want.Status && !old.LastTransition.IsZero() { // it is optional in the API
			want.LastTransition = old.LastTransition
		}
		if want == old {
			return nil
		}
	}
	return &want
}

// Stamp returns labels with the label key, the time at which they last changed in seconds since
// 1970, and whether they differ from the published ones. It keeps the published time if nothing else
// has changed. Without a key, or without labels, it adds none.
func Stamp(key string, now func() time.Time, labels, published map[string]string) (stamped map[string]string, differ bool) {
	if key == "" || len(labels) == 0 {
		return labels, !maps.Equal(labels, published)
	}
	stamped = maps.Clone(labels)
	if at, ok := published[key]; ok {
		stamped[key] = at
		if maps.Equal(stamped, published) {
			return stamped, false
		}
	}
	stamped[key] = strconv.FormatInt(now().Unix(), 10)
	return stamped, true
}
