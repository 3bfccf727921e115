package loader_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/loader"
	"outrigger.dev/agents/driver-loader/internal/payload/payloadtest"
	"outrigger.dev/pkg/cause"
)

// nouveau makes nouveau the driver of the node's GPU, with a number of uses.
func nouveau(t *testing.T, cfg loader.Config, uses string) {
	t.Helper()
	sys := cfg.Kernel.Sys
	assert.NilError(t, os.RemoveAll(filepath.Join(sys, "module/nvidia")))
	for path, content := range map[string]string{"initstate": "live\n", "refcnt": uses + "\n"} {
		payloadtest.Write(t, filepath.Join(sys, "module/nouveau", path), content, 0o644)
	}
	bus := filepath.Join(sys, "bus/pci/devices/0000:17:00.0")
	assert.NilError(t, os.Symlink("../../../bus/pci/drivers/nouveau", filepath.Join(bus, "driver")))
	// The device has the numbers of /dev/null here.
	payloadtest.Write(t, filepath.Join(bus, "drm/card0/dev"), "1:3\n", 0o644)
	payloadtest.Write(t, filepath.Join(bus, "graphics/fb0/dev"), "29:0\n", 0o644)
	payloadtest.Write(t, filepath.Join(sys, "class/vtconsole/vtcon1/name"), "(M) frame buffer device\n", 0o644)
	payloadtest.Write(t, filepath.Join(sys, "class/vtconsole/vtcon1/bind"), "1\n", 0o644)
}

func TestWhoUsesNouveauIsNamed(t *testing.T) {
	cfg := useHostDriver(t)
	stocked(t, cfg)
	nouveau(t, cfg, "2")
	opens(t, cfg, "812", "Xorg", "/dev/null")
	step := loader.New(cfg, "x86_64").Settle(t.Context())
	if step.Kind != loader.Wait || len(step.Causes) != 1 || step.Causes[0].Code != cause.OtherDriverBound {
		t.Fatalf("%s %v", step, step.Causes)
	}
	for _, part := range []string{"it is bound to the driver nouveau", "the console, on fb0", "Xorg (pid 812), which has /dev/null open", "modprobe.blacklist=nouveau"} {
		if all := step.Causes[0].Text + step.Causes[0].Fix; !strings.Contains(all, part) {
			t.Errorf("no %q in: %s", part, all)
		}
	}
}

func TestNouveauIsNotUnloadedForADriverThatTheKernelWouldReject(t *testing.T) {
	cfg := useHostDriver(t)
	stocked(t, cfg)
	nouveau(t, cfg, "0")
	staysFor(t, cfg, cause.ModuleWrongRelease)
}
