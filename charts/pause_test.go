package charts

import (
	"strings"
	"testing"
)

// TestAnAgentMayPauseALabelOfTheUser looks for the label in the policies of the agents that pause DaemonSets.
func TestAnAgentMayPauseALabelOfTheUser(t *testing.T) {
	for _, name := range []string{"driver-loader", "mig-manager"} {
		c, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		manifest, err := Render(c, installed(valuesFrom(t, "{env: [{name: A, valueFrom: {}}, {name: NODE_LABEL_FOR_GPU_POD_EVICTION, value: example.org/monitor}]}")))
		if err != nil {
			t.Fatal(err)
		}
		if want := "'nvidia.com/gpu.deploy.nvsm', 'example.org/monitor']"; !strings.Contains(manifest, want) {
			t.Errorf("%s: no policy has %s", name, want)
		}
	}
}
