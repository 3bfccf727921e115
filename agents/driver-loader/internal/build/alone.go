package build

import (
	"bufio"
	"cmp"
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

// Alone is an optional module that is built alone, with the symbols of the modules of a driver.
type Alone struct {
	// Module is the kernel's name of the module.
	Module string
	// Source is the folder with the sources, and Digest their digest. They are "" for nvidia_peermem, which
	// is in the sources of the driver.
	Source, Digest string
}

// AloneKey returns the cache key of a module that was built alone.
func (r Request) AloneKey(compiler string, a Alone) cache.Key {
	key := r.Key(compiler)
	key.Flavour = AloneFlavour(key.Flavour, a)
	return key
}

// AloneFlavour returns the flavour in the cache key of a module that was built alone.
func AloneFlavour(flavour string, a Alone) string {
	return strings.TrimSuffix(fmt.Sprintf("%s-%s-%.16s", flavour, a.Module, a.Digest), "-")
}

// BuildAlone builds an optional module. The modules in base, a set of the driver, were built before. It
// adds the module to the cache as a set. nvidia_peermem is built with the headers of the driver of network
// adapters, which can come to a node after the driver.
func (b *Builder) BuildAlone(ctx context.Context, r Request, base cache.Set, a Alone) (cache.Set, error) {
	report := reporter(progress.Since(time.Now(), b.Progress))
	driver, err := r.source()
	if err != nil {
		return cache.Set{}, err
	}
	headers, compiler, err := b.toolchain(ctx, r, report)
	if err != nil {
		return cache.Set{}, err
	}
	stage, err := staging.New(filepath.Join(b.Places.Store, "build"))
	if err != nil {
		return cache.Set{}, err
	}
	w := b.work(r, headers, compiler, report)
	w.dir = stage.Dir
	b.Log.Info("building an optional module", "module", a.Module, "kernel", r.Release, "driver", r.Payload.Version, "network", w.network.Dir)
	set, err := w.buildAlone(ctx, driver, base, a)
	if err == nil {
		set, err = cache.Cache{Dir: b.Places.Store}.Add(ctx, set)
	}
	return set, errors.Join(err, stage.Close())
}

// buildAlone builds a module. The folder driver has the sources of the driver.
func (w work) buildAlone(ctx context.Context, driver string, base cache.Set, a Alone) (cache.Set, error) {
	if open := filepath.Join(driver, "kernel-open"); isDir(open) {
		driver = open
	}
	w.report.step(StepSources, "")
	if err := os.CopyFS(w.sources(), os.DirFS(cmp.Or(a.Source, driver))); err != nil {
		return cache.Set{}, staging.Explain(w.dir, err)
	}
	symbols, err := w.coreSymbols(base)
	if err != nil {
		return cache.Set{}, err
	}
	run := makeRun{
		dir: w.sources(), headers: w.headers, compiler: w.compiler.Program, jobs: w.Jobs,
		subject: fmt.Sprintf("module %s for driver %s and kernel %s", a.Module, w.Payload.Version, w.Release),
		log:     filepath.Join(filepath.Dir(w.dir), w.Release+"-"+a.Module+".log"), progress: w.report, now: w.now,
	}
	if a.Source == "" {
		run.variables = w.peermemVariables(symbols)
	} else {
		undo, err := w.forward()
		if err != nil {
			return cache.Set{}, staging.Explain(w.dir, err)
		}
		defer undo()
		run.target, run.variables = "all", w.sourceVariables(driver, symbols)
	}
	if _, err := run.run(ctx); err != nil {
		return cache.Set{}, err
	}
	m, err := w.finish(ctx, filepath.Join(w.sources(), strings.ReplaceAll(a.Module, "_", "-")+".ko"))
	return cache.Set{
		Key: w.AloneKey(w.headers.Compiler, a), Modules: []cache.Module{m}, Network: w.network.ID,
		Built: time.Now().UTC().Truncate(time.Second), BuiltWith: w.compiler.Version, Prebuilt: w.Banner == "",
	}, err
}

// coreSymbols writes the symbols of the built module nvidia to a file in the format of Module.symvers, and
// returns its path. modpost takes the versions of the symbols from it, because nvidia is not built again.
func (w work) coreSymbols(base cache.Set) (string, error) {
	core, err := module.Read(base.Path("nvidia"))
	if err != nil {
		return "", err
	}
	path := filepath.Join(w.dir, "nvidia.symvers")
	return path, staging.Explain(w.dir, os.WriteFile(path, []byte(symvers(core, w.headers)), 0o600))
}

// peermemVariables returns the variables of make that build only nvidia_peermem of the driver's sources.
func (w work) peermemVariables(symbols string) []string {
	return append(w.network.variables(w.container), "NV_KERNEL_MODULES=nvidia-peermem",
		"KBUILD_EXTRA_SYMBOLS="+symbols+" "+filepath.Join(w.network.Dir, "Module.symvers"))
}

// sourceVariables returns the variables of make for the Makefiles of nvidia-fs and gdrdrv. The folder driver
// has the header nv-p2p.h of the driver.
func (w work) sourceVariables(driver, symbols string) []string {
	return []string{
		"KVER=" + w.Release, "KDIR=" + w.forwarder(), "NVIDIA_SRC_DIR=" + filepath.Join(driver, "nvidia"), "CONF_SCRIPT_DIR=scripts",
		"MAKE_PARAMS=KBUILD_EXTRA_SYMBOLS=" + symbols,
	}
}

// forwarder returns the folder with a Makefile that forwards all targets to the kernel's headers.
func (w work) forwarder() string { return filepath.Join(w.dir, "kernel") }

// forward writes the Makefile of forwarder. The scripts of nvidia-fs and gdrdrv test the kernel with plain
// calls of make in /lib/modules/RELEASE/build, and do not know that headers can have two folders, or need
// another compiler. In a container without that folder, forward links it, and undo removes the link.
func (w work) forward() (undo func(), err error) {
	output := ""
	if w.headers.Build != w.headers.Source {
		output = " KBUILD_OUTPUT=" + w.headers.Build
	}
	text := fmt.Sprintf("Makefile: ;\n%%:\n\t+$(MAKE) -C %s%s CC=%s $@\n", w.headers.Source, output, w.compiler.Program)
	dir := w.forwarder()
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "Makefile"), []byte(text), 0o600); err != nil {
		return nil, err
	}
	link := filepath.Join("/lib/modules", w.Release, "build")
	if _, err := os.Lstat(link); !w.container || err == nil {
		return func() {}, nil
	}
	// os.Remove keeps a folder that has other files.
	undo = func() { _, _ = os.Remove(link), os.Remove(filepath.Dir(link)) }
	return undo, errors.Join(os.MkdirAll(filepath.Dir(link), 0o755), os.Symlink(dir, link))
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
