package charts_test

import (
	"slices"
	"strings"
	"testing"
)

// TestHostNetwork sets hostNetwork of each chart that has it. Probes of a pod on the host's network are open only on the node, and a
// NetworkPolicy, which would not apply to the pod, is rejected.
func TestHostNetwork(t *testing.T) {
	found := 0
	for _, name := range names(t) {
		p, ok := readSchema(t, name).Properties["hostNetwork"]
		if !ok || strings.HasPrefix(p.Description, "Without effect: ") {
			continue
		}
		found++
		values := map[string]any{"hostNetwork": true}
		out, err := release{chart: name, values: values}.render()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		documents := strings.Split(out, "\n---\n")
		at := slices.IndexFunc(documents, func(d string) bool { return strings.Contains(d, "\nkind: DaemonSet\n") })
		for _, want := range []string{"\n      hostNetwork: true\n", "\n              host: 127.0.0.1\n"} {
			if at < 0 || !strings.Contains(documents[at], want) {
				t.Errorf("%s: the DaemonSet lacks %q", name, want)
			}
		}
		values["networkPolicy"] = map[string]any{"enabled": true}
		if _, err := (release{chart: name, values: values}).render(); err == nil || !strings.Contains(err.Error(), "networkPolicy.enabled: a NetworkPolicy does not apply") {
			t.Errorf("%s: with a NetworkPolicy: %v", name, err)
		}
	}
	if found < 7 {
		t.Errorf("only %d charts have hostNetwork", found)
	}
}
