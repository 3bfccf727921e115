package app

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/mig-manager/internal/clients"
	"outrigger.dev/agents/mig-manager/internal/manager"
	"outrigger.dev/pkg/agent/driver"
	"outrigger.dev/pkg/contract"
)

// TestUnitsThatStayedStopped: the flags that let the agent stop units may be gone when it starts
// again.
func TestUnitsThatStayedStopped(t *testing.T) {
	dir := t.TempDir()
	boot := filepath.Join(dir, "boot_id")
	assert.NilError(t, os.WriteFile(boot, []byte("6f1c\n"), 0o600))
	r := &running{settings: &settings{stateDir: dir}, driver: &driver.Driver{Contract: contract.Dir{Root: dir, BootIDFile: boot}}, log: slog.New(slog.DiscardHandler)}
	var cfg manager.Config
	if err := r.hostUnits(clients.Systemd{}, &cfg); err != nil || cfg.Units != nil {
		t.Fatalf("hostUnits() = %v, %v, want no units without flags", cfg.Units, err)
	}
	const left = `{"bootID": "6f1c", "stopped": ["nvsm.service"]}`
	assert.NilError(t, os.WriteFile(filepath.Join(dir, "clients.json"), []byte(left), 0o600))
	if err := r.hostUnits(clients.Systemd{}, &cfg); err != nil || cfg.Units == nil {
		t.Fatalf("hostUnits() = %v, %v, want those that are to be started", cfg.Units, err)
	}
}
