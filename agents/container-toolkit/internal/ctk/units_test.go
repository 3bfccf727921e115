package ctk_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The units of the packages call commands and flags that exist.
func TestUnitsCallWhatExists(t *testing.T) {
	unit, err := os.ReadFile(filepath.Join("..", "..", "packaging", "nvidia-cdi-refresh.service"))
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	for line := range strings.Lines(string(unit)) {
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
