package loader_test

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/loader"
	"outrigger.dev/agents/driver-loader/internal/loader/loadertest"
	"outrigger.dev/agents/driver-loader/internal/optional"
	"outrigger.dev/agents/driver-loader/internal/payload/payloadtest"
	"outrigger.dev/agents/driver-loader/internal/stack"
	"outrigger.dev/pkg/cause"
)

// rejecting is a node whose compiler rejects the module gdrdrv.
type rejecting struct {
	loadertest.Node
	// headers has the headers of the kernel, and programs the compiler.
	headers, programs string
	// runs is the path of a file that gets a line from each build.
	runs string
}

func newRejecting(t *testing.T) rejecting {
	n := loadertest.New(t)
	n.Optional = true
	n.Stock(t, one)
	const release = "6.1.0-1-amd64"
	r := rejecting{Node: n, headers: filepath.Join(n.Dir, "host/usr/src/linux-headers-"+release), programs: t.TempDir(), runs: filepath.Join(t.TempDir(), "runs")}
	for name, content := range map[string]string{
		"Makefile": "all:\n", "scripts/Makefile.build": "", "include/linux/module.h": "", ".config": "CONFIG_CC_VERSION_TEXT=\"gcc-12 (Debian 12.2.0-14) 12.2.0\"\n",
		"include/generated/utsrelease.h": "#define UTS_RELEASE \"" + release + "\"\n",
	} {
		payloadtest.Write(t, filepath.Join(r.headers, name), content, 0o644)
	}
	r.compiler(t, "12.2.0")
	t.Setenv("PATH", r.programs+":"+os.Getenv("PATH"))
	source := filepath.Join(t.TempDir(), "gdrdrv-1")
	payloadtest.Write(t, filepath.Join(source, "Makefile"), "all:\n\t@echo run >> "+r.runs+"; echo 'gdrdrv.c:1:1: error: no such type'; exit 1\n", 0o644)
	sources, err := optional.Import(t.Context(), filepath.Join(n.Dir, "store"), source)
	if err != nil || len(sources) != 1 {
		t.Fatal(sources, err)
	}
	return r
}

func (r rejecting) compiler(t *testing.T, version string) {
	t.Helper()
	payloadtest.Write(t, filepath.Join(r.programs, "gcc-12"), "#!/bin/sh\necho 'gcc-12 (Fake) "+version+"'\n", 0o755)
}

// settle settles the node as a new process, and returns the number of builds of gdrdrv until now.
func (r rejecting) settle(t *testing.T) int {
	t.Helper()
	cfg := r.Config(one, slog.New(slog.DiscardHandler))
	cfg.Desired = func() (loader.Desired, error) {
		return loader.Desired{Version: one, Options: stack.Options{GDRCopy: true}}, nil
	}
	step := loader.New(cfg, loadertest.Machine).Settle(t.Context())
	if step.Kind != loader.Done || len(step.Causes) > 0 || r.Published() != one || codes(step)["gdrdrv"] != string(cause.GDRCopyUnavailable) {
		t.Errorf("%s %v %v, published: %q", step, step.Causes, codes(step), r.Published())
	}
	data, err := os.ReadFile(r.runs)
	assert.NilError(t, err)
	return strings.Count(string(data), "\n")
}

// age makes the attempts in the journal older.
func (r rejecting) age(t *testing.T, by time.Duration) {
	t.Helper()
	path := filepath.Join(r.Dir, "store/journal.json")
	data, err := os.ReadFile(path)
	assert.NilError(t, err)
	var journal map[string]any
	assert.NilError(t, json.Unmarshal(data, &journal))
	for _, tried := range journal["tried"].(map[string]any) {
		if attempt := tried.(map[string]any); attempt["at"] != nil {
			attempt["at"] = time.Now().Add(-by)
		}
	}
	data, err = json.Marshal(journal)
	assert.NilError(t, err)
	assert.NilError(t, os.WriteFile(path, data, 0o600))
}

func TestAnOptionalModuleThatTheCompilerRejectsIsBuiltAgainAfterAChange(t *testing.T) {
	for name, test := range map[string]struct {
		change func(t *testing.T, r rejecting)
		want   int
	}{
		"nothing": {func(*testing.T, rejecting) {}, 1},
		"headers of the kernel": {func(t *testing.T, r rejecting) {
			payloadtest.Write(t, filepath.Join(r.headers, "include/linux/module.h"), "new\n", 0o644)
		}, 2},
		"compiler": {func(t *testing.T, r rejecting) { r.compiler(t, "12.2.1") }, 2},
		"headers of the network adapters": {func(t *testing.T, r rejecting) {
			payloadtest.Write(t, filepath.Join(r.Dir, "host/run/mellanox/drivers/usr/src/ofa_kernel/default/Module.symvers"), "new\n", 0o644)
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRejecting(t)
			for range 2 {
				if got := r.settle(t); got != 1 {
					t.Fatalf("built %d times", got)
				}
			}
			r.age(t, time.Hour)
			if got := r.settle(t); got != 1 {
				t.Errorf("after an hour: built %d times", got)
			}
			test.change(t, r)
			for range 2 {
				if got := r.settle(t); got != test.want {
					t.Errorf("after a change: built %d times, want %d", got, test.want)
				}
			}
		})
	}
}
