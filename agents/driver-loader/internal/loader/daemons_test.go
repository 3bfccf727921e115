package loader_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/loader"
	"outrigger.dev/agents/driver-loader/internal/module"
	"outrigger.dev/pkg/cause"
)

// recorded notes what a loader does with daemons and modules.
type recorded struct {
	sys   string
	calls []string
}

func (r *recorded) note(call string) { r.calls = append(r.calls, call) }

func (r *recorded) Missing() []string { return nil }

func (r *recorded) Start(context.Context) (skipped, err error) {
	r.note("start")
	return nil, nil
}

func (r *recorded) Stop(context.Context) error {
	r.note("stop")
	return nil
}

func (r *recorded) Load(_ context.Context, m *module.Module, _ []string) error {
	r.note("load " + m.Name)
	return nil
}

func (r *recorded) Unload(name string) error {
	r.note("unload " + name)
	return os.RemoveAll(filepath.Join(r.sys, "module", name))
}

func TestDaemonsEndBeforeTheDriverAndRunAgainIfItStays(t *testing.T) {
	for name, tc := range map[string]struct {
		uses, calls string
		code        cause.Code
	}{
		"nothing uses the driver": {"0", "stop, unload nvidia", ""},
		"a process uses it":       {"1", "stop, start", cause.ModuleInUse},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := useHostDriver(t)
			r := &recorded{sys: cfg.Kernel.Sys}
			cfg.Calls, cfg.Daemons = r, r
			assert.NilError(t, os.WriteFile(filepath.Join(cfg.Kernel.Sys, "module/nvidia/refcnt"), []byte(tc.uses+"\n"), 0o600))
			_, err := loader.New(cfg, "x86_64").Unload(t.Context())
			var c cause.Cause
			if errors.As(err, &c); c.Code != tc.code || (err == nil) != (tc.code == "") {
				t.Error(err)
			}
			if got := strings.Join(r.calls, ", "); got != tc.calls {
				t.Errorf("%s, want %s", got, tc.calls)
			}
		})
	}
}

func TestADriverThatStaysIsRestoredWithoutAllProcesses(t *testing.T) {
	cfg := useHostDriver(t)
	r := &recorded{sys: cfg.Kernel.Sys}
	var log bytes.Buffer
	cfg.Calls, cfg.Daemons, cfg.Log = r, r, slog.New(slog.NewTextHandler(&log, nil))
	for _, dir := range []string{cfg.Contract.Root, filepath.Join(cfg.Kernel.Proc, "1/fd"), filepath.Join(cfg.Kernel.Proc, "1/maps")} {
		if err := os.MkdirAll(dir, 0o755); err != nil { // a folder cannot be read as the file maps
			t.Fatal(err)
		}
	}
	assert.NilError(t, os.WriteFile(filepath.Join(cfg.Kernel.Sys, "module/nvidia/refcnt"), []byte("1\n"), 0o600))
	_, err := loader.New(cfg, "x86_64").Unload(t.Context())
	assert.ErrorContains(t, err, "cannot examine a process")
	if strings.Contains(log.String(), "cannot restore") {
		t.Error(log.String())
	}
	if got := strings.Join(r.calls, ", "); got != "stop, start" {
		t.Error(got)
	}
}
