package ctk_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// refreshUnit returns the unit that writes the CDI spec.
func refreshUnit(t *testing.T) string {
	t.Helper()
	unit, err := os.ReadFile(filepath.Join("..", "..", "packaging", "nvidia-cdi-refresh.service"))
	assert.NilError(t, err)
	return string(unit)
}

// The spec is written on hosts with a module of the driver, whatever the distribution names it.
func TestTheUnitKnowsTheDriversModules(t *testing.T) {
	_, condition, _ := strings.Cut(refreshUnit(t), "\nExecCondition=/bin/grep -qE \"")
	pattern, file, ok := strings.Cut(condition, "\" ")
	if !ok || !strings.HasPrefix(file, "/lib/modules/%v/modules.dep\n") {
		t.Fatalf("the unit has no condition on modules.dep: %.100q", condition)
	}
	for line, want := range map[string]bool{
		"updates/dkms/nvidia.ko:":                                    true,
		"updates/dkms/nvidia.ko.zst: kernel/drivers/video/video.ko":  true,
		"extra/nvidia/nvidia.ko.xz:":                                 true,
		"updates/dkms/nvidia-current.ko:":                            true,
		"updates/dkms/nvidia-current-open.ko.xz:":                    true,
		"updates/dkms/nvidia-tesla.ko:":                              true,
		"updates/dkms/nvidia-tesla-535.ko:":                          true,
		"updates/dkms/nvidia-legacy-390xx.ko:":                       true,
		"kernel/nvidia-580-open/nvidia.ko:":                          true,
		"kernel/drivers/platform/x86/nvidia-wmi-ec-backlight.ko:":    false,
		"kernel/drivers/gpu/drm/nouveau/nouveau.ko:":                 false,
		"kernel/drivers/usb/typec/altmodes/typec_nvidia.ko:":         false,
		"kernel/drivers/i2c/busses/i2c-nvidia-gpu.ko:":               false,
		"kernel/drivers/nvidia/other.ko: kernel/drivers/nvidiafb.ko": false,
	} {
		grep := exec.CommandContext(t.Context(), "grep", "-qE", pattern)
		grep.Stdin = strings.NewReader(line + "\n")
		if err := grep.Run(); (err == nil) != want {
			t.Errorf("%s: the unit runs: %v, want %v", line, err == nil, want)
		}
	}
}

// Engines start containers again at boot, and need the CDI spec for them. They do not wait for a
// driver that hangs: without a limit, a unit of the type oneshot may start for ever.
func TestEnginesStartAfterTheSpec(t *testing.T) {
	unit := refreshUnit(t)
	_, before, _ := strings.Cut(unit, "\nBefore=")
	before, _, _ = strings.Cut(before, "\n")
	for _, engine := range []string{"docker.service", "containerd.service", "crio.service"} {
		if !slices.Contains(strings.Fields(before), engine) {
			t.Errorf("the unit may run after %s: Before=%s", engine, before)
		}
	}
	if !strings.Contains(unit, "\nTimeoutStartSec=") {
		t.Error("the unit has no TimeoutStartSec")
	}
}

// The units of the packages call commands and flags that exist.
func TestUnitsCallWhatExists(t *testing.T) {
	calls := 0
	for line := range strings.Lines(refreshUnit(t)) {
		_, command, ok := strings.Cut(strings.TrimSpace(line), "/usr/bin/nvidia-ctk ")
		if !ok || !strings.HasPrefix(line, "Exec") {
			continue
		}
		calls++
		stdout, stderr, code := run("", append(strings.Fields(command), "--help")...)
		if code != 0 || !strings.Contains(stdout, "OPTIONS:") {
			t.Errorf("nvidia-ctk %s: exit code %d, %s", command, code, stderr)
		}
	}
	if calls != 3 {
		t.Errorf("the unit calls nvidia-ctk %d times, want 3", calls)
	}
}
