package charts_test

import (
	"os"
	"regexp"
	"testing"
)

var (
	helpVariable  = regexp.MustCompile(`\$([A-Z_]+)`)
	chartVariable = regexp.MustCompile(`(?m)^ +- name: ([A-Z_]+)$`)
)

// TestAgentsKnowEveryVariableOfTheirChart holds the charts to what the agents
// print with --help: a variable of another name would have no effect.
func TestAgentsKnowEveryVariableOfTheirChart(t *testing.T) {
	for chart, tc := range map[string]struct {
		// args are beside the values of everything.values.yaml.
		args []string
		// least is how many variables the chart has with them.
		least int
	}{
		"device-plugin": {
			args:  []string{"--set", "env=null,config.name=x,config.default=y,resourceConfig=gpu:gpu:2,mps.enabled=true"},
			least: 20,
		},
		"feature-discovery": {
			args:  []string{"--set", "env=null,presence.env=null,config.name=x,config.default=y,resourceConfig=gpu:gpu:2,publish=nodefeature"},
			least: 20,
		},
	} {
		t.Run(chart, func(t *testing.T) {
			help, err := os.ReadFile("../agents/" + chart + "/internal/app/testdata/help.golden")
			if err != nil {
				t.Fatal(err)
			}
			// What a container runtime of NVIDIA's reads is no flag.
			known := map[string]bool{"NVIDIA_VISIBLE_DEVICES": true}
			for _, found := range helpVariable.FindAllStringSubmatch(string(help), -1) {
				known[found[1]] = true
			}
			out, err := render(t, append([]string{chart, "--values", "testdata/" + chart + "/everything.values.yaml"}, tc.args...)...)
			if err != nil {
				t.Fatalf("helm template: %v\n%s", err, out)
			}
			used := chartVariable.FindAllStringSubmatch(out, -1)
			if len(used) < tc.least {
				t.Fatalf("the pattern finds only %d variables", len(used))
			}
			for _, found := range used {
				if !known[found[1]] {
					t.Errorf("the agent has no flag with the variable %s", found[1])
				}
			}
		})
	}
}
