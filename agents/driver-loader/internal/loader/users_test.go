package loader_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/loader"
	"outrigger.dev/agents/driver-loader/internal/payload/payloadtest"
	"outrigger.dev/pkg/cause"
)

// opens writes a process that has files open.
func opens(t *testing.T, cfg loader.Config, pid, command string, files ...string) {
	t.Helper()
	dir := filepath.Join(cfg.Kernel.Proc, pid)
	payloadtest.Write(t, filepath.Join(dir, "comm"), command+"\n", 0o644)
	payloadtest.Write(t, filepath.Join(dir, "maps"), "", 0o644)
	assert.NilError(t, os.Mkdir(filepath.Join(dir, "fd"), 0o755))
	for i, file := range files {
		assert.NilError(t, os.Symlink(file, filepath.Join(dir, "fd", strconv.Itoa(i))))
	}
}

func TestAgentsAreNotDisturbedWhileAPodUsesTheDriver(t *testing.T) {
	cfg := useHostDriver(t)
	p := stocked(t, cfg)
	lease := filepath.Join(cfg.Contract.Root, "leases/nvml")
	payloadtest.Write(t, lease, "", 0o644)
	// The devices of the driver have the major number of /dev/null here.
	payloadtest.Write(t, filepath.Join(cfg.Kernel.Proc, "devices"), "Character devices:\n195 nvidia\n195 nvidiactl\n  1 nvidia-uvm\n", 0o644)
	payloadtest.Write(t, filepath.Join(cfg.Kernel.Proc, "driver/nvidia/version"), "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  1.0  Release Build\n", 0o644)
	payloadtest.Write(t, filepath.Join(cfg.Kernel.Proc, "driver/nvidia/params"), "DeviceFileMode: 438\n", 0o644)
	payloadtest.Write(t, filepath.Join(cfg.Store, "journal.json"),
		`{"change": {"from": {"version": "1.0", "flavour": "open"}, "to": {"version": "2.0", "flavour": "open", "digest": "`+p.Digest+`"}}}`, 0o600)
	opens(t, cfg, "4711", "python3", "/dev/null")
	opens(t, cfg, "4712", "device-plugin", "/dev/null", lease)
	opens(t, cfg, "4713", "nvidia-persiste", "/dev/null")
	step := loader.New(cfg, "x86_64").Settle(t.Context())
	if len(step.Causes) != 1 || step.Causes[0].Code != cause.ModuleInUse || !strings.Contains(step.Causes[0].Subject, "python3 (pid 4711)") {
		t.Errorf("%s %v", step, step.Causes)
	}
	if _, err := os.Stat(lease + ".claim"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("NVML was claimed: %v", err)
	}
}
