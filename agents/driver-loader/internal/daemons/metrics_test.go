package daemons_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"

	"outrigger.dev/agents/driver-loader/internal/daemons"
)

// served returns the metric of each daemon.
func (n *node) served() map[string]float64 {
	n.t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(daemons.NewMetrics(n.Supervisor))
	families, err := registry.Gather()
	if err != nil {
		n.t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			out[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
		}
	}
	return out
}

// The metric shows each needed daemon, whether the agent starts it again or continues without it.
func TestTheMetricShowsDaemonsThatDoNotRun(t *testing.T) {
	n := newNode(t)
	want := func(daemons map[string]float64) {
		t.Helper()
		if d := cmp.Diff(daemons, n.served(), cmpopts.EquateEmpty()); d != "" {
			t.Errorf("metrics (-want +got):\n%s", d)
		}
	}
	want(nil)
	n.write("root/usr/bin/nvidia-persistenced", "#!/bin/sh\nexit 1\n", 0o755)
	if skipped, err := n.Start(t.Context()); skipped == nil || err != nil {
		t.Fatalf("Start() = %v, %v; want a skipped daemon", skipped, err)
	}
	n.missing()
	want(map[string]float64{"nvidia-persistenced": 0})
	n.write("proc/driver/nvidia-nvswitch/devices/0000:c1:00.0", "", 0o644)
	want(map[string]float64{"nvidia-persistenced": 0, "nv-fabricmanager": 0})
	n.write("root/usr/share/nvidia/nvswitch/fabricmanager.cfg", "LOG_LEVEL=4\n", 0o644)
	n.daemon("nv-fabricmanager", fabric)
	n.starts()
	want(map[string]float64{"nvidia-persistenced": 0, "nv-fabricmanager": 1})
}
