package charts_test

import (
	"strings"
	"testing"
)

// static is a manifest for "kubectl apply", without Helm.
type static struct {
	// header says what the manifest is, above the objects of the chart.
	header string
	values string
	// kinds are how many objects of each kind there are.
	kinds map[string]int
}

var statics = map[string]static{
	"device-plugin": {
		header: `# The device plugin without Helm:
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
`,
		values: "events.enabled=false",
		kinds:  map[string]int{"ServiceAccount": 1, "DaemonSet": 1},
	},
	"feature-discovery": {
		header: `# Feature discovery without Helm, on Kubernetes 1.30 or newer:
#
#   kubectl apply -f feature-discovery.yaml
#
# Its presence part finds the nodes with GPUs and labels them, and the other part
# runs there.
#
# This file is what the chart feature-discovery renders with its defaults. Change
# the chart, and then write it anew with "go test ./... -update" in charts.
`,
		values: "events.enabled=true",
		kinds: map[string]int{
			"ServiceAccount": 2, "ClusterRole": 2, "ClusterRoleBinding": 2, "Role": 1, "RoleBinding": 1, "DaemonSet": 2,
			"ValidatingAdmissionPolicy": 2, "ValidatingAdmissionPolicyBinding": 2,
		},
	},
}

// TestTheStaticManifestsAreWhatTheChartsRender keeps the committed manifests
// equal to the charts, in the namespace in which NVIDIA's manifest is.
func TestTheStaticManifestsAreWhatTheChartsRender(t *testing.T) {
	for chart, tc := range statics {
		t.Run(chart, func(t *testing.T) {
			out, err := render(t, chart, "--namespace", "kube-system", "--set", tc.values+",fullnameOverride="+chart)
			if err != nil {
				t.Fatalf("helm template: %v\n%s", err, out)
			}
			got := tc.header + withoutHelm(out)
			if strings.Contains(strings.ToLower(withoutHelm(out)), "helm") {
				t.Errorf("something speaks of Helm:\n%s", got)
			}
			for kind, want := range tc.kinds {
				if n := strings.Count(got, "\nkind: "+kind+"\n"); n != want {
					t.Errorf("%d of %s, want %d", n, kind, want)
				}
			}
			isAsCommitted(t, "../deployments/static/"+chart+".yaml", got)
		})
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
