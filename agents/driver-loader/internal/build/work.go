package build

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"outrigger.dev/agents/driver-loader/internal/cache"
	"outrigger.dev/agents/driver-loader/internal/module"
	"outrigger.dev/agents/driver-loader/internal/progress"
	"outrigger.dev/agents/driver-loader/internal/staging"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/hostfs"
)

// work is one build.
type work struct {
	Request
	headers  Headers
	compiler Chosen
	report   reporter
	now      func() time.Time
	// exclude are the modules that are not built.
	exclude []string
	// network has the headers of the driver of network adapters. container is Places.Container.
	network   Network
	container bool
	// dir has the sources, and the files that make makes.
	dir string
}

func (b *Builder) work(r Request, h Headers, c Chosen, report reporter) work {
	return work{
		Request: r, headers: h, compiler: c, report: report, now: b.now, exclude: b.excluded(r),
		network: b.Places.Network(r.Release, r.Machine), container: b.Places.Container,
	}
}

// excluded returns the modules that a build of the driver leaves out, by the names of their folders. The headers of
// the driver of network adapters can be incomplete, or can fail to compile. If the node has them,
// nvidia_peermem is built alone, after the driver works.
func (b *Builder) excluded(r Request) []string {
	if b.Places.Network(r.Release, r.Machine).ID == "" {
		return r.Exclude
	}
	return append(slices.Clone(r.Exclude), "nvidia-peermem")
}

// compile builds modules with the given inputs, and adds them to the cache.
func (b *Builder) compile(ctx context.Context, w work, source, inputs string) (set cache.Set, err error) {
	// The stage makes this the only build of the node.
	stage, err := staging.New(filepath.Join(b.Places.Store, "build"))
	if err != nil {
		return cache.Set{}, err
	}
	defer func() { err = errors.Join(err, stage.Close()) }()
	w.dir = b.workDir()
	if err := w.begin(source, inputs); err != nil {
		return cache.Set{}, errors.Join(staging.Explain(w.dir, err), os.RemoveAll(w.dir))
	}
	b.Log.Info("building modules", "kernel", w.Release, "driver", w.Payload.Version, "type", w.Flavour, "headers", w.headers.Build, "compiler", w.compiler.Version)
	complete, err := w.make(ctx)
	if complete && (ctx.Err() != nil || cause.Is(err, cause.ModuleBuildKilled)) {
		return cache.Set{}, errors.Join(err, w.keep(inputs))
	}
	if err == nil {
		set, err = w.collect(ctx)
	}
	if err == nil {
		w.report.step(StepStore, "")
		set, err = cache.Cache{Dir: b.Places.Store}.Add(ctx, set)
	}
	return set, errors.Join(err, os.RemoveAll(w.dir))
}

func (b *Builder) workDir() string { return filepath.Join(b.Places.Store, "build", "work") }

// abandoned is the time after which the files of an interrupted build are removed.
const abandoned = 24 * time.Hour

// RemoveAbandoned removes the files of an interrupted build that no process has continued for a day, for
// example because another driver is desired.
func (b *Builder) RemoveAbandoned() error {
	info, err := os.Stat(b.workDir())
	if errors.Is(err, fs.ErrNotExist) || err == nil && b.now().Sub(info.ModTime()) < abandoned {
		return nil
	}
	if err != nil {
		return err
	}
	stage, err := staging.New(filepath.Dir(b.workDir()))
	if cause.Is(err, cause.StoreBusy) {
		return nil // a build runs
	}
	if err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(b.workDir()), stage.Close())
}

func (w work) sources() string { return filepath.Join(w.dir, "modules") }

// mark returns the path of a file in the folder of a build that was interrupted. It has the text of
// unfinished, and exists only while all files in the folder are complete.
func (w work) mark() string { return filepath.Join(w.dir, "inputs") }

// unfinished identifies an interrupted build: by its inputs, and by the boot of the node, because a crash of
// the node can damage files that were written before.
func unfinished(inputs string) (string, error) {
	boot, err := contract.Dir{}.BootID()
	return inputs + " " + boot, err
}

// begin fills the folder of the build with the sources. If it has the files of an interrupted build with
// the same inputs, they stay, and make only makes the rest.
func (w work) begin(source, inputs string) error {
	w.report.step(StepSources, "")
	same, err := unfinished(inputs)
	if err != nil {
		return err
	}
	if kept, err := hostfs.ReadFile(w.mark(), maxAttempt); err == nil && string(kept) == same {
		return os.Remove(w.mark())
	}
	if err := os.RemoveAll(w.dir); err != nil {
		return err
	}
	return os.CopyFS(w.sources(), os.DirFS(source))
}

// keep keeps the folder of an interrupted build for the next one.
func (w work) keep(inputs string) error {
	mark, err := unfinished(inputs)
	if err != nil {
		return err
	}
	return os.WriteFile(w.mark(), []byte(mark), 0o600)
}

// make runs make. The result complete is set if all files that make has left are complete.
func (w work) make(ctx context.Context) (complete bool, err error) {
	return makeRun{
		dir: w.sources(), headers: w.headers, compiler: w.compiler.Program, exclude: w.exclude, jobs: w.Jobs, background: w.Background,
		subject: fmt.Sprintf("modules of driver %s for kernel %s", w.Payload.Version, w.Release),
		log:     filepath.Join(filepath.Dir(w.dir), w.Release+".log"), progress: w.report, now: w.now,
	}.run(ctx)
}

// collect checks, strips and signs the built modules.
func (w work) collect(ctx context.Context) (cache.Set, error) {
	dir := w.sources()
	if _, err := os.Stat(filepath.Join(dir, "kernel-open")); err == nil {
		dir = filepath.Join(dir, "kernel-open")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.ko"))
	if err != nil {
		return cache.Set{}, err
	}
	set := cache.Set{
		Key: w.Key(w.headers.Compiler), Built: time.Now().UTC().Truncate(time.Second),
		BuiltWith: w.compiler.Version, Prebuilt: w.Banner == "" && !w.Background,
	}
	for i, file := range files {
		w.report(progress.Progress{Step: StepSign, Done: i, Total: len(files)})
		m, err := w.finish(ctx, file)
		if err != nil {
			return cache.Set{}, err
		}
		set.Modules = append(set.Modules, m)
	}
	w.report(progress.Progress{Step: StepSign, Done: len(files), Total: len(files)})
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
