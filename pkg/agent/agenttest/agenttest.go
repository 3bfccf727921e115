// Package agenttest runs an agent as a process, for tests of its log, its exit code,
// signals, and the C ABI on a simulated node. The process is the test binary, which
// becomes the agent.
package agenttest

import (
	"context"
	"fmt"
	"os"
	"sync"
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

// Run runs a function until the test ends or stop is called. It checks that the function then returns
// no error.
func Run(t testing.TB, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the run ended with %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// ShortDir returns a folder for sockets, whose paths have a limit: the path of t.TempDir can be too long.
// The folder is removed after the test.
func ShortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "test") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// limit is the time limit of every wait of a test.
const limit = 5 * time.Minute

// Deadline returns a context with the time limit of a wait of a test.
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
