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
		at := slices.IndexFunc(documents, func(d string) bool {
			return strings.Contains(d, "\nkind: DaemonSet\n") || strings.Contains(d, "\nkind: Deployment\n")
		})
		for _, want := range []string{"\n      hostNetwork: true\n", "\n              host: 127.0.0.1\n"} {
			if at < 0 || !strings.Contains(documents[at], want) {
				t.Errorf("%s: the DaemonSet or Deployment lacks %q", name, want)
			}
		}
		values["networkPolicy"] = map[string]any{"enabled": true}
		if _, err := (release{chart: name, values: values}).render(); err == nil || !strings.Contains(err.Error(), "networkPolicy.enabled: a NetworkPolicy does not apply") {
			t.Errorf("%s: with a NetworkPolicy: %v", name, err)
		}
	}
	if found < 8 {
		t.Errorf("only %d charts have hostNetwork", found)
	}
}

// TestNodeSelectorOfAllDaemonSets has labels for all agents, and other labels for one of them. Only the part of feature discovery that finds
// GPUs runs on other nodes.
func TestNodeSelectorOfAllDaemonSets(t *testing.T) {
	out, err := release{chart: "outrigger", values: set(t, "orchestrator.enabled=false,daemonsets.nodeSelector.pool=gpus,devicePlugin.nodeSelector.pool=own,devicePlugin.nodeSelector.zone=a")}.render()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for document := range strings.SplitSeq(out, "\n---\n") {
		if !strings.Contains(document, "\nkind: DaemonSet\n") || strings.Contains(document, "name: outrigger-feature-discovery-presence\n") {
			continue
		}
		found++
		want := "      nodeSelector:\n        pool: gpus\n"
		if strings.Contains(document, "name: outrigger-device-plugin\n") {
			want = "      nodeSelector:\n        pool: own\n        zone: a\n"
		}
		if !strings.Contains(document+"\n", want) {
			t.Errorf("a DaemonSet lacks %q:\n%s", want, document)
		}
	}
	if found < 5 {
		t.Errorf("only %d DaemonSets were found", found)
	}
}
