//go:build e2e

package driver_test

import (
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestClock imports drivers while the clock of the node is wrong. The driver that was imported last is loaded, and stays in
// the store.
func TestClock(t *testing.T) {
	guest(t)
	for _, step := range []struct {
		year         int
		before, next string
	}{
		{2040, "", "580.95.12"},
		{2026, "580.95.12", "580.95.13"},
		{1970, "580.95.13", "580.95.12"},
	} {
		now := unix.NsecToTimeval(time.Date(step.year, time.February, 3, 4, 5, 6, 0, time.UTC).UnixNano())
		if err := unix.Settimeofday(&now); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), "driver-loader", "import", "/images/"+step.next).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if step.before != "" {
			// In the desired state, the agent removes drivers that the node does not need.
			has(t, succeeds(t, step.before, "load"), "driver "+step.before+" is ready")
		}
		loaded(t, step.before)
		has(t, succeeds(t, "", "load"), "driver "+step.next+" is ready")
		loaded(t, step.next)
	}
}
