package app

import (
	"log/slog"
	"testing"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/cluster"
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
			s := &settings{fallback: outputOf(tc.program)}
			app := newApp(s)
			app.New = func(c *cli.Context, log *slog.Logger) (_ *agent.Agent, err error) {
				if s.live, err = s.gpus.Load(c.Context, (*cluster.API)(nil), log); err == nil {
					s.selectOutput()
				}
				return &agent.Agent{}, err
			}
			if code := agent.Exec(t.Context(), app, []string{tc.program, "--listen="}, t.Output(), t.Output()); code != 0 || s.publish != tc.want {
				t.Errorf("exit code %d, the output is %q, want %q", code, s.publish, tc.want)
			}
		})
	}
}
