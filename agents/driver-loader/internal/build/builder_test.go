package build_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/build"
	"outrigger.dev/agents/driver-loader/internal/cache"
	"outrigger.dev/agents/driver-loader/internal/module"
	"outrigger.dev/agents/driver-loader/internal/payload"
	"outrigger.dev/agents/driver-loader/internal/progress"
	"outrigger.dev/pkg/cause"
)

var allButNVIDIA = []string{"nvidia-uvm", "nvidia-modeset", "nvidia-drm", "nvidia-peermem"}

// standIns has stand-ins for NVIDIA's modules, in the layout of its kernel-open.
const standIns = "../../../../sim/modules"

// headersOf returns a root with headers of a kernel: those for the guests of test/qemu, or
// this machine's.
func headersOf(t *testing.T) (root, release string) {
	t.Helper()
	root = "/"
	if guests := filepath.Join(os.Getenv("OUTRIGGER_BIN"), "qemu/root"); os.Getenv("OUTRIGGER_BIN") != "" {
		root = guests
	}
	links, err := filepath.Glob(filepath.Join(root, "lib/modules/*/build"))
	if err != nil || len(links) == 0 {
		t.Skip("this machine has no headers of a kernel: run make everything and set OUTRIGGER_BIN, or install linux-headers-amd64")
	}
	return root, filepath.Base(filepath.Dir(links[len(links)-1]))
}

// sources imports the stand-in modules into a store.
func sources(t *testing.T, store, from string) payload.Payload {
	t.Helper()
	p, err := payload.Store{Dir: store, Machine: "x86_64"}.Import(t.Context(), from)
	assert.NilError(t, err)
	return p
}

// edited returns a copy of the stand-in modules with another content of a file.
func edited(t *testing.T, file, content string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "modules")
	assert.NilError(t, os.CopyFS(dir, os.DirFS(standIns)))
	assert.NilError(t, os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600))
	return dir
}

func code(err error) cause.Code {
	var c cause.Cause
	errors.As(err, &c)
	return c.Code
}

func newBuilder(t *testing.T, root string) *build.Builder {
	return &build.Builder{Places: build.Places{Root: root, Store: t.TempDir()}, Log: slog.New(slog.DiscardHandler)}
}

func TestModulesAreBuiltSignedAndCached(t *testing.T) {
	root, release := headersOf(t)
	b := newBuilder(t, root)
	var steps []string
	last := map[string]progress.Progress{}
	b.Progress = func(p progress.Progress) {
		if !slices.Contains(steps, p.Step) {
			steps = append(steps, p.Step)
		}
		last[p.Step] = p
	}
	keyFile, certificate := newKey(t, "rsa")
	signer, err := build.NewSigner(keyFile, certificate)
	assert.NilError(t, err)
	r := build.Request{Release: release, Machine: "x86_64", Payload: sources(t, b.Places.Store, standIns), Flavour: payload.Open, Signer: signer}
	set, err := b.Build(t.Context(), r)
	assert.NilError(t, err)
	if want := []string{build.StepHeaders, build.StepSources, build.StepConftest, build.StepCompile, build.StepLink, build.StepSign, build.StepStore}; !slices.Equal(steps, want) {
		t.Errorf("%v", steps)
	}
	for step, least := range map[string]int{build.StepConftest: 6, build.StepCompile: 12, build.StepLink: 11, build.StepSign: 5} { // five modules
		if p := last[step]; p.Done < least || p.Done != p.Total {
			t.Errorf("%+v, want at least %d", p, least)
		}
	}
	for _, name := range []string{"nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm", "nvidia_peermem"} {
		m, err := module.Read(set.Path(name))
		assert.NilError(t, err)
		if m.Name != name || !strings.HasPrefix(m.Vermagic, release+" ") || m.Signature == nil || m.Signature.Signer != "Tests" || m.Version != r.Payload.Version {
			t.Errorf("%s: %+v %+v", name, m.Vermagic, m.Signature)
		}
		if size, err := os.Stat(set.Path(name)); err != nil || size.Size() > 64<<10 {
			t.Errorf("%s has its debug information: %v, %v", name, size.Size(), err)
		}
	}
	if !set.Prebuilt || set.BuiltWith == "" {
		t.Errorf("%+v", set)
	}
	h, err := b.Places.Headers(release)
	assert.NilError(t, err)
	// The running kernel names the same compiler in other words.
	banner := "Linux version " + release + " (builder@host) (" + h.Compiler + ", GNU ld (GNU Binutils for Debian) 2.40) #1 SMP"
	if found, err := (cache.Cache{Dir: b.Places.Store}).Find(t.Context(), r.Key(banner)); err != nil || found.Dir != set.Dir {
		t.Errorf("%+v, %v", found, err)
	}
	if left, err := filepath.Glob(b.Places.Store + "/build/[^.]*"); err != nil || len(left) != 1 || filepath.Base(left[0]) != release+".log" {
		t.Errorf("left %v, %v", left, err)
	}
}

// NVIDIA's source tree has the folder kernel-open, and what the modules are linked with.
func TestAWholeSourceTreeIsBuilt(t *testing.T) {
	root, release := headersOf(t)
	tree := t.TempDir()
	assert.NilError(t, os.CopyFS(tree, os.DirFS(standIns+"/../open")))
	assert.NilError(t, os.CopyFS(tree+"/kernel-open", os.DirFS(standIns)))
	b := newBuilder(t, root)
	first := map[string]progress.Progress{}
	b.Progress = func(p progress.Progress) {
		if _, seen := first[p.Step]; !seen {
			first[p.Step] = p
		}
	}
	p := sources(t, b.Places.Store, tree)
	set, err := b.Build(t.Context(), build.Request{Release: release, Machine: "x86_64", Payload: p, Flavour: payload.Open, Exclude: allButNVIDIA})
	if err != nil || len(set.Modules) != 1 || p.Root != "" || set.Key.Driver != "580.95.05" {
		t.Errorf("%+v, %+v, %v", p, set, err)
	}
	// src has six files, and kernel-open three, and later one for the module.
	for step, want := range map[string]int{build.StepConftest: 6, build.StepCompile: 6 + 3 + 1} {
		if got := first[step]; got.Total != want {
			t.Errorf("the first progress is %+v, want %d", got, want)
		}
	}
}

func TestABuildThatFailsSaysWhyAndLeavesTheNodeAsItWas(t *testing.T) {
	for name, test := range map[string]struct {
		from string
		want cause.Code
		says string
	}{
		"make without a rule":       {edited(t, "Makefile", "x:\n"), cause.ModuleBuildFailed, "No rule to make target 'modules'"},
		"no module nvidia":          {edited(t, "Makefile", "modules:\n"), cause.ModuleBuildFailed, "make built 0 modules"},
		"a program that is missing": {edited(t, "Makefile", "modules:\n\tno-such-program\n"), cause.BuildToolsMissing, "no-such-program"},
		"a compiler that is killed": {edited(t, "Makefile", "modules:\n\t@echo 'gcc: fatal error: Killed signal terminated program cc1'; exit 1\n"), cause.ModuleBuildKilled, "Killed signal"},
		"a compiler without memory": {edited(t, "Makefile", "modules:\n\t@echo 'cc1: out of memory allocating 65536 bytes after a total of 1 bytes'; exit 1\n"), cause.ModuleBuildKilled, "out of memory"},
		"a make that is killed":     {edited(t, "Makefile", "modules:\n\t@echo begun; kill -9 $$PPID; sleep 600\n"), cause.ModuleBuildKilled, "signal: killed"},
		"a full disk":               {edited(t, "Makefile", "modules:\n\t@echo 'nv.s: No space left on device'; exit 1\n"), cause.NoSpace, "No space left"},
		"a cause before many lines": {edited(t, "Makefile", "modules:\n\t@echo 'as: nv.s: Too many open files'; seq 100; exit 1\n"), cause.ModuleBuildKilled, "Too many open files"},
		"headers for another glibc": {edited(t, "Makefile", "modules:\n\t@echo \"modpost: /lib/libc.so.6: version \\`GLIBC_2.38' not found (required by modpost)\"; exit 1\n"), cause.KernelHeadersForeign, "GLIBC_2.38"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTried(t, "")
			r.request.Payload = sources(t, r.Places.Store, test.from)
			fails(t, r.Builder, r.request, test.want, test.says)
		})
	}
	t.Run("an error of the compiler", func(t *testing.T) {
		root, release := headersOf(t)
		b := newBuilder(t, root)
		from := sources(t, b.Places.Store, edited(t, "nvidia/nv.c", "int x = y;\n"))
		r := build.Request{Release: release, Machine: "x86_64", Payload: from, Flavour: payload.Open, Exclude: allButNVIDIA}
		fails(t, b, r, cause.ModuleBuildFailed, "'y' undeclared")
	})
}

// fails builds, and expects an error, and a store with nothing but the log of the build.
func fails(t *testing.T, b *build.Builder, r build.Request, want cause.Code, says string) {
	t.Helper()
	_, err := b.Build(t.Context(), r)
	if code(err) != want || !strings.Contains(err.Error(), says) {
		t.Errorf("%v, want %s with %q", err, want, says)
	}
	if failed, is := errors.AsType[*build.FailedError](err); is {
		if log, err := os.ReadFile(failed.Log); err != nil || !strings.Contains(string(log), failed.Tail[len(failed.Tail)-1]) {
			t.Errorf("the log has %q, %v", log, err)
		}
	}
	for _, dir := range []string{"modules/*/*", "build/.new-*", "build/work/modules/*.o"} {
		if left, err := filepath.Glob(filepath.Join(b.Places.Store, dir)); err != nil || len(left) > 0 {
			t.Errorf("left %v, %v", left, err)
		}
	}
}

func TestABuildEndsWithItsContext(t *testing.T) {
	root, release := headersOf(t)
	b := newBuilder(t, root)
	pid := filepath.Join(t.TempDir(), "pid")
	from := edited(t, "Makefile", "modules:\n\t@echo $$$$ > "+pid+".new; mv "+pid+".new "+pid+"; echo '  CC [M]  x.o'; sleep 600 & wait\n")
	ctx, cancel := context.WithCancel(t.Context())
	b.Progress = func(p progress.Progress) {
		if p.Done > 0 {
			cancel()
		}
	}
	r := build.Request{Release: release, Machine: "x86_64", Payload: sources(t, b.Places.Store, from), Flavour: payload.Open}
	if _, err := b.Build(ctx, r); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	data, err := os.ReadFile(pid)
	assert.NilError(t, err)
	if _, err := os.Stat("/proc/" + strings.TrimSpace(string(data)) + "/cwd"); err == nil {
		t.Error("what make started is still there")
	}
}

func TestWhatABuildLacksIsNamed(t *testing.T) {
	empty := t.TempDir()
	b := newBuilder(t, empty)
	p := sources(t, b.Places.Store, standIns)
	r := build.Request{Release: "6.1.0-1-amd64", Machine: "x86_64", Payload: p, Flavour: payload.Open}
	if _, err := b.Build(t.Context(), r); code(err) != cause.KernelHeadersMissing || !strings.Contains(err.Error(), "linux-headers-6.1.0-1-amd64") {
		t.Error(err)
	}
	r.Flavour = payload.Proprietary
	if _, err := b.Build(t.Context(), r); code(err) != cause.ModuleSourcesMissing || !strings.Contains(err.Error(), "it has sources of: open") {
		t.Error(err)
	}
	r.Flavour = payload.Open
	fakeHeaders(t, empty, r.Release, "gcc-2 (Old) 2.95.3")
	if _, err := b.Build(t.Context(), r); code(err) != cause.CompilerMissing || !strings.Contains(err.Error(), "built with gcc 2.95.3") || !strings.Contains(err.Error(), "add gcc-2") {
		t.Error(err)
	}
	r.Banner = "Linux version 6.1.0-1-amd64 (a@b) (gcc-12 (Debian 12.2.0-14) 12.2.0, GNU ld 2.40) #1 SMP"
	if _, err := b.Build(t.Context(), r); code(err) != cause.KernelHeadersMismatch || !strings.Contains(err.Error(), "the running kernel was built with gcc 12.2.0") {
		t.Error(err)
	}
	compiler, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("this machine has no gcc")
	}
	version, err := exec.CommandContext(t.Context(), compiler, "--version").Output()
	assert.NilError(t, err)
	first, _, _ := strings.Cut(string(version), "\n")
	fakeHeaders(t, empty, r.Release, first)
	t.Setenv("PATH", onlyIn(t, compiler))
	r.Banner = ""
	if _, err := b.Build(t.Context(), r); code(err) != cause.BuildToolsMissing || !strings.Contains(err.Error(), "make") {
		t.Error(err)
	}
}

// onlyIn returns a folder that has one program.
func onlyIn(t *testing.T, program string) string {
	t.Helper()
	dir := t.TempDir()
	assert.NilError(t, os.Symlink(program, filepath.Join(dir, filepath.Base(program))))
	return dir
}
