package upgrade

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"outrigger.dev/agents/driver-loader/internal/cause"
	"outrigger.dev/agents/driver-loader/internal/eviction"
	"outrigger.dev/pkg/text"
)

const (
	// slice is the longest run of the program: after it the node is looked at again, so that a
	// change of the desired driver or a lost slot ends the wait.
	slice = time.Minute
	// grace is how long the program has to end after a SIGTERM.
	grace = 10 * time.Second
	// maxLine is the most bytes of one line that are read.
	maxLine = 64 << 10
	// maxNamed is how many pods a cause names.
	maxNamed = 5
)

// evict runs the program for the current state.
func (u *Upgrade) evict(ctx context.Context, j Journal, a Action, p Policy, now time.Time) *cause.Cause {
	r := request(a, p)
	r.Node = u.cfg.Client.Node().Name
	limit, run, over := time.Duration(r.TimeoutSeconds)*time.Second, u.cfg.Slice, false
	if limit > 0 {
		left := limit - now.Sub(j.Since)
		over = left <= run
		run = max(min(run, left), time.Second)
	}
	r.TimeoutSeconds = int(run.Round(time.Second) / time.Second)
	lines, code, err := u.program(ctx, r)
	return outcomeOf(r, lines, code, err, over)
}

// request returns what the program is asked to do.
func request(a Action, p Policy) eviction.Request {
	switch a.Kind {
	case WaitForJobs:
		return eviction.Request{Mode: eviction.Await, PodSelector: p.WaitForCompletion.PodSelector, TimeoutSeconds: p.WaitForCompletion.TimeoutSeconds}
	case EvictPods:
		e := p.PodDeletion
		return eviction.Request{Mode: eviction.GPUPods, TimeoutSeconds: e.TimeoutSeconds, Force: e.Force, DeleteEmptyDir: e.DeleteEmptyDir}
	default:
		d := p.Drain
		return eviction.Request{Mode: eviction.AllPods, PodSelector: d.PodSelector, TimeoutSeconds: d.TimeoutSeconds, Force: d.Force, DeleteEmptyDir: d.DeleteEmptyDir}
	}
}

// outcomeOf returns why the run failed, nil if it did not.
func outcomeOf(r eviction.Request, lines map[string]eviction.Line, code int, err error, over bool) *cause.Cause {
	c := cause.Cause{Subject: "pods of node " + r.Node}
	switch {
	case err == nil && code == eviction.ExitDone:
		return nil
	case err == nil && code == eviction.ExitRefused:
		c.Code, c.Text = CodePodsRefused, "they hold GPUs and may not be evicted: "+named(lines, eviction.Refused)
		c.Fix = "delete them, or set force or deleteEmptyDir in upgradePolicy.gpuPodDeletion, or give them the label " + PodSkipLabel + "=true"
	case over && r.Mode == eviction.Await:
		return nil // the upgrade goes on, as with NVIDIA's controller
	case err == nil && code == eviction.ExitTimeout:
		c.Code, c.Text = CodeWaiting, "they have not ended: "+named(lines, eviction.Running, eviction.Blocked, eviction.Evicting)
		c.Fix = "change the PodDisruptionBudget, or delete the pods"
	default:
		c.Code, c.Text = CodeTemporary, fmt.Sprintf("%s ended with code %d: %v", eviction.Program, code, err)
		c.Fix = "read the log of the driver loader"
	}
	if over && c.Code != CodePodsRefused {
		c.Code, c.Text = CodePodsLeft, c.Text+"; the time of upgradePolicy is over"
	}
	return &c
}

// named lists the pods whose last line has one of the events.
func named(lines map[string]eviction.Line, events ...eviction.Event) string {
	var names []string
	for _, pod := range slices.Sorted(maps.Keys(lines)) {
		l := lines[pod]
		if !slices.Contains(events, l.Event) {
			continue
		}
		name := l.Pod
		switch {
		case l.Budget != "":
			name += " (PodDisruptionBudget " + l.Budget + ": " + l.Text + ")"
		case l.Text != "":
			name += " (" + l.Text + ")"
		}
		names = append(names, name)
	}
	if more := len(names) - maxNamed; more > 0 {
		names = append(names[:maxNamed], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// program runs driver-loader-drain, and returns its last line about each pod and its exit code.
func (u *Upgrade) program(ctx context.Context, r eviction.Request) (map[string]eviction.Line, int, error) {
	stdin, err := json.Marshal(r)
	if err != nil {
		return nil, eviction.ExitTemporary, err
	}
	// The kernel kills the program when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, u.cfg.Drain[0], u.cfg.Drain[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(syscall.SIGTERM) }, grace
	var printed text.Tail
	cmd.Stdin, cmd.Stderr = bytes.NewReader(stdin), &printed
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, eviction.ExitTemporary, err
	}
	if err := cmd.Start(); err != nil {
		return nil, eviction.ExitTemporary, fmt.Errorf("start %s: %w", eviction.Program, err)
	}
	lines := u.follow(stdout)
	err = cmd.Wait()
	code := cmd.ProcessState.ExitCode()
	switch code {
	case eviction.ExitDone, eviction.ExitTimeout, eviction.ExitRefused:
		return lines, code, nil
	}
	if last := lastLine(printed.String()); last != "" {
		err = errors.New(last)
	}
	return lines, code, err
}

// follow reads lines until the program closes its output.
func (u *Upgrade) follow(stdout io.Reader) map[string]eviction.Line {
	lines := map[string]eviction.Line{}
	s := bufio.NewScanner(stdout)
	s.Buffer(nil, maxLine)
	for s.Scan() {
		var l eviction.Line
		if err := json.Unmarshal(s.Bytes(), &l); err != nil {
			continue
		}
		lines[l.Pod] = l
		u.cfg.Log.Info("pod of this node", "event", l.Event, "pod", l.Pod, "budget", l.Budget, "text", l.Text)
		if l.Event == eviction.Blocked && u.blocked[l.Pod] != l.Budget {
			u.blocked[l.Pod] = l.Budget
			u.say(true, fmt.Sprintf("the PodDisruptionBudget %s holds the eviction of pod %s: %s", l.Budget, l.Pod, l.Text))
		}
	}
	_, _ = io.Copy(io.Discard, stdout) // a line that is too long ends the scan, not the program
	return lines
}

// lastLine returns the last line of what a program printed.
func lastLine(printed string) string {
	all := strings.Split(strings.TrimSpace(printed), "\n")
	return text.Cut(text.Printable(all[len(all)-1]), maxCause)
}
