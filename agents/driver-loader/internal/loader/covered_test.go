package loader_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/loader"
	"outrigger.dev/agents/driver-loader/internal/loader/loadertest"
	"outrigger.dev/agents/driver-loader/internal/optional"
	"outrigger.dev/agents/driver-loader/internal/payload"
	"outrigger.dev/agents/driver-loader/internal/payload/payloadtest"
	"outrigger.dev/agents/driver-loader/internal/stack"
)

// A build that never ends runs while the driver works, and another program mounts over the driver root.
func TestADriverRootIsMountedAgainDuringABuild(t *testing.T) {
	for name, tc := range map[string]struct {
		add     func(t *testing.T, f *factory, script string)
		options stack.Options
	}{
		"of the next driver": {add: func(_ *testing.T, f *factory, script string) { f.driver(two, script) }},
		"of an optional module": {options: stack.Options{GDRCopy: true}, add: func(t *testing.T, f *factory, script string) {
			t.Helper()
			dir := filepath.Join(t.TempDir(), "gdrdrv-1")
			payloadtest.Write(t, filepath.Join(dir, "Makefile"), "all:\n\t@"+script+"\n", 0o644)
			_, err := optional.Import(t.Context(), f.cfg.Store, dir)
			assert.NilError(t, err)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFactory(t)
			var log bytes.Buffer
			f.cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
			f.Stock(t, one)
			desired := loader.Desired{Keep: true, Flavour: payload.Open}
			f.cfg.Desired = func() (loader.Desired, error) { return desired, nil }
			loader.New(f.cfg, loadertest.Machine).Settle(t.Context())
			begun := filepath.Join(t.TempDir(), "begun")
			assert.NilError(t, unix.Mkfifo(begun, 0o600))
			tc.add(t, f, "echo > "+begun+"; sleep 600")
			desired.Options = tc.options
			// The agent was restarted, and builds before its first step is done.
			l := loader.New(f.cfg, loadertest.Machine)
			shown := func() bool {
				t.Helper()
				roots, err := filepath.Glob(filepath.Join(f.cfg.Store, "drivers", one+"-*", "root"))
				if err != nil || len(roots) != 1 {
					t.Fatal(roots, err)
				}
				is, err := f.cfg.Place.Shown(roots[0])
				assert.NilError(t, err)
				return is
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			settle := func() chan loader.Step {
				done := make(chan loader.Step)
				go func() { done <- l.Settle(ctx) }()
				_, err := os.ReadFile(begun) // when the build has begun
				assert.NilError(t, err)
				return done
			}
			building := settle()
			l.CheckRoot()
			assert.NilError(t, unix.Mount("tmpfs", f.cfg.Place.At, "tmpfs", 0, ""))
			l.CheckRoot()
			if step := <-building; step.Kind != loader.Done || len(step.Causes) > 0 || l.Ready() != nil || shown() {
				t.Errorf("after the build has ended: %s %v, %v, shown: %v", step, step.Causes, l.Ready(), shown())
			}
			building = settle()
			if !shown() || l.Ready() != nil {
				t.Errorf("when the build goes on: shown: %v, %v", shown(), l.Ready())
			}
			l.CheckRoot()
			cancel()
			<-building
			if n := strings.Count(log.String(), "another program has changed the mount"); n != 1 {
				t.Errorf("logged %d times:\n%s", n, log.String())
			}
		})
	}
}
