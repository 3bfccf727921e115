package inject_test

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/nri/nritest"
	"outrigger.dev/sim/internal/inject"
)

// rig is a plugin.
type rig struct {
	hook, socket string
	events       chan kube.Event
	// tried has the lines of the log. The plugin writes one after each attempt.
	tried chan string
}

// Write adds a line of the log.
func (r rig) Write(line []byte) (int, error) {
	select {
	case r.tried <- string(line):
	default: // nobody reads it
	}
	return len(line), nil
}

// start runs a plugin of the node at /run/gpu-sim/node until the test ends.
func start(t *testing.T, socket string) rig {
	t.Helper()
	r := rig{filepath.Join(t.TempDir(), "gpu-sim-hook"), socket, make(chan kube.Event, 10), make(chan string, 1)}
	p := inject.New(inject.Config{
		Root: "/run/gpu-sim/node", Hook: r.hook, Socket: socket,
		Event: func(e kube.Event) { r.events <- e }, Log: slog.New(slog.NewTextHandler(io.MultiWriter(t.Output(), r), nil)),
	})
	agenttest.Run(t, p.Run)
	return r
}

func TestContainersGetTheHook(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "nri.sock")
	e := nritest.Start(t, socket)
	r := start(t, socket)
	e.Await(t)
	hook := func(c *api.Container) string {
		t.Helper()
		got, err := e.Create(t.Context(), "ns", "pod", c)
		assert.NilError(t, err)
		assert.Equal(t, len(got.GetMounts())+len(got.GetEnv())+len(got.GetLinux().GetDevices()), 0)
		var hooks []string
		for _, h := range got.GetHooks().GetCreateContainer() {
			assert.DeepEqual(t, h.GetEnv(), []string{"PATH=/usr/bin:/bin"}) // and no variable of the image
			hooks = append(hooks, h.GetPath()+": "+strings.Join(h.GetArgs(), " "))
		}
		return strings.Join(hooks, "\n")
	}
	assert.Equal(t, hook(&api.Container{Name: "main"}), "", "the node has no GPUs")
	assert.NilError(t, os.WriteFile(r.hook, nil, 0o600))
	assert.Equal(t, hook(&api.Container{Name: "main"}), r.hook+": gpu-sim-hook /run/gpu-sim/node")
	assert.Equal(t, hook(&api.Container{Name: "other", Mounts: []*api.Mount{{Source: "/run", Destination: "/host/run"}}}), r.hook+": gpu-sim-hook /run/gpu-sim/node")
	assert.Equal(t, hook(&api.Container{Name: "gpu-sim", Mounts: []*api.Mount{{Source: "/run/gpu-sim", Destination: "/run/gpu-sim"}}}), "", "the agent looks for real GPUs")
	e.Stop()
	assert.Equal(t, len(r.events), 0, "an engine that stops is no engine without NRI")
}

func TestAnEngineWithoutNRI(t *testing.T) {
	r := start(t, filepath.Join(t.TempDir(), "nri.sock"))
	<-r.tried
	assert.Equal(t, len(r.events), 0, "the node has no GPUs")
	assert.NilError(t, os.WriteFile(r.hook, nil, 0o600))
	select {
	case e := <-r.events:
		for _, want := range []string{"do not see the simulated GPUs in their /proc and /sys", "dial unix " + r.socket, "containerd 1.7 with NRI turned on", "nri.enabled=false"} {
			assert.Assert(t, e.Warning && e.Reason == "GPUsNotInContainers" && strings.Contains(e.Message, want), "%s: %s, want %s", e.Reason, e.Message, want)
		}
	case <-agenttest.Deadline(t).Done():
		t.Fatal("no Event")
	}
}

// A user who turns NRI off gets no Event.
func TestWithoutASocket(t *testing.T) {
	p := inject.New(inject.Config{Event: func(e kube.Event) { t.Errorf("an Event: %s", e.Message) }})
	assert.NilError(t, p.Run(t.Context()))
}
