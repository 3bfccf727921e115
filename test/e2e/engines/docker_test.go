//go:build e2e

package engines_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestDebiansDockerGivesGPUs gives GPUs to containers of Docker 20.10, which does not know
// CDI.
func TestDebiansDockerGivesGPUs(t *testing.T) {
	n := newToolkitNode(t)
	e := newEngine(t, n)
	t.Run("--gpus", func(t *testing.T) {
		e.gives(t, n, way{options: gpusOption, visible: "1,3", unknown: unknownToHook})
	})
	e.configure(t)
	t.Run("--runtime=nvidia by the prestart hook", func(t *testing.T) {
		e.gives(t, n, way{options: variable, visible: "1,3", unknown: unknownToHook})
	})
	e.generate()
	t.Run("--runtime=nvidia by CDI", func(t *testing.T) {
		e.gives(t, n, way{options: variable, visible: "void", unknown: unknownToCDI})
	})
	e.unconfigure(t)
}

// TestCurrentDockerGivesGPUs gives GPUs to containers of a Docker that knows CDI. It falls
// back to the prestart hook where CDI does not know the GPU.
func TestCurrentDockerGivesGPUs(t *testing.T) {
	n := newToolkitNode(t)
	e := currentDocker(t, n)
	t.Run("--gpus by the prestart hook", func(t *testing.T) {
		e.gives(t, n, way{options: gpusOption, visible: "1,3", unknown: unknownToHook})
	})
	e.generate()
	t.Run("--gpus by CDI", func(t *testing.T) {
		e.gives(t, n, way{options: gpusOption, visible: "void", unknown: unknownToHook})
	})
	t.Run("--device", func(t *testing.T) {
		e.gives(t, n, way{options: device, visible: "void", unknown: unknownToCDI})
	})
	e.configure(t)
	t.Run("--runtime=nvidia", func(t *testing.T) {
		e.gives(t, n, way{options: variable, visible: "void", unknown: unknownToCDI})
	})
	e.unconfigure(t)
}

// TestDockerInUserNamespacesGivesGPUs has containers whose root user is another one on the
// host.
func TestDockerInUserNamespacesGivesGPUs(t *testing.T) {
	n := newToolkitNode(t)
	e := currentDocker(t, n, "--userns-remap=daemon")
	t.Run("--gpus by the prestart hook", func(t *testing.T) {
		e.gives(t, n, way{options: gpusOption, visible: "1,3", unknown: unknownToHook})
	})
	e.generate()
	t.Run("--device", func(t *testing.T) {
		e.gives(t, n, way{options: device, visible: "void", unknown: unknownToCDI})
	})
	e.configure(t)
	t.Run("--runtime=nvidia", func(t *testing.T) {
		e.gives(t, n, way{options: variable, visible: "void", unknown: unknownToCDI})
	})
}

// configure registers the runtime with the running engine, as the documentation says.
func (e *engine) configure(t *testing.T) {
	t.Helper()
	e.run("nvidia-ctk", "runtime", "configure", "--runtime=docker")
	e.run("sh", "-c", "kill -HUP $(cat /run/dk.pid)")
	ctx := deadline(t)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(e.must("info", "--format", "{{json .Runtimes}}"), `"nvidia"`) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("the engine does not load its config: %v", context.Cause(ctx))
		}
	}
}

// unconfigure takes that back, and wants the config as it was.
func (e *engine) unconfigure(t *testing.T) {
	t.Helper()
	e.run("nvidia-ctk", "runtime", "unconfigure", "--runtime=docker")
	now, err := os.ReadFile(filepath.Join(e.dir, "daemon.json"))
	if err != nil || string(now) != e.config {
		t.Errorf("after unconfigure the config is %q, %v; before it was %q", now, err, e.config)
	}
}
