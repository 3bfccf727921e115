// Package agenttest runs an agent as a process, for tests of what only a process
// shows: its log, its exit code, what signals do, the C ABI on a simulated node.
// The process is the test binary, which becomes the agent, and so has the race
// detector too.
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

// Main is the TestMain of an agent's package main. In a process that a test has
// started it is the agent's main; otherwise it runs the tests, and wants them to
// leave no goroutine behind.
func Main(m *testing.M, main func()) {
	if os.Getenv(asMain) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// limit is how long anything may take before a test gives up.
const limit = 20 * time.Second

// Deadline returns the context of something that a test waits for.
func Deadline(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), limit, fmt.Errorf("not within %s", limit))
	t.Cleanup(cancel)
	return ctx
}

// Poll waits until ok holds. What is the thing waited for, for the error.
func Poll(t testing.TB, what string, ok func() bool) {
	t.Helper()
	PollUntil(Deadline(t), t, what, ok)
}

// PollUntil is Poll for what may take longer: until ctx ends.
func PollUntil(ctx context.Context, t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("waited in vain for %s: %v", what, context.Cause(ctx))
		case <-tick.C:
		}
	}
}
