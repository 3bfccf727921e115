package nodestate

import (
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Desired is the desired state of a writer. It is immutable.
type Desired struct {
	// Labels and Annotations are all labels and annotations of the writer on the Node. If both are
	// nil, the published ones do not change.
	Labels, Annotations map[string]string
	// Condition is nil if no condition is published. Its LastTransition is ignored.
	Condition *Condition
	// Remove is a taint that the writer removes and never adds. If it has no key, the writer
	// removes no taint.
	Remove Taint
}

// plan has the writes that bring the Node into the desired state.
type plan struct {
	// metadata is set if labels and annotations are applied. They are applied as a whole: the API
	// server removes labels and annotations that the writer applied before and that are omitted
	// now.
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

// plan compares the Node with the desired state. A label with the desired value needs no request,
// even if another writer wrote it. A label that the writer applied and no longer desires is
// removed.
func (c Config) plan(there Node, desired Desired) plan {
	var p plan
	if desired.Labels != nil || desired.Annotations != nil {
		labels, annotations := there.applied(c.manager)
		wanted := c.wanted(there, desired.Labels)
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

// sameTaint reports whether both taints have the same key and effect.
func (t Taint) sameTaint(other Taint) bool { return t.Key == other.Key && t.Effect == other.Effect }

// relevant returns the entries of a map whose keys are desired or were applied.
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

// wanted returns labels without the labels that the writer leaves to another writer, or that the Node must not have.
func (c Config) wanted(there Node, labels map[string]string) map[string]string {
	out := maps.Clone(labels)
	maps.DeleteFunc(out, func(key, _ string) bool {
		yields := c.Yields != nil && c.Yields(key, there.Labels[key]) && there.ownedByOthers(key, c.manager)
		return yields || c.Excludes != nil && c.Excludes(there.Labels, key)
	})
	return out
}

// condition returns the condition to apply, nil if the Node has it already. The time of the
// transition changes only with the status (API conventions, "Typical status properties").
func (c Config) condition(there Node, want Condition) *Condition {
	want.LastTransition = c.Time()
	for _, old := range there.Conditions {
		if old.Type != want.Type {
			continue
		}
		if old.Status == want.Status && !old.LastTransition.IsZero() { // the time is optional in the API
			want.LastTransition = old.LastTransition
		}
		if want == old {
			return nil
		}
	}
	return &want
}

// Stamp adds a label to labels: its key is the parameter key, and its value is the time of their
// last change, in seconds since 1970. It also returns whether the labels differ from the published
// ones. It keeps the published time if no other label has changed. It adds nothing if key or labels
// are empty.
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
