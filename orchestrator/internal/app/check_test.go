package app_test

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"outrigger.dev/pkg/agent/agenttest"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	const noEffect = "\nThese values have no effect, or have another default than in NVIDIA's chart:\n"
	for name, c := range map[string]struct {
		values []string
		code   int
		want   string
	}{
		"values that the chart accepts": {[]string{"global: {registry: r.example.org}"}, 0, "The chart accepts the values.\n"},
		"values without effect": {
			[]string{"global: {registry: r.example.org}\ndriver: {enabled: true, repository: nvcr.io/nvidia, version: 580.95.05}\npsp: {enabled: true}"},
			0,
			"The chart accepts the values.\n" + noEffect + "  psp: Kubernetes has no PodSecurityPolicies any more; remove it\n",
		},
		"errors of all places in two files": {
			[]string{
				"global: {registry: 'https://r.example.org'}\ntypo: 1\nmigManager: {config: {default: half}}",
				"dcgm: {enabled: true}\nmigManager: {config: {default: all-disabled}}\npools: [{name: a, nodeSelector: {a: b}, values: {gfd: {typo: 1}}}]",
			},
			1,
			"dcgm.enabled: this release has no DCGM, and dcgmExporter needs none; set it to false\n" +
				"global.registry: \"https://r.example.org\" has a scheme, and names of images have none; set global.registry to r.example.org\n" +
				"pools[0].values.gfd.typo: unknown key; remove it\ntypo: unknown key; remove it\n" +
				noEffect + "  dcgm: dcgmExporter needs no DCGM; remove it\n",
		},
		"two agents whose objects have the same names": {
			[]string{"global: {registry: r.example.org}\ndevicePlugin: {fullnameOverride: x}\ndcgmExporter: {fullnameOverride: x}"},
			1,
			"DaemonSet gpu-operator-resources/x of the stage device-plugin: the stage dcgm-exporter has the same object with other content: " +
				"set another name in the values of one of the stages, or set the values on which it depends outside of the pools\n",
		},
		"pools that overlap": {
			[]string{"global: {registry: r.example.org}\npools: [{name: a, nodeSelector: {x: z}}, {name: b, nodeSelector: {x: z}}]"},
			1,
			"pools a and b overlap: each node with the labels of one has the labels of the other: give both nodeSelectors the same label with different values\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			args := []string{"check"}
			for _, text := range c.values {
				args = append(args, "-f", values(t, text))
			}
			var out, errs strings.Builder
			cmd := agenttest.Command(t, nil, args...)
			cmd.Stdout, cmd.Stderr = &out, &errs
			err := cmd.Run()
			code := 0
			if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
				code = exit.ExitCode()
			}
			if code != c.code || out.String() != c.want {
				t.Errorf("check exits with %d and prints\n%s\nwant %d and\n%s\n%s", code, out.String(), c.code, c.want, errs.String())
			}
			if got := errs.String() != ""; got != (c.code != 0) {
				t.Errorf("its message is %q", errs.String())
			}
		})
	}
}
