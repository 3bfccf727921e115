// Package build builds kernel modules from NVIDIA's sources. It finds or fetches the headers of
// a kernel, chooses the compiler that built the kernel, runs make, and signs the modules.
package build

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"outrigger.dev/agents/driver-loader/internal/cache"
	"outrigger.dev/agents/driver-loader/internal/payload"
	"outrigger.dev/agents/driver-loader/internal/progress"
	"outrigger.dev/pkg/cause"
)

// The steps of a build, in order. make can alternate between the steps from StepConftest to StepLink.
const (
	StepHeaders  = "headers"
	StepSources  = "sources"
	StepConftest = "conftest"
	StepCompile  = "compile"
	StepLink     = "link"
	StepSign     = "sign"
	StepStore    = "store"
)

// Builder builds modules, and adds them to the cache of a node.
type Builder struct {
	Places Places
	// Repositories fetches headers that the host does not have; nil to use only the host's.
	Repositories *Repositories
	Log          *slog.Logger
	// Progress is called from one goroutine, for each step, and each test, file and module. It may be nil.
	Progress func(progress.Progress)
	// Failed is called after a build failed, unless the previous build of the same inputs failed in the
	// same way. It may be nil.
	Failed func(cause.Cause)
	// Clock is time.Now, except in tests; nil for time.Now.
	Clock func() time.Time

	failures attempts
}

func (b *Builder) now() time.Time {
	if b.Clock == nil {
		return time.Now()
	}
	return b.Clock()
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
	// Background is set if all other programs of the node come first. Progress is then not called, and
	// the default of Jobs is a quarter of the processors.
	Background bool
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
// of the build, fetched headers, and the compiled files of a build that was interrupted. Failure says
// whether the next build of the request can succeed.
func (b *Builder) Build(ctx context.Context, r Request) (cache.Set, error) {
	inputs, inputsErr := b.inputs(ctx, r)
	if inputsErr != nil {
		inputs = "" // the build says why, and its failure is not recorded
	}
	set, err := b.build(ctx, r, &inputs)
	if recordErr := b.record(ctx, r, inputs, err); recordErr != nil {
		b.Log.Warn("cannot record the result of the build, the next process builds again", "err", recordErr)
	}
	return set, err
}

// build is Build without the record. It sets inputs to the digest of the inputs with the headers that it has fetched.
func (b *Builder) build(ctx context.Context, r Request, inputs *string) (cache.Set, error) {
	observer := b.Progress
	if r.Background {
		observer = nil
	}
	report := reporter(progress.Since(time.Now(), observer))
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
	headers, compiler, err := b.toolchain(ctx, r, report)
	if err != nil {
		return cache.Set{}, err
	}
	if *inputs, err = b.inputs(ctx, r); err != nil {
		return cache.Set{}, err
	}
	return b.compile(ctx, b.work(r, headers, compiler, report), source, *inputs)
}

// toolchain returns the headers of the kernel, and the compiler that fits them.
func (b *Builder) toolchain(ctx context.Context, r Request, report reporter) (Headers, Chosen, error) {
	headers, err := b.headers(ctx, r, report)
	if err != nil {
		return Headers{}, Chosen{}, err
	}
	compiler, err := ChooseCompiler(ctx, headers.Compiler)
	return headers, compiler, err
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

// reporter reports progress.
type reporter func(progress.Progress)

func (r reporter) step(step, note string) { r(progress.Progress{Step: step, Note: note}) }
