package upgrade

import (
	"encoding/json"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/nodestate"
)

// FuzzWhatOthersWrite holds what labels and annotations that other tools wrote may cause: a
// node at rest is never cordoned or uncordoned because of NVIDIA's label, only by
// CordonedAnnotation, and what is published are values that tools know.
func FuzzWhatOthersWrite(f *testing.F) {
	for _, state := range []string{"", "upgrade-required", "cordon-required", "upgrade-failed", "uncordon-required", "node-maintenance-required", "nonsense", "\xff"} {
		f.Add(state, "true", "", "true", false, "an error\nof two lines")
	}
	f.Add("drain-required", "false", "2", "", true, "")
	f.Fuzz(func(t *testing.T, label, skip, cordoned, requested string, unschedulable bool, text string) {
		var n nodestate.Node
		n.Labels = map[string]string{StateLabel: label, SkipLabel: skip}
		n.Annotations = map[string]string{CordonedAnnotation: cordoned, RequestedAnnotation: requested, InitialAnnotation: label}
		n.Unschedulable = unschedulable
		p := Default()
		p.AutoUpgrade = false
		got := Next(Journal{}, Observation{Target: "2", Loaded: "1", Node: nodeFields(n)}, p)
		want := Action{Kind: Wait}
		switch {
		case cordoned != "":
			want = Action{Kind: Move, To: Yielding}
		case requested == "true" && skip != "true":
			want = Action{Kind: Move, To: Required}
		}
		if got != want {
			t.Errorf("Next() = %+v, want %+v", got, want)
		}
		j := Journal{State: State(label), Cause: &cause.Cause{Text: text}, Since: time.Unix(1e9, 0)}
		if !j.State.Known() {
			return
		}
		shown := publishedFields(j, "a/b")
		if len(shown.Annotations[CauseAnnotation]) > maxCause {
			t.Errorf("the cause has %d bytes", len(shown.Annotations[CauseAnnotation]))
		}
		if data, err := json.Marshal(shown); err != nil || len(data) == 0 {
			t.Errorf("what is published is no JSON: %v", err)
		}
		if l := State(shown.Labels[StateLabel]); !l.Known() || l.Label() != string(l) {
			t.Errorf("the label is %q", l)
		}
	})
}

// FuzzPolicy holds that a policy that is accepted can be followed.
func FuzzPolicy(f *testing.F) {
	f.Add([]byte(`{"autoUpgrade": true, "maxUnavailable": "25%", "drain": {"force": true}}`))
	f.Add([]byte(`{"maxUnavailable": 1e3, "podDeletion": null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := ParsePolicy(data)
		if err != nil {
			return
		}
		if n := p.MaxUnavailable.Of(10); n < 1 || p.MaxParallelUpgrades < 0 || p.PodDeletion.TimeoutSeconds < 0 {
			t.Errorf("%s is the policy %+v", data, p)
		}
	})
}

func TestOnlyANodeWithGPUsInItsCapacityHasAPlugin(t *testing.T) {
	for resources, want := range map[string]bool{
		`{}`: false, `{"cpu": "2"}`: false, `{"nvidia.com/gpu": "0"}`: false,
		`{"nvidia.com/gpu": "2"}`: true, `{"nvidia.com/gpu": "0", "nvidia.com/mig-1g.10gb": "7"}`: true,
	} {
		var n nodestate.Node
		assert.NilError(t, json.Unmarshal([]byte(`{"status": {"capacity": `+resources+`}}`), &n))
		if got := hasPlugin(n); got != want {
			t.Errorf("%s: %v, want %v", resources, got, want)
		}
	}
}
