package loader_test

import (
	"debug/elf"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/build"
	"outrigger.dev/agents/driver-loader/internal/loader"
	"outrigger.dev/agents/driver-loader/internal/loader/loadertest"
	"outrigger.dev/agents/driver-loader/internal/payload"
	"outrigger.dev/agents/driver-loader/internal/payload/payloadtest"
	"outrigger.dev/agents/driver-loader/internal/progress"
	"outrigger.dev/pkg/cause"
)

const (
	booted   = "6.1.0-1-amd64"
	compiler = "gcc-12 (Debian 12.2.0-14) 12.2.0"
)

// factory is a node that builds modules with a fake compiler.
type factory struct {
	loadertest.Node
	t      *testing.T
	cfg    loader.Config
	now    time.Time
	events []cause.Code
	// during is called for each line of make that names a file.
	during func()
	runs   string
}

func newFactory(t *testing.T) *factory {
	t.Helper()
	f := &factory{Node: loadertest.New(t), t: t, now: time.Unix(0, 0), runs: filepath.Join(t.TempDir(), "runs")}
	f.cfg = f.Config("", slog.New(slog.DiscardHandler))
	f.cfg.Builder.Clock = func() time.Time { return f.now }
	f.cfg.Builder.Failed = func(c cause.Cause) { f.events = append(f.events, c.Code) }
	f.cfg.Builder.Progress = func(p progress.Progress) {
		if p.Step == build.StepCompile && f.during != nil {
			f.during()
		}
	}
	f.headers(booted)
	programs := t.TempDir()
	payloadtest.Write(t, programs+"/gcc-12", "#!/bin/sh\necho '"+compiler+"'\n", 0o755)
	payloadtest.Write(t, programs+"/strip", "#!/bin/sh\n", 0o755)
	t.Setenv("PATH", programs+":"+os.Getenv("PATH"))
	return f
}

func (f *factory) headers(release string) {
	dir := filepath.Join(f.Dir, "host/usr/src/linux-headers-"+release)
	for name, content := range map[string]string{
		"Makefile": "", ".config": "CONFIG_CC_VERSION_TEXT=\"" + compiler + "\"\n", "scripts/Makefile.build": "", "include/linux/module.h": "",
		"include/generated/utsrelease.h": "#define UTS_RELEASE \"" + release + "\"\n",
	} {
		payloadtest.Write(f.t, filepath.Join(dir, name), content, 0o644)
	}
}

// driver imports a driver whose build runs a script.
func (f *factory) driver(version, script string) {
	dir := f.t.TempDir()
	payloadtest.Write(f.t, dir+"/nvidia/nv.c", "MODULE_LICENSE(\"Dual MIT/GPL\");\n", 0o644)
	payloadtest.Write(f.t, dir+"/Makefile", "modules:\n\t@echo run >> "+f.runs+"; echo '  CC [M]  nvidia/nv.o'; "+script+"\n", 0o644)
	from := payloadtest.Driver{Version: version, Machine: elf.EM_X86_64, Sources: dir}.Folder(f.t)
	_, err := payload.Store{Dir: f.cfg.Store, Machine: loadertest.Machine}.Import(f.t.Context(), from)
	assert.NilError(f.t, err)
}

func (f *factory) built() int {
	data, err := os.ReadFile(f.runs)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.t.Fatal(err)
	}
	return strings.Count(string(data), "\n")
}

// TestABuildThatFailsIsReportedOnce settles a node three times in an hour, and then a week later.
func TestABuildThatFailsIsReportedOnce(t *testing.T) {
	for code, test := range map[cause.Code]struct {
		script string
		builds int
	}{
		cause.ModuleBuildFailed: {"echo 'nv.c:1:1: error: no'; exit 1", 1},
		cause.ModuleBuildKilled: {"echo 'gcc: fatal error: Killed signal terminated program cc1'; exit 1", 4},
		cause.NoSpace:           {"echo 'nv.s: No space left on device'; exit 1", 4},
	} {
		t.Run(string(code), func(t *testing.T) {
			f := newFactory(t)
			f.driver(two, test.script)
			l := loader.New(f.cfg, loadertest.Machine)
			registry := prometheus.NewRegistry()
			registry.MustRegister(loader.NewMetrics(l))
			visible := func() string {
				t.Helper()
				err := l.Ready()
				if err == nil {
					t.Fatal("the node is ready")
				}
				families, gatherErr := registry.Gather()
				assert.NilError(t, gatherErr)
				var codes []string
				for _, family := range families {
					for _, m := range family.GetMetric() {
						if family.GetName() == "outrigger_driver_loader_causes" {
							codes = append(codes, m.GetLabel()[0].GetValue())
						}
					}
				}
				if !slices.Equal(codes, []string{string(code)}) {
					t.Errorf("the metric has the codes %q, want %s", codes, code)
				}
				return err.Error()
			}
			first := ""
			f.during = func() {
				if first != "" && !strings.HasPrefix(visible(), first+"\n") { // and the step
					t.Errorf("while the build runs again: %q, before: %q", visible(), first)
				}
			}
			for _, pause := range []time.Duration{20 * time.Minute, 20 * time.Minute, 7 * 24 * time.Hour, 0} {
				if step := l.Settle(t.Context()); step.Kind != loader.Wait || len(step.Causes) != 1 || step.Causes[0].Code != code {
					t.Fatalf("%s %v", step, step.Causes)
				}
				if now := visible(); first == "" {
					first = now
				} else if now != first {
					t.Errorf("%q, before: %q", now, first)
				}
				f.now = f.now.Add(pause)
			}
			if f.built() != test.builds || len(f.events) != 1 || f.events[0] != code {
				t.Errorf("%d builds, events %v, want %d builds and one event", f.built(), f.events, test.builds)
			}
			// The command plan is another process.
			o, err := l.Observe(t.Context())
			assert.NilError(t, err)
			step := loader.New(f.Config("", f.cfg.Log), loadertest.Machine).Next(t.Context(), o, loader.Desired{})
			if rejected := code == cause.ModuleBuildFailed; (step.Kind == loader.Wait) != rejected || (step.Kind == loader.Build) == rejected {
				t.Errorf("another process plans: %s %v", step, step.Causes)
			}
			f.during = nil
			if l.Retry(); l.Settle(t.Context()).Kind != loader.Wait || f.built() != test.builds+1 {
				t.Errorf("%d builds after SIGHUP, want %d", f.built(), test.builds+1)
			}
		})
	}
}

// TestANodeStaysReadyWhileAnotherDriverIsBuilt has a driver that works, and builds the next one.
func TestANodeStaysReadyWhileAnotherDriverIsBuilt(t *testing.T) {
	f := newFactory(t)
	f.Stock(t, one)
	f.cfg.Desired = func() (loader.Desired, error) { return loader.Desired{Keep: true, Flavour: payload.Open}, nil }
	l := loader.New(f.cfg, loadertest.Machine)
	if step := l.Settle(t.Context()); step.Kind != loader.Done || len(step.Causes) > 0 {
		t.Fatalf("%s %v", step, step.Causes)
	}
	f.driver(two, "echo 'gcc: fatal error: Killed signal terminated program cc1'; exit 1")
	calls := 0
	f.during = func() {
		calls++
		if err := l.Ready(); err != nil || l.State().Driver.Version != one {
			t.Errorf("while driver %s is built: %v, %+v", two, err, l.State())
		}
	}
	for range 2 {
		step := l.Settle(t.Context())
		if step.Kind != loader.Done || len(step.Causes) != 1 || step.Causes[0].Code != cause.ModuleBuildKilled || l.Ready() != nil {
			t.Errorf("%s %v, %v", step, step.Causes, l.Ready())
		}
		f.now = f.now.Add(time.Hour)
	}
	if calls != 2 {
		t.Errorf("%d builds, want 2", calls)
	}
}

// TestACauseStaysVisibleWhileALoadIsRepeated has a module that the kernel rejects.
func TestACauseStaysVisibleWhileALoadIsRepeated(t *testing.T) {
	n := loadertest.New(t)
	n.Stock(t, one)
	n.Reject(t, one)
	var l *loader.Loader
	var during []cause.Code
	n.At = func(what string) {
		if what == "load nvidia" {
			for _, c := range l.State().Causes {
				during = append(during, c.Code)
			}
		}
	}
	l = loader.New(n.Config("", slog.New(slog.DiscardHandler)), loadertest.Machine)
	for range 3 {
		if step := l.Settle(t.Context()); step.Kind != loader.Wait || step.Causes[0].Code != cause.ModuleInitFailed {
			t.Fatalf("%s %v", step, step.Causes)
		}
	}
	if !slices.Equal(during, []cause.Code{cause.ModuleInitFailed, cause.ModuleInitFailed}) {
		t.Errorf("the repeated loads have the causes %v", during)
	}
}
