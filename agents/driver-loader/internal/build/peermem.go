package build

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"outrigger.dev/agents/driver-loader/internal/cache"
	"outrigger.dev/agents/driver-loader/internal/module"
	"outrigger.dev/agents/driver-loader/internal/progress"
	"outrigger.dev/agents/driver-loader/internal/staging"
)

// peermem is the name of NVIDIA's module in make.
const peermem = "nvidia-peermem"

// PeermemKey returns the cache key of nvidia_peermem, which was built alone.
func (r Request) PeermemKey(compiler string) cache.Key {
	key := r.Key(compiler)
	key.Flavour += "-peermem"
	return key
}

// BuildPeermem builds nvidia_peermem alone, with the headers of the driver of network adapters, which can
// come to a node after the modules in base were built. It adds the module to the cache as a set.
func (b *Builder) BuildPeermem(ctx context.Context, r Request, base cache.Set) (cache.Set, error) {
	report := reporter(progress.Since(time.Now(), b.Progress))
	source, err := r.source()
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
	network := b.Places.Network(r.Release, r.Machine)
	b.Log.Info("building nvidia_peermem with the headers of the network adapters' driver", "kernel", r.Release, "driver", r.Payload.Version, "headers", network.Dir)
	w := work{Request: r, headers: headers, compiler: compiler, stage: stage, report: report, network: network, root: b.Places.root()}
	set, err := w.buildPeermem(ctx, source, base)
	if err == nil {
		set, err = cache.Cache{Dir: b.Places.Store}.Add(ctx, set)
	}
	return set, errors.Join(err, stage.Close())
}

func (w work) buildPeermem(ctx context.Context, source string, base cache.Set) (cache.Set, error) {
	core, err := module.Read(base.Path("nvidia"))
	if err != nil {
		return cache.Set{}, err
	}
	if open := filepath.Join(source, "kernel-open"); isDir(open) {
		source = open
	}
	w.report.step(StepSources, "")
	dir := filepath.Join(w.stage.Dir, "modules")
	if err := os.CopyFS(dir, os.DirFS(source)); err != nil {
		return cache.Set{}, staging.Explain(w.stage.Dir, err)
	}
	// modpost takes the versions of nvidia's symbols from here, because nvidia is not built.
	symbols := filepath.Join(w.stage.Dir, "nvidia.symvers")
	if err := os.WriteFile(symbols, []byte(symvers(core, w.headers)), 0o600); err != nil {
		return cache.Set{}, staging.Explain(w.stage.Dir, err)
	}
	err = makeRun{
		dir: dir, headers: w.headers, compiler: w.compiler.Program, jobs: w.Jobs, subject: "module nvidia_peermem of driver " + w.Payload.Version,
		log: filepath.Join(filepath.Dir(w.stage.Dir), w.Release+"-peermem.log"),
		variables: append(w.network.variables(w.root), "NV_KERNEL_MODULES="+peermem,
			"KBUILD_EXTRA_SYMBOLS="+symbols+" "+filepath.Join(w.network.Dir, "Module.symvers")),
		progress: func(done, total int) {
			w.report(progress.Progress{Step: StepCompile, Done: done, Total: total})
		},
	}.run(ctx)
	if err != nil {
		return cache.Set{}, err
	}
	m, err := w.finish(ctx, filepath.Join(dir, peermem+".ko"))
	return cache.Set{
		Key: w.PeermemKey(w.headers.Compiler), Modules: []cache.Module{m}, Network: w.network.ID,
		Built: time.Now().UTC().Truncate(time.Second), BuiltWith: w.compiler.Version, Prebuilt: w.Banner == "",
	}, err
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// symvers returns the exported symbols of a module as lines of a Module.symvers, in the format of the
// kernel's own file: Linux 5.4 put the namespace third, Linux 5.6 puts it last, and older kernels have none.
func symvers(m *module.Module, h Headers) string {
	format := "0x%08x\t%s\t%s\tEXPORT_SYMBOL\t\n"
	if f, err := os.Open(filepath.Join(h.Build, "Module.symvers")); err == nil {
		defer f.Close()
		line, _ := bufio.NewReader(f).ReadString('\n')
		switch fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t"); {
		case len(fields) == 4:
			format = "0x%08x\t%s\t%s\tEXPORT_SYMBOL\n"
		case len(fields) == 5 && strings.HasPrefix(fields[4], "EXPORT_"):
			format = "0x%08x\t%s\t\t%s\tEXPORT_SYMBOL\n"
		}
	}
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(m.Provides)) {
		fmt.Fprintf(&out, format, m.Provides[name], name, m.Name)
	}
	return out.String()
}
