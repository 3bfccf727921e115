// Package agenttest runs an agent as a process, for tests of its log, its exit code,
// signals, and the C ABI on a simulated node. The process is the test binary, which
// becomes the agent.
package agenttest

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// asMain makes the test binary the agent.
const asMain = "AGENTTEST_AS_MAIN"

// Main is the TestMain of an agent's package main. It runs main in a process that a test started.
// Otherwise it runs the tests and checks that they leak no goroutine.
func Main(m *testing.M, main func()) {
	if os.Getenv(asMain) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// limit is the time limit of every wait of a test.
const limit = 5 * time.Minute

// Deadline returns a context that limits a wait of a test to one minute.
func Deadline(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), limit, fmt.Errorf("not within %s", limit))
	t.Cleanup(cancel)
	return ctx
}

// Poll waits until ok returns true. The parameter what describes the condition in the error.
func Poll(t testing.TB, what string, ok func() bool) {
	t.Helper()
	PollUntil(Deadline(t), t, what, ok)
}

// PollUntil is Poll with the limit of ctx.
func PollUntil(ctx context.Context, t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("timed out waiting for %s: %v", what, context.Cause(ctx))
		case <-tick.C:
		}
	}
}
