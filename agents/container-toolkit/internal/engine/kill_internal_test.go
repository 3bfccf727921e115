package engine

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
)

// killAt is the variable that makes the test's program configure a host, and kill itself
// before a step: "ROOT ENGINE ACTION STEP".
const killAt = "ENGINE_TEST_KILL_AT"

func TestMain(m *testing.M) {
	if job := os.Getenv(killAt); job != "" {
		killed(strings.Fields(job))
		return
	}
	os.Exit(m.Run())
}

// recordLine is how the line of a record begins in a snapshot.
const recordLine = "var/lib/nvidia-container-toolkit/engine/"

// killed does a job, and kills its own process before the step.
func killed(job []string) {
	root, action := job[0], job[2]
	stop, _ := strconv.Atoi(job[3])
	c := Config{
		Engine: Name(job[1]), HostRoot: root, ProcRoot: filepath.Join(root, "proc"), SetAsDefault: true, Modes: true,
		RuntimePath: "/usr/local/nvidia/toolkit/nvidia-container-runtime",
	}
	k, err := New(c, slog.New(slog.DiscardHandler))
	if err != nil {
		os.Exit(3)
	}
	k.version = mergesTables()
	k.step = func(string) {
		if stop == 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		stop--
	}
	if action == "undo" {
		_, err = k.Undo(context.Background())
	} else {
		_, err = k.Apply(context.Background())
	}
	if err != nil {
		os.Exit(3)
	}
}

// TestKilledAtEachStep kills a process before each step, and completes or takes back what
// it began.
func TestKilledAtEachStep(t *testing.T) {
	configs := map[Name]map[string]string{
		Docker:     {dockerConfig: "{\n  \"debug\": true\n}"},
		Containerd: {containerdConfig: "version = 2\nroot = \"/x\" # big\n[plugins.\"io.containerd.grpc.v1.cri\"]\nenable_selinux = true"},
		CRIO:       {},
	}
	for engine, files := range configs {
		for _, action := range []string{"apply", "change", "undo"} {
			for _, then := range []string{"apply", "undo"} {
				t.Run(string(engine)+" "+action+", then "+then, func(t *testing.T) {
					for step := 0; killAtStep(t, engine, files, action, then, step); step++ {
						assert.Assert(t, step < 20)
					}
				})
			}
		}
	}
}

// killAtStep reports false if the process ended before the step.
func killAtStep(t *testing.T, engine Name, files map[string]string, action, then string, step int) bool {
	n := newNode(t)
	n.version = mergesTables()
	for path, text := range files {
		n.put(path, text)
	}
	before := n.snapshot()
	c := n.config(engine)
	c.SetAsDefault = true
	good := func() string {
		n.apply(c)
		out := n.snapshot()
		n.undo(c)
		// What the record says about time differs.
		out, _, _ = strings.Cut(out, recordLine)
		return out
	}()
	assert.Equal(t, n.snapshot(), before)
	if action == "undo" {
		n.apply(c)
	}
	if action == "change" {
		other := c
		other.RuntimePath, other.SetAsDefault = "/usr/bin/nvidia-container-runtime", false
		n.apply(other)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), killAt+"="+strings.Join([]string{n.root, string(engine), action, strconv.Itoa(step)}, " "))
	out, err := cmd.CombinedOutput()
	if err != nil {
		status, ok := errors.AsType[*exec.ExitError](err)
		assert.Assert(t, ok && status.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL, "%v: %s", err, out)
	}
	if then == "undo" {
		n.undo(c)
	} else {
		n.apply(c)
		now, _, _ := strings.Cut(n.snapshot(), recordLine)
		assert.Equal(t, cmp.Diff(good, now), "", "killed before step %d", step)
		n.undo(c)
	}
	assert.Equal(t, cmp.Diff(before, n.snapshot()), "", "killed before step %d", step)
	return err != nil
}
