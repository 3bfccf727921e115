package main

import (
	"testing"
	"time"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu/simtest"
)

// join starts another plugin at the kubelet of p, as a new pod beside an old
// one.
func (p *process) join(n *simtest.Node) *process {
	p.t.Helper()
	q := &process{t: p.t, kubelet: p.kubelet, dir: p.dir}
	q.run(n)
	return q
}

// Two plugins never advertise one GPU: the new plugin waits for the old one, and
// takes over when that has ended.
func TestHandover(t *testing.T) {
	for name, end := range map[string]func(*process){"the old one ends": (*process).Stop, "the old one is killed": (*process).Kill} {
		t.Run(name, func(t *testing.T) {
			n := simtest.New(t, "--gpus", "8")
			old := start(t, n)
			old.wait(8, 0)
			old.Said("ready: devices")
			next := old.join(n)
			next.Said("device is excluded", "is advertised by device-plugin, and is not advertised twice")
			if got := len(old.kubelet.Registrations()); got != 1 {
				t.Fatalf("%d registrations while the old one runs, want 1", got)
			}
			began := time.Now()
			end(old)
			next.Said("ready: devices")
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("it took %v until the new plugin was ready", took)
			}
			next.wait(8, 0)
			if f := next.fact(); f.State != contract.Valid {
				t.Errorf("plugin-ready is %s: %s", f.State, f.Reason)
			}
		})
	}
}
