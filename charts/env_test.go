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

// TestTheDevicePluginKnowsEveryVariableOfItsChart holds the chart to what the
// agent prints with --help: a variable of another name would have no effect.
func TestTheDevicePluginKnowsEveryVariableOfItsChart(t *testing.T) {
	help, err := os.ReadFile("../agents/device-plugin/internal/app/testdata/help.golden")
	if err != nil {
		t.Fatal(err)
	}
	// What a container runtime of NVIDIA's reads is no flag.
	known := map[string]bool{"NVIDIA_VISIBLE_DEVICES": true}
	for _, found := range helpVariable.FindAllStringSubmatch(string(help), -1) {
		known[found[1]] = true
	}
	out, err := render(t, "device-plugin", "--values", "testdata/device-plugin/everything.values.yaml",
		"--set", "env=null,config.name=x,config.default=y,resourceConfig=gpu:gpu:2,mps.enabled=true")
	if err != nil {
		t.Fatalf("helm template: %v\n%s", err, out)
	}
	used := chartVariable.FindAllStringSubmatch(out, -1)
	if len(used) < 20 {
		t.Fatalf("the pattern finds only %d variables", len(used))
	}
	for _, found := range used {
		if !known[found[1]] {
			t.Errorf("the agent has no flag with the variable %s", found[1])
		}
	}
}
