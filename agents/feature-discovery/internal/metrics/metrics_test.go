package metrics_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/feature-discovery/internal/metrics"
	"outrigger.dev/agents/feature-discovery/internal/ready"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/nodestate"
)

func condition(status string, reason cause.Code) *nodestate.Condition {
	return &nodestate.Condition{Type: ready.Condition, Status: status, Reason: string(reason)}
}

func TestRecorder(t *testing.T) {
	r := metrics.New()
	if n := testutil.CollectAndCount(r); n != 0 {
		t.Errorf("%d series before anything is known, want none", n)
	}
	r.Desired(nodestate.Desired{Labels: map[string]string{"a": "1"}, Condition: condition(ready.False, cause.DriverNotFound)})
	r.Desired(nodestate.Desired{Labels: map[string]string{"a": "1", "b": "2"}, Condition: condition(ready.True, ready.GPUsReady)})
	r.Configured(nil)
	r.Configured(errors.New("config.yaml: line 3: unknown key"))

	want, err := os.Open("testdata/served.prom")
	assert.NilError(t, err)
	defer want.Close()
	assert.NilError(t, testutil.CollectAndCompare(r, want))
	problems, err := testutil.CollectAndLint(r)
	if err != nil || len(problems) > 0 {
		t.Errorf("problems %v, %v", problems, err)
	}
}

func TestDesired(t *testing.T) {
	for name, tc := range map[string]struct {
		desired nodestate.Desired
		want    string
	}{
		"nothing is known":            {nodestate.Desired{}, ""},
		"the labels are not known":    {nodestate.Desired{Condition: condition(ready.False, cause.DriverNotFound)}, `gpu_ready{reason="DriverNotFound"} 0`},
		"the GPUs have not been read": {nodestate.Desired{Condition: condition(ready.Unknown, cause.Starting)}, `gpu_ready{reason="Starting"} 0`},
		"the node has no labels":      {nodestate.Desired{Labels: map[string]string{}}, "labels 0"},
		"there is no condition":       {nodestate.Desired{Labels: map[string]string{"a": "1"}}, "labels 1"},
		"a reason that is not UTF-8":  {nodestate.Desired{Condition: condition(ready.False, "\xff")}, `gpu_ready{reason="?"} 0`},
	} {
		t.Run(name, func(t *testing.T) {
			r := metrics.New()
			r.Desired(nodestate.Desired{Labels: map[string]string{"of": "before"}, Condition: condition(ready.True, ready.GPUsReady)})
			r.Desired(tc.desired)
			if got := samples(t, r); got != tc.want {
				t.Errorf("metrics %q, want %q", got, tc.want)
			}
		})
	}
}

// samples returns the samples as lines, without the prefix of their names.
func samples(t *testing.T, c prometheus.Collector) string {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	assert.NilError(t, reg.Register(c))
	families, err := reg.Gather()
	assert.NilError(t, err)
	var lines []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			line := strings.TrimPrefix(f.GetName(), "outrigger_feature_discovery_")
			for _, l := range m.GetLabel() {
				line += fmt.Sprintf("{%s=%q}", l.GetName(), l.GetValue())
			}
			lines = append(lines, fmt.Sprintf("%s %g", line, m.GetGauge().GetValue()))
		}
	}
	return strings.Join(lines, "\n")
}
