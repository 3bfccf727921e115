package main

import (
	"syscall"
	"testing"
	"time"

	"outrigger.dev/pkg/contract"
)

// join starts another plugin at the kubelet of p, as a new pod beside an old
// one.
func (p *process) join(n *node) *process {
	p.t.Helper()
	q := &process{t: p.t, kubelet: p.kubelet, dir: p.dir}
	q.cmd = command(p.t, n, "--kubelet-socket", p.kubelet.Socket(), "--run-root", p.path("run"),
		"--cdi-root", p.path("cdi"), "--listen", "127.0.0.1:0")
	q.log.changed = make(chan struct{})
	q.cmd.Stderr = &q.log
	if err := q.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		if !q.stopped {
			q.stop()
		}
		if p.t.Failed() {
			p.t.Logf("the new plugin's log:\n%s", q.log.String())
		}
	})
	return q
}

// kill ends the plugin without a chance to clean up.
func (p *process) kill() {
	p.t.Helper()
	p.stopped = true
	if err := p.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		p.t.Error(err)
	}
	_ = p.cmd.Wait() // it says that it was killed
}

// A GPU is never offered by two: the new plugin waits for the old one, and goes
// on where that has ended.
func TestHandover(t *testing.T) {
	for name, end := range map[string]func(*process){"the old one ends": (*process).stop, "the old one is killed": (*process).kill} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, "--gpus", "8")
			old := start(t, n)
			old.wait(8, 0)
			old.said("ready: devices")
			next := old.join(n)
			next.said("device is excluded", "is offered by device-plugin, and not offered twice")
			if got := len(old.kubelet.Registrations()); got != 1 {
				t.Fatalf("%d registrations while the old one runs, want 1", got)
			}
			began := time.Now()
			end(old)
			next.said("ready: devices")
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
