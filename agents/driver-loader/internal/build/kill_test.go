package build_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/build"
	"outrigger.dev/agents/driver-loader/internal/cache"
	"outrigger.dev/agents/driver-loader/internal/payload"
	"outrigger.dev/agents/driver-loader/internal/progress"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/pace"
)

// TestBuildToBeKilled is the process that TestABuildGoesOnAfterAKill kills.
func TestBuildToBeKilled(t *testing.T) {
	store := os.Getenv("BUILD_IN_STORE")
	if store == "" {
		return // another test starts it
	}
	b, r := buildIn(t, store)
	b.Progress = func(p progress.Progress) { fmt.Println("step", p.Step, p.Done) }
	if _, err := b.Build(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

// buildIn returns the build of the stand-ins in a store.
func buildIn(t *testing.T, store string) (*build.Builder, build.Request) {
	t.Helper()
	root, release := headersOf(t)
	b := newBuilder(t, root)
	b.Places.Store = store
	return b, build.Request{Release: release, Machine: "x86_64", Payload: sources(t, store, standIns), Flavour: payload.Open, Exclude: allButNVIDIA}
}

// killAt starts a build in another process, and kills that when it has printed a line.
func killAt(t *testing.T, store, line string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestBuildToBeKilled$", "-test.v") //nolint:gosec // this test
	cmd.Env = append(os.Environ(), "BUILD_IN_STORE="+store, "TMPDIR="+t.TempDir())
	out, err := cmd.StdoutPipe()
	assert.NilError(t, err)
	assert.NilError(t, cmd.Start())
	seen := false
	for lines := bufio.NewScanner(out); !seen && lines.Scan(); {
		seen = lines.Text() == line
	}
	cancel() // with SIGKILL
	// It may have come to its end before.
	if err := cmd.Wait(); !seen {
		t.Errorf("the build did not print %q: %v", line, err)
	}
}

// The tests of package staging have a process that ends while it stores.
func TestABuildGoesOnAfterAKill(t *testing.T) {
	store := t.TempDir()
	b, r := buildIn(t, store)
	killAt(t, store, "step compile 3")
	h, err := b.Places.Headers(r.Release)
	assert.NilError(t, err)
	c := cache.Cache{Dir: store}
	if _, err := c.Find(t.Context(), r.Key(h.Compiler)); !errors.Is(err, cache.ErrNotFound) {
		t.Error(err)
	}
	set, err := again(t, b, r)
	assert.NilError(t, err)
	if _, err := c.Find(t.Context(), set.Key); err != nil {
		t.Error(err)
	}
	if left, err := filepath.Glob(store + "/*/.new-*"); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// again builds again. Compilers of the killed build may still write for a moment, which is
// an error that goes away.
func again(t *testing.T, b *build.Builder, r build.Request) (cache.Set, error) {
	t.Helper()
	ctx := agenttest.Deadline(t)
	for {
		set, err := b.Build(t.Context(), r)
		if err == nil || !strings.Contains(err.Error(), "directory not empty") {
			return set, err
		}
		if !pace.Pause(ctx, 10*time.Millisecond) {
			return set, err
		}
	}
}
