package main

import (
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A process that NVML does not let go of ends in time, and says why.
func TestEndsWhileNVMLHangs(t *testing.T) {
	for name, atStart := range map[string]bool{"from the start": true, "while events are waited for": false} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, "--gpus", "2")
			if atStart {
				n.run(t, "set", "latency=1h")
			}
			p := start(t, n)
			want := "nvmlInit_v2 has not answered"
			if atStart {
				p.said("msg=serving")
			} else {
				p.wait(2, 0)
				p.said("ready: devices")
				n.run(t, "set", "latency=1h")
				n.run(t, "calls", "--reset")
				want = "nvmlEventSetWait_v2 has not answered"
			}
			n.called(t)
			if body := p.get("/healthz"); body != "nvml: ok\nok\n" {
				t.Errorf("/healthz says %q of a call that has just begun", body)
			}
			p.dies(want)
			if got := files(t, p.path("sockets")); len(got) != 1 {
				t.Errorf("after the end the folder of sockets has %v", got)
			}
		})
	}
}

// called waits for a call of NVML.
func (n *node) called(t *testing.T) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := deadline(t); !strings.Contains(string(n.run(t, "calls")), "nvml"); {
		select {
		case <-tick.C:
		case <-end.Done():
			t.Fatal("NVML was not called")
		}
	}
}

// dies stops the plugin, and wants it to end in time with an error that says why.
func (p *process) dies(why string) {
	p.t.Helper()
	p.stopped = true
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	begin := time.Now()
	err := p.cmd.Wait()
	if took := time.Since(begin); took > 2*time.Second {
		p.t.Errorf("the plugin took %s to end, want at most 2 s", took)
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		p.t.Errorf("the plugin ended with %v, want exit code 1", err)
	}
	log := p.log.String()
	_, last, _ := strings.Cut(log, "level=ERROR")
	if strings.Count(log, "level=ERROR") != 1 || strings.Count(last, "\n") != 1 || !strings.Contains(last, why) {
		p.t.Errorf("want one line that says %q at the end of the log", why)
	}
	if strings.Contains(log, "goroutine ") {
		p.t.Error("the log has the stacks of goroutines")
	}
}
