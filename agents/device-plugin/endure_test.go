package main

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What happens to a plugin over months leaves nothing behind in it, nor in the
// kubelet.
func TestEndures(t *testing.T) {
	n := newNode(t, "--gpus", "2")
	p := start(t, n)
	p.wait(2, 0)
	p.said("ready: devices")
	// The first time of each makes what stays.
	p.sighup(1)
	p.removeSocket()
	p.restartKubelet(1)
	files, routines := p.gauge("process_open_fds"), p.gauge("go_goroutines")

	for i := range 50 {
		p.sighup(i + 2)
	}
	for range 50 {
		p.removeSocket()
	}
	if got := len(p.kubelet.Registrations()); got != 2 {
		t.Errorf("%d registrations with two kubelets, want 2", got)
	}
	if got := p.kubelet.Streams(resource); got != 1 {
		t.Errorf("%d streams are open, want 1", got)
	}
	for i := range 20 {
		p.restartKubelet(i + 2)
	}
	p.wait(2, 0)
	if got := p.kubelet.Streams(resource); got != 1 {
		t.Errorf("%d streams are open after 20 kubelets, want 1", got)
	}
	p.falls("process_open_fds", files)
	p.falls("go_goroutines", routines)
	if log := p.log.String(); strings.Contains(log, "level=WARN") {
		t.Error("the log has a warning, although all is as it should be")
	}
}

// GPUs that become sick and well again, and containers that come and go, leave
// nothing behind. "make soak" does it for longer, and looks at the memory.
func TestEnduresSickness(t *testing.T) {
	n := newNode(t, "--gpus", "4")
	p := start(t, n)
	devices := p.wait(4, 0)
	p.said("ready: devices")
	sickness := func() {
		n.run(t, "set", "0.recovery=reset", "2.recovery=reset", "3.recovery=reset")
		p.wait(1, 3)
		n.run(t, "xid", "2", "95")
		n.run(t, "set", "0.recovery=none", "2.recovery=none", "3.recovery=none")
		p.wait(4, 0)
	}
	sickness()
	files, routines := p.gauge("process_open_fds"), p.gauge("go_goroutines")
	for i := range 30 {
		sickness()
		for range 20 {
			if _, err := p.kubelet.Allocate(deadline(t), resource, devices[i%4].GetID()); err != nil {
				t.Fatal(err)
			}
		}
	}
	p.falls("process_open_fds", files)
	p.falls("go_goroutines", routines)
}

// sighup sends the n-th SIGHUP, and waits until it was acted upon.
func (p *process) sighup(n int) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		p.t.Fatal(err)
	}
	p.poll("SIGHUP", func() bool { return strings.Count(p.log.String(), "msg=reloading") == n })
}

func (p *process) removeSocket() {
	p.t.Helper()
	path := p.path("sockets/nvidia-gpu.sock")
	if err := os.Remove(path); err != nil {
		p.t.Fatal(err)
	}
	p.poll("the socket", func() bool {
		_, err := os.Lstat(path)
		return err == nil
	})
}

// restartKubelet starts the n-th kubelet after the first.
func (p *process) restartKubelet(n int) {
	p.t.Helper()
	if err := p.kubelet.Restart(); err != nil {
		p.t.Fatal(err)
	}
	if _, err := p.kubelet.WaitRegistrations(deadline(p.t), n+1); err != nil {
		p.t.Fatal(err)
	}
	p.wait(2, 0)
}

// gauge reads one value of /metrics.
func (p *process) gauge(name string) int {
	p.t.Helper()
	found := regexp.MustCompile(`(?m)^` + name + ` (\d+)$`).FindStringSubmatch(p.get("/metrics"))
	if found == nil {
		p.t.Fatalf("/metrics lacks %s", name)
	}
	v, err := strconv.Atoi(found[1])
	if err != nil {
		p.t.Fatal(err)
	}
	return v
}

// falls waits until a value of /metrics is at most limit.
func (p *process) falls(name string, limit int) {
	p.t.Helper()
	p.poll(name+" to be "+strconv.Itoa(limit), func() bool { return p.gauge(name) <= limit })
}

// poll waits until ok holds.
func (p *process) poll(what string, ok func() bool) {
	p.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := deadline(p.t); !ok(); {
		select {
		case <-end.Done():
			p.t.Fatalf("waited in vain for %s", what)
		case <-tick.C:
		}
	}
}
