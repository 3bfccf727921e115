package app

import (
	"flag"
	"log/slog"
	"testing"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/agent/cluster"
	"outrigger.dev/pkg/agent/gpuconfig"
)

// The manifests of NVIDIA's GPU Feature Discovery set MIG_STRATEGY, and those of its
// chart also the names of node, namespace and pod.
func TestOutputThatNoFlagSelects(t *testing.T) {
	t.Setenv("MIG_STRATEGY", "none")
	for name, tc := range map[string]struct {
		program, node, useAPI string
		want                  string
	}{
		"our own":                           {"feature-discovery", "node1", "", publishNode},
		"the manifest of the other program": {GFD, "", "", publishFile},
		"its chart":                         {GFD, "node1", "", publishFile},
		"its chart with the API":            {GFD, "node1", "true", publishNodeFeature},
		"its chart without the API":         {GFD, "node1", "false", publishFile},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("NODE_NAME", tc.node)
			if tc.useAPI != "" {
				t.Setenv("GFD_USE_NODE_FEATURE_API", tc.useAPI)
			}
			set := flag.NewFlagSet(tc.program, flag.ContinueOnError)
			all := flags()
			for _, f := range all {
				if err := f.Apply(set); err != nil {
					t.Fatal(err)
				}
			}
			c := cli.NewContext(&cli.App{Flags: all}, set, &cli.Context{Context: t.Context()})
			c.Command = &cli.Command{Flags: all}
			live, err := gpuconfig.Load(c, (*cluster.API)(nil), slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			s := settings{live: live}
			if s.choose(outputOf(tc.program)); s.publish != tc.want {
				t.Errorf("the output is %q, want %q", s.publish, tc.want)
			}
		})
	}
}
