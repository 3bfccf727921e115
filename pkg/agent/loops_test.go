package agent_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"outrigger.dev/pkg/agent"
)

func TestLoopMetricsCountSteps(t *testing.T) {
	metrics := agent.NewLoopMetrics("outrigger_agent")
	metrics.Observe("labels", time.Second, nil)
	metrics.Observe("labels", time.Second, errors.New("no space left on device"))
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(metrics)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			line := f.GetName()
			for _, l := range m.GetLabel() {
				line += fmt.Sprintf(" %s=%s", l.GetName(), l.GetValue())
			}
			if h := m.GetHistogram(); h != nil {
				line += fmt.Sprintf(": %d, %g s", h.GetSampleCount(), h.GetSampleSum())
			} else {
				line += fmt.Sprintf(": %g", m.GetCounter().GetValue())
			}
			got = append(got, line)
		}
	}
	want := []string{
		"outrigger_agent_reconcile_duration_seconds loop=labels: 2, 2 s",
		"outrigger_agent_reconcile_total loop=labels result=error: 1",
		"outrigger_agent_reconcile_total loop=labels result=ok: 1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}
