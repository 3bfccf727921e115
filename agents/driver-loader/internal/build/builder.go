// Package build builds kernel modules from NVIDIA's sources. It finds or fetches the headers of
// a kernel, chooses the compiler that built the kernel, runs make, and signs the modules.
package build

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"outrigger.dev/agents/driver-loader/internal/cache"
	"outrigger.dev/agents/driver-loader/internal/module"
	"outrigger.dev/agents/driver-loader/internal/payload"
	"outrigger.dev/agents/driver-loader/internal/progress"
	"outrigger.dev/agents/driver-loader/internal/staging"
	"outrigger.dev/pkg/cause"
)

// The steps of a build, in order.
const (
	StepHeaders = "headers"
	StepSources = "sources"
	StepCompile = "compile"
	StepSign    = "sign"
	StepStore   = "store"
)

// Builder builds modules, and adds them to the cache of a node.
type Builder struct {
	Places Places
	// Repositories fetches headers that the host does not have; nil to use only the host's.
	Repositories *Repositories
	Log          *slog.Logger
	// Progress is called from one goroutine, for each step and each compiled object. It may be nil.
	Progress func(progress.Progress)
}

// Request describes the modules to build.
type Request struct {
	// Release and Machine are the kernel's, as uname prints them.
	Release, Machine string
	// Banner is /proc/version if the kernel is the running one. It is empty for a build in advance.
	Banner  string
	Payload payload.Payload
	Flavour payload.Flavour
	// Exclude lists modules not to build, by the names of their folders, such as nvidia-drm.
	Exclude []string
	// Jobs is the number of compilers that run at once. Default: the number of processors.
	Jobs int
	// Signer signs the modules; nil to leave them unsigned.
	Signer *Signer
}

// Key returns the cache key of the modules of a request. The compiler is described by
// /proc/version, or by Headers.Compiler.
func (r Request) Key(compiler string) cache.Key {
	return cache.Key{
		Release: r.Release, Machine: r.Machine, Compiler: Compiler(compiler),
		Driver: r.Payload.Version, Flavour: string(r.Flavour), Sources: r.Payload.Digest, Signer: r.Signer.ID(),
	}
}

// Build builds the modules of a request, and adds them to the cache. If the payload has precompiled
// modules for the running kernel, it uses these. Errors that an operator can fix are Causes, and a
// *FailedError if the compiler failed. After an error, the cache is unchanged. The disk keeps the log
// of the build, and fetched headers.
func (b *Builder) Build(ctx context.Context, r Request) (cache.Set, error) {
	report := reporter(progress.Since(time.Now(), b.Progress))
	var misfit *cause.Cause
	if len(r.Payload.Precompiled[r.Release]) > 0 && r.Banner != "" {
		set, why, err := b.addPrecompiled(ctx, r, report)
		if err != nil || why == nil {
			return set, err
		}
		misfit = why
	}
	source, err := r.source()
	if err != nil && misfit != nil && len(r.Payload.Sources) == 0 {
		return cache.Set{}, *misfit
	}
	if err != nil {
		return cache.Set{}, err
	}
	headers, err := b.headers(ctx, r, report)
	if err != nil {
		return cache.Set{}, err
	}
	compiler, err := ChooseCompiler(ctx, headers.Compiler)
	if err != nil {
		return cache.Set{}, err
	}
	stage, err := staging.New(filepath.Join(b.Places.Store, "build"))
	if err != nil {
		return cache.Set{}, err
	}
	b.Log.Info("building modules", "kernel", r.Release, "driver", r.Payload.Version, "type", r.Flavour, "headers", headers.Build, "compiler", compiler.Version)
	w := work{Request: r, headers: headers, compiler: compiler, stage: stage, report: report, network: b.Places.Network(r.Release, r.Machine), container: b.Places.Container}
	set, err := w.build(ctx, source)
	if err == nil {
		report.step(StepStore, "")
		set, err = cache.Cache{Dir: b.Places.Store}.Add(ctx, set)
	}
	return set, errors.Join(err, stage.Close())
}

// source returns the folder with the sources of a request.
func (r Request) source() (string, error) {
	if dir := r.Payload.Sources[r.Flavour]; dir != "" {
		return dir, nil
	}
	if len(r.Payload.Sources) == 0 {
		return "", cause.Cause{
			Code: cause.ModuleSourcesMissing, Subject: "driver " + r.Payload.Version,
			Text: fmt.Sprintf("it has no sources, and no precompiled modules for the kernel %s; it has modules for: %s", r.Release, strings.Join(slices.Sorted(maps.Keys(r.Payload.Precompiled)), ", ")),
			Fix:  "use a driver image with modules for the kernel " + r.Release + ", or an image with sources",
		}
	}
	has := make([]string, 0, len(r.Payload.Sources))
	for flavour := range r.Payload.Sources {
		has = append(has, string(flavour))
	}
	slices.Sort(has)
	return "", cause.New(cause.ModuleSourcesMissing, "driver "+r.Payload.Version, fmt.Sprintf("it has no sources of the %s modules; it has sources of: %s", r.Flavour, strings.Join(has, ", ")))
}

// headers returns the headers of the kernel. It fetches them if the host does not have them.
func (b *Builder) headers(ctx context.Context, r Request, report reporter) (Headers, error) {
	report.step(StepHeaders, "")
	h, err := b.Places.Headers(r.Release)
	if err != nil && b.Repositories != nil {
		local := err
		report.step(StepHeaders, "from repositories")
		if err := b.Repositories.Fetch(ctx, r.Release, b.Places.fetched(r.Release)); err != nil {
			// Missing headers are the reason for the fetch. Report only other errors of the host's headers.
			if found, is := errors.AsType[cause.Cause](local); is && found.Code != cause.KernelHeadersMissing {
				err = fmt.Errorf("%w; and on the node: %w", err, local)
			}
			return Headers{}, err
		}
		h, err = b.Places.Headers(r.Release)
	}
	if err != nil {
		return Headers{}, err
	}
	if running := Compiler(r.Banner); r.Banner != "" && running != Compiler(h.Compiler) {
		return Headers{}, cause.New(cause.KernelHeadersMismatch, h.Build, fmt.Sprintf("the headers are of a kernel built with %s, but the running kernel was built with %s", Compiler(h.Compiler), running))
	}
	return h, nil
}

// work is one build.
type work struct {
	Request
	headers  Headers
	compiler Chosen
	stage    *staging.Stage
	report   reporter
	// network has the headers of the driver of network adapters. container is Places.Container.
	network   Network
	container bool
}

func (w work) build(ctx context.Context, source string) (cache.Set, error) {
	w.report.step(StepSources, "")
	dir := filepath.Join(w.stage.Dir, "modules")
	if err := os.CopyFS(dir, os.DirFS(source)); err != nil {
		return cache.Set{}, staging.Explain(w.stage.Dir, err)
	}
	subject := fmt.Sprintf("modules of driver %s for kernel %s", w.Payload.Version, w.Release)
	err := makeRun{
		dir: dir, headers: w.headers, compiler: w.compiler.Program, exclude: w.Exclude, jobs: w.Jobs, subject: subject,
		variables: w.network.variables(w.container),
		log:       filepath.Join(filepath.Dir(w.stage.Dir), w.Release+".log"),
		progress: func(done, total int) {
			w.report(progress.Progress{Step: StepCompile, Done: done, Total: total})
		},
	}.run(ctx)
	if err != nil {
		return cache.Set{}, err
	}
	return w.collect(ctx, dir)
}

// collect checks, strips and signs the built modules.
func (w work) collect(ctx context.Context, dir string) (cache.Set, error) {
	if _, err := os.Stat(filepath.Join(dir, "kernel-open")); err == nil {
		dir = filepath.Join(dir, "kernel-open")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.ko"))
	if err != nil {
		return cache.Set{}, err
	}
	set := cache.Set{
		Key: w.Key(w.headers.Compiler), Built: time.Now().UTC().Truncate(time.Second),
		BuiltWith: w.compiler.Version, Prebuilt: w.Banner == "", Network: w.network.ID,
	}
	w.report.step(StepSign, "")
	for _, file := range files {
		m, err := w.finish(ctx, file)
		if err != nil {
			return cache.Set{}, err
		}
		set.Modules = append(set.Modules, m)
	}
	if !slices.ContainsFunc(set.Modules, func(m cache.Module) bool { return m.Name == "nvidia" }) {
		return cache.Set{}, cause.Cause{Code: cause.ModuleBuildFailed, Subject: w.Payload.Dir, Text: fmt.Sprintf("make built %d modules, but not nvidia.ko", len(files)), Fix: "import the sources of NVIDIA's driver"}
	}
	return set, nil
}

// finish strips, checks and signs a built module.
func (w work) finish(ctx context.Context, file string) (cache.Module, error) {
	// The kernel does not read the debug information, which is most of a module.
	if err := tool(ctx, "strip", "--strip-debug", file); err != nil {
		return cache.Module{}, err
	}
	m, err := module.Read(file)
	if err != nil {
		return cache.Module{}, err
	}
	if release, _, _ := strings.Cut(m.Vermagic, " "); release != w.Release {
		return cache.Module{}, cause.Cause{Code: cause.KernelHeadersMismatch, Subject: w.headers.Build, Text: fmt.Sprintf("modules built with these headers are for the kernel %s, not for %s", release, w.Release), Fix: "install the headers of " + w.Release}
	}
	if w.Signer != nil {
		signed, err := w.Signer.Sign(m.Data, HashFor(w.headers.SignatureHash))
		if err == nil {
			err = os.WriteFile(file, signed, 0o600)
		}
		if err != nil {
			return cache.Module{}, staging.Explain(file, err)
		}
	}
	return cache.Module{Name: m.Name, File: file}, nil
}

// reporter reports progress.
type reporter func(progress.Progress)

func (r reporter) step(step, note string) { r(progress.Progress{Step: step, Note: note}) }
