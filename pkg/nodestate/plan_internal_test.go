package nodestate

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// applied says that the writer of the tests has applied labels.
func applied(labels ...string) Managed {
	return Managed{Manager: mine, Applied: true, Labels: labels}
}

func TestOnlyDifferencesAreWritten(t *testing.T) {
	ready := func(status, reason string) *Condition {
		return &Condition{Type: "GPUReady", Status: status, Reason: reason}
	}
	there := Node{
		Labels:      map[string]string{"a": "1", "b": "2", "foreign": "x", "time": "7"},
		Annotations: map[string]string{"note": "n", "of.others": "x", "cordoned": "1"},
		Managed: []Managed{
			{Manager: mine, Applied: true, Labels: []string{"a", "b", "time"}, Annotations: []string{"note"}},
			{Manager: mine, Annotations: []string{"cordoned"}},
			{Manager: "other", Labels: []string{"b", "foreign"}, Annotations: []string{"of.others"}},
		},
		Conditions: []Condition{{Type: "GPUReady", Status: "False", Reason: "DriverNotFound", LastTransition: time.Unix(60, 0)}},
		Taints:     []Taint{{Key: "x", Effect: gate.Effect}, {Key: gate.Key, Value: "yes", Effect: gate.Effect}},
	}
	ab, note := map[string]string{"a": "1", "b": "2"}, map[string]string{"note": "n"}
	timeless := Node{Conditions: []Condition{{Type: "GPUReady", Status: "False", Reason: "DriverHangs"}}}
	for name, tc := range map[string]struct {
		node    Node
		desired Desired
		writes  string
	}{
		"all is right":                   {there, Desired{Labels: ab, Annotations: note, Condition: ready("False", "DriverNotFound")}, ""},
		"nothing is known":               {there, Desired{}, ""},
		"a value differs":                {there, Desired{Labels: map[string]string{"a": "2", "b": "2"}, Annotations: note}, "labels a=2 b=2 time=1000 note=n"},
		"a label is missing":             {there, Desired{Labels: map[string]string{"a": "1", "b": "2", "c": "3"}, Annotations: note}, "labels a=1 b=2 c=3 time=1000 note=n"},
		"a label is not desired":         {there, Desired{Labels: map[string]string{"a": "1"}, Annotations: note}, "labels a=1 time=1000 note=n"},
		"no label is desired":            {there, Desired{Labels: map[string]string{}, Annotations: note}, "labels note=n"},
		"another annotation":             {there, Desired{Labels: ab, Annotations: map[string]string{"note": "m"}}, "labels a=1 b=2 time=7 note=m"},
		"an annotation is missing":       {there, Desired{Labels: ab, Annotations: map[string]string{"note": "n", "more": "1"}}, "labels a=1 b=2 time=7 more=1 note=n"},
		"an annotation is not desired":   {there, Desired{Labels: ab}, "labels a=1 b=2 time=7"},
		"none is there or desired":       {Node{Labels: map[string]string{"foreign": "x"}}, Desired{Labels: map[string]string{}}, ""},
		"another wrote the same":         {Node{Labels: map[string]string{"c": "x", "time": "1"}}, Desired{Labels: map[string]string{"c": "x"}}, ""},
		"another reason":                 {there, Desired{Condition: ready("False", "DriverHangs")}, "condition False 00:01:00"},
		"another status":                 {there, Desired{Condition: ready("True", "GPUsReady"), Remove: gate}, "condition True 00:16:40 taint"},
		"the taint is not there":         {Node{}, Desired{Condition: ready("True", "GPUsReady"), Remove: gate}, "condition True 00:16:40"},
		"a condition without a time":     {timeless, Desired{Condition: ready("False", "DriverHangs")}, "condition False 00:16:40"},
		"another's label is yielded":     {Node{Labels: map[string]string{"foreign": "y"}, Managed: []Managed{{Manager: "other", Labels: []string{"foreign"}}}}, Desired{Labels: map[string]string{"foreign": "x"}}, ""},
		"another's value is not yielded": {Node{Labels: map[string]string{"foreign": "weak"}, Managed: []Managed{{Manager: "other", Labels: []string{"foreign"}}}}, Desired{Labels: map[string]string{"foreign": "x"}}, "labels foreign=x time=1000"},
		"the Node must not have a label": {
			Node{Labels: map[string]string{"a": "1", "b": "2", "off": "yes"}, Managed: []Managed{applied("a", "b")}}, Desired{Labels: map[string]string{"a": "1", "b": "2"}}, "labels a=1 time=1000",
		},
		"a label of nobody is not yielded": {Node{Labels: map[string]string{"foreign": "y"}}, Desired{Labels: map[string]string{"foreign": "x"}}, "labels foreign=x time=1000"},
		"a shared label is not yielded": {
			Node{Labels: map[string]string{"foreign": "y"}, Managed: []Managed{{Manager: "other", Labels: []string{"foreign"}}, applied("foreign")}},
			Desired{Labels: map[string]string{"foreign": "x"}},
			"labels foreign=x time=1000",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := Config{
				manager: mine, Timestamp: "time", Time: func() time.Time { return time.Unix(1000, 0) },
				Yields:   func(key, value string) bool { return key == "foreign" && value != "weak" },
				Excludes: func(labels map[string]string, key string) bool { return key == "b" && labels["off"] == "yes" },
			}
			var got []string
			p := c.plan(tc.node, tc.desired)
			if p.metadata {
				got = append(got, "labels")
				for _, m := range []map[string]string{p.labels, p.annotations} {
					var all []string
					for k, v := range m {
						all = append(all, k+"="+v)
					}
					slices.Sort(all)
					got = append(got, all...)
				}
			}
			if p.condition != nil {
				got = append(got, "condition", p.condition.Status, p.condition.LastTransition.UTC().Format(time.TimeOnly))
			}
			if p.taint != nil {
				got = append(got, "taint")
			}
			if is := strings.Join(got, " "); is != tc.writes || p.empty() != (is == "") {
				t.Errorf("it writes %q, want %q", is, tc.writes)
			}
		})
	}
}
