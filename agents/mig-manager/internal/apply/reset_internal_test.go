package apply

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// TestRunUntil: a program that not even SIGKILL ends does not hold up the caller.
func TestRunUntil(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sleep", "60")
	assert.ErrorIs(t, runUntil(cmd, 10*time.Millisecond), context.DeadlineExceeded)
	assert.NilError(t, runUntil(exec.CommandContext(t.Context(), "true"), time.Minute))
}
