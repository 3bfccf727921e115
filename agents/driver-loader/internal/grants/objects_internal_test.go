package grants

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestThePercentageIsOfTheRelease is for releases with a DaemonSet for each kernel.
func TestThePercentageIsOfTheRelease(t *testing.T) {
	var all []daemonSet
	for _, d := range []struct {
		name, labels, policy string
		nodes                int
	}{
		{"gpu-6-8-0-60", `{"app.kubernetes.io/instance":"gpu"}`, "{}", 6},
		{"gpu-6-8-0-64", `{"app.kubernetes.io/instance":"gpu"}`, "{}", 2},
		{"gpu-exporter", `{"app.kubernetes.io/instance":"gpu"}`, "", 50},
		{"gpu-pool", `{"app.kubernetes.io/instance":"gpu-pool"}`, "{}", 4},
		{"static", "{}", "{}", 5},
		{"other", "{}", "{}", 3},
	} {
		var set daemonSet
		text := fmt.Sprintf(`{"metadata": {"name": %q, "namespace": "n", "labels": %s}, "status": {"desiredNumberScheduled": %d},
			"spec": {"template": {"spec": {"containers": [{"env": [{"name": "UPGRADE_POLICY", "value": %q}]}]}}}}`, d.name, d.labels, d.nodes, d.policy)
		if err := json.Unmarshal([]byte(text), &set); err != nil {
			t.Fatal(err)
		}
		all = append(all, set)
	}
	got := map[string]int{}
	for _, s := range setsOf(all) {
		got[s.Name] = s.Nodes
	}
	want := map[string]int{"n/gpu-6-8-0-60": 8, "n/gpu-6-8-0-64": 8, "n/gpu-pool": 4, "n/static": 5, "n/other": 3}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
}
