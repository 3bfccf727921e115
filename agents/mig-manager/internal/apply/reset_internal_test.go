package apply

import (
	"context"
	"errors"
	"os/exec"
	"testing"
	"time"
)

// TestRunUntil: a program that not even SIGKILL ends does not hold up the caller.
func TestRunUntil(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sleep", "60")
	if err := runUntil(cmd, 10*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("runUntil() = %v for a program that does not end", err)
	}
	if err := runUntil(exec.CommandContext(t.Context(), "true"), time.Minute); err != nil {
		t.Errorf("runUntil() = %v", err)
	}
}
