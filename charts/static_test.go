package charts_test

import (
	"os"
	"strings"
	"testing"
)

// staticManifest is the device plugin for "kubectl apply", without Helm.
const staticManifest = "../deployments/static/device-plugin.yaml"

const staticHeader = `# The device plugin without Helm:
#
#   kubectl apply -f device-plugin.yaml
#
# It runs on nodes with one of the labels below, for example
#
#   kubectl label node NODE nvidia.com/gpu.present=true
#
# This file is what the chart device-plugin renders without Events, for which it
# would need rights in the cluster. Change the chart, and then write it anew with
# "go test ./... -update" in charts.
`

// TestTheStaticManifestIsWhatTheChartRenders keeps the committed manifest equal
// to the chart, in the namespace in which NVIDIA's manifest is.
func TestTheStaticManifestIsWhatTheChartRenders(t *testing.T) {
	out, err := render(t, "device-plugin", "--namespace", "kube-system", "--set", "events.enabled=false,fullnameOverride=device-plugin")
	if err != nil {
		t.Fatalf("helm template: %v\n%s", err, out)
	}
	got := staticHeader + withoutHelm(out)
	for _, kind := range []string{"kind: ServiceAccount\n", "kind: DaemonSet\n"} {
		if strings.Count(got, kind) != 1 {
			t.Errorf("not one %s", kind)
		}
	}
	if strings.Count(got, "\nkind: ") != 2 || strings.Contains(strings.ToLower(withoutHelm(out)), "helm") {
		t.Errorf("there is more than the DaemonSet and its ServiceAccount:\n%s", got)
	}
	if *update {
		if err := os.WriteFile(staticManifest, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(staticManifest)
	if err != nil {
		t.Fatal(err)
	}
	if line, w, g := firstDifference(string(want), got); line > 0 {
		t.Errorf("%s:%d (-want +got), write it anew with: go test ./... -update\n-%s\n+%s", staticManifest, line, w, g)
	}
}

// withoutHelm takes out of rendered objects what says that Helm manages them.
func withoutHelm(rendered string) string {
	var out strings.Builder
	for line := range strings.Lines(rendered) {
		text := strings.TrimSpace(line)
		if strings.HasPrefix(text, "helm.sh/") || strings.HasPrefix(text, "# Source: ") ||
			text == "app.kubernetes.io/managed-by: Helm" {
			continue
		}
		out.WriteString(line)
	}
	return out.String()
}
