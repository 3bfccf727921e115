package nodeinit_test

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"outrigger.dev/test/cluster/internal/nodeinit"
	"outrigger.dev/test/cluster/internal/render"
)

// deadline is the time limit of each step, far longer than any needs.
const deadline = 30 * time.Second

// run starts a supervisor of shell scripts, by name, that accepts commands at the socket of
// its spec. It ends with the test.
func run(t *testing.T, scripts map[string]string) (nodeinit.Spec, *nodeinit.Client) {
	t.Helper()
	spec := nodeinit.Spec{Name: "node0", Dir: t.TempDir()}
	if err := os.Mkdir(filepath.Dir(spec.Log("any")), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, script := range scripts {
		spec.Components = append(spec.Components, render.Component{Name: name, Args: []string{"/bin/sh", "-c", script}})
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- nodeinit.Serve(ctx, spec, slog.New(slog.NewTextHandler(t.Output(), nil))) }()
	client := nodeinit.NewClient(spec)
	t.Cleanup(func() {
		for name := range scripts {
			if err := client.Stop(ctx, name); err != nil {
				t.Error(err)
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	eventually(t, "the supervisor answers", func() bool { _, err := client.Status(ctx); return err == nil })
	return spec, client
}

// eventually waits until the condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	limit := time.After(deadline)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-limit:
			t.Fatalf("%s: not within %s", what, deadline)
		case <-tick.C:
		}
	}
}

// status returns the status of the only component.
func status(t *testing.T, c *nodeinit.Client) nodeinit.Status {
	t.Helper()
	all, err := c.Status(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatalf("Status() = %v, %v, want one component", all, err)
	}
	return all[0]
}

func TestComponentIsStartedAndStopped(t *testing.T) {
	_, c := run(t, map[string]string{"web": "exec sleep 600"})
	if s := status(t, c); s.State != nodeinit.Stopped {
		t.Errorf("state before Start = %s", s.State)
	}
	if err := c.Start(t.Context(), "web"); err != nil {
		t.Fatal(err)
	}
	s := status(t, c)
	if s.State != nodeinit.Running || s.RSS == 0 {
		t.Errorf("status after Start = %+v", s)
	}
	if err := c.Start(t.Context(), "web"); err != nil || status(t, c).PID != s.PID {
		t.Errorf("a second Start returned %v, or started a second process", err)
	}
	if err := c.Stop(t.Context(), "web"); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(s.PID, 0); err == nil {
		t.Error("the process still runs after Stop")
	}
	if s := status(t, c); s.State != nodeinit.Stopped || s.Ends != 0 {
		t.Errorf("status after Stop = %+v", s)
	}
}

func TestComponentThatEndsIsRestarted(t *testing.T) {
	spec, c := run(t, map[string]string{"web": "echo started; exec sleep 600"})
	if err := c.Start(t.Context(), "web"); err != nil {
		t.Fatal(err)
	}
	starts := func() int {
		b, err := os.ReadFile(spec.Log("web"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(b), "started\n")
	}
	eventually(t, "the first start is in the log", func() bool { return starts() == 1 })
	first := status(t, c).PID
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the component runs again", func() bool {
		s := status(t, c)
		return s.State == nodeinit.Running && s.PID != first && s.Ends == 1
	})
	eventually(t, "the second start is in the log", func() bool { return starts() == 2 })
}

func TestStoppedComponentIsNotRestarted(t *testing.T) {
	_, c := run(t, map[string]string{"web": "exit 1"})
	if err := c.Start(t.Context(), "web"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the component ends", func() bool { return status(t, c).State == nodeinit.Waiting })
	if err := c.Stop(t.Context(), "web"); err != nil {
		t.Fatal(err)
	}
	if s := status(t, c); s.State != nodeinit.Stopped {
		t.Errorf("state after Stop = %s", s.State)
	}
}

func TestOrphansAreReaped(t *testing.T) {
	// Make this process adopt orphans, as a first process does.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	pidFile := filepath.Join(dir, "pid")
	// The inner shell ends at once, so that sleep becomes an orphan.
	_, c := run(t, map[string]string{"web": "sh -c 'sleep 0.1 & echo $! > " + pidFile + "'; exec sleep 600"})
	if err := c.Start(t.Context(), "web"); err != nil {
		t.Fatal(err)
	}
	var orphan string
	eventually(t, "the orphan starts", func() bool {
		b, err := os.ReadFile(pidFile)
		orphan = strings.TrimSpace(string(b))
		return err == nil && orphan != ""
	})
	eventually(t, "the orphan is reaped", func() bool {
		_, err := os.Stat(filepath.Join("/proc", orphan))
		return errors.Is(err, fs.ErrNotExist)
	})
}

func TestUnknownComponentIsRejected(t *testing.T) {
	_, c := run(t, map[string]string{"web": "exec sleep 600"})
	for name, do := range map[string]func(context.Context, string) error{"start": c.Start, "stop": c.Stop} {
		if err := do(t.Context(), "other"); err == nil || !strings.Contains(err.Error(), "component other: not on this node") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPIDIsTheServersOwn(t *testing.T) {
	_, c := run(t, nil)
	if pid, err := c.PID(t.Context()); err != nil || pid != os.Getpid() {
		t.Errorf("PID() = %d, %v, want %d", pid, err, os.Getpid())
	}
}
