package process

import (
	"testing"
	"time"
)

func TestCPUOf(t *testing.T) {
	const line = "7 (a ) b) S 1 7 7 0 -1 4194304 100 0 0 0 150 50 0 0 20 0 9 0 100 0 0"
	got, err := cpuOf(line)
	if err != nil || got != 2*time.Second {
		t.Errorf("%s, %v; want 2s", got, err)
	}
	for name, text := range map[string]string{
		"nothing":              "",
		"no more than a name":  "7 (a)",
		"a process that ended": "7 (a) Z 1 7 7 0 -1 4194304 100 0 0 0 150 50 0 0 20 0 9 0 100 0 0",
		"no number":            "7 (a) S 1 7 7 0 -1 4194304 100 0 0 0 x 50 0 0 20 0 9 0 100 0 0",
	} {
		if _, err := cpuOf(text); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
