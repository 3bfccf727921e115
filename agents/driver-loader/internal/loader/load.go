package loader

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"outrigger.dev/agents/driver-loader/internal/cache"
	"outrigger.dev/agents/driver-loader/internal/check"
	"outrigger.dev/agents/driver-loader/internal/depmod"
	"outrigger.dev/agents/driver-loader/internal/kernel"
	"outrigger.dev/agents/driver-loader/internal/module"
	"outrigger.dev/agents/driver-loader/internal/stack"
	"outrigger.dev/pkg/cause"
)

// Prerequisites returns the kernel modules that NVIDIA's driver container loads first. On most kernels,
// the driver works without them.
func Prerequisites() []string { return []string{"i2c_core", "ipmi_msghandler", "ipmi_devintf"} }

// load loads the missing modules of a driver, after the kernel's own modules that they depend on.
func (l *Loader) load(ctx context.Context, o Observation, s Step) error {
	b, err := l.built(ctx, o, s.Driver)
	if err != nil {
		return err
	}
	if alone := o.optionalSet(s.Driver, s.optional); s.optional != "" && alone.Dir != b.set.Dir {
		if err := l.addAlone(ctx, b, alone.Key); err != nil {
			return err
		}
	}
	order, absent, others := stack.LoadOrder(b.modules, s.Modules)
	if len(absent) > 0 {
		return cause.New(cause.ModuleNotInDriver, "driver "+s.Driver.Version, "it was built without "+strings.Join(absent, ", "))
	}
	if _, loaded := o.Modules[networkCore]; s.optional == stack.Peermem && slices.Contains(others, networkCore) && !loaded {
		// The kernel's own ib_core would keep the driver of the network adapters from loading its ib_core.
		return cause.New(cause.RDMAUnavailable, "module "+stack.Peermem, "it needs the module "+networkCore+", which the driver of the network adapters has not loaded yet")
	}
	if err := l.loadKernels(ctx, o, others); err != nil {
		return err
	}
	if err := l.recordLoad(o, s.Driver); err != nil {
		return err
	}
	symbols := l.symbols(o)
	if s.optional != "" {
		// It needs symbols of modules that are not the kernel's, such as the driver of network adapters.
		symbols = nil
	}
	for _, name := range order {
		if _, loaded := o.Modules[name]; !loaded {
			if err := l.loadOne(ctx, b.paths[name], s.Driver.Params[name], symbols); err != nil {
				return err
			}
		}
		export(symbols, b.modules[name])
	}
	return nil
}

// recordLoad records the driver with its parameters in the journal, before its first module is loaded: a
// later module can fail, and this process can be killed while a module initializes. It does not record a
// driver whose core was loaded by another program.
func (l *Loader) recordLoad(o Observation, d Driver) error {
	if _, loaded := o.Modules[stack.Core]; loaded && !o.Noted {
		return nil
	}
	return l.journal.edit(func(r *record) { r.Loaded = d })
}

// rehearse makes all checks of load for the modules of a driver, while modules with the same names
// are loaded. So the agent does not unload the loaded driver for a driver that cannot be loaded.
func (l *Loader) rehearse(ctx context.Context, o Observation, d Driver) error {
	b, err := l.built(ctx, o, d)
	if err != nil {
		return err
	}
	wanted := []string{stack.Core}
	for name := range b.modules {
		if _, loaded := o.Modules[name]; loaded && name != stack.Core && !slices.Contains(stack.Optional(stack.All()), name) {
			wanted = append(wanted, name)
		}
	}
	k, err := kernel.Observe(l.cfg.Kernel)
	if err != nil {
		return err
	}
	var errs []error
	symbols := l.symbols(o)
	order, _, others := stack.LoadOrder(b.modules, wanted)
	errs = append(errs, l.installed(o, others)...)
	for _, name := range order {
		errs = append(errs, cause.Errors(check.Module(b.modules[name], k, d.Params[name], symbols))...)
		export(symbols, b.modules[name])
	}
	return errors.Join(errs...)
}

// export adds the symbols of a module, if the symbols of the kernel are known.
func export(symbols check.Symbols, m *module.Module) {
	if symbols != nil {
		maps.Copy(symbols, m.Provides)
	}
}

// built holds the built modules of a driver.
type built struct {
	set cache.Set
	// modules has the metadata of the modules, without their code, by name. paths has their files.
	modules map[string]*module.Module
	paths   map[string]string
}

// built returns the built modules of a driver, after it has compared their digests.
func (l *Loader) built(ctx context.Context, o Observation, d Driver) (built, error) {
	listed, ok := o.set(d)
	if !ok {
		return built{}, fmt.Errorf("load driver %s: its modules are not built", d.Version)
	}
	set, err := l.cache.Find(ctx, listed.Key)
	if err != nil {
		return built{}, err
	}
	b := built{set: set, modules: map[string]*module.Module{}, paths: map[string]string{}}
	return b, b.add(set)
}

// add reads the metadata of the modules of a set. Modules of the set replace modules with the same names.
func (b built) add(set cache.Set) error {
	for _, f := range set.Modules {
		path := filepath.Join(set.Dir, f.File)
		m, err := module.Read(path)
		if err != nil {
			return err
		}
		m.Data = nil
		b.modules[f.Name], b.paths[f.Name] = m, path
	}
	return nil
}

// addAlone adds a module that was built alone.
func (l *Loader) addAlone(ctx context.Context, b built, key cache.Key) error {
	set, err := l.cache.Find(ctx, key)
	if err != nil {
		return err
	}
	return b.add(set)
}

// loadOne checks a module and loads it.
func (l *Loader) loadOne(ctx context.Context, file string, params []string, symbols check.Symbols) error {
	m, err := module.Read(file)
	if err != nil {
		return err
	}
	k, err := kernel.Observe(l.cfg.Kernel)
	if err != nil {
		return err
	}
	if causes := check.Module(m, k, params, symbols); len(causes) > 0 {
		return errors.Join(cause.Errors(causes)...)
	}
	if err := l.recordLoading(m); err != nil {
		return err
	}
	l.cfg.Log.Info("loading module", "module", m.Name, "version", m.Version, "parameters", strings.Join(params, " "))
	return l.calls.Load(ctx, m, params)
}

// loadKernels loads the kernel's own modules. Only an error of a needed module is returned.
func (l *Loader) loadKernels(ctx context.Context, o Observation, needed []string) error {
	index, err := l.index(o)
	if err != nil {
		return err
	}
	loaded := o.Modules
	for _, name := range append(Prerequisites(), needed...) {
		if _, ok := loaded[name]; ok {
			continue
		}
		files, err := index.Files(name)
		if err == nil {
			err = l.loadFiles(ctx, files, loaded)
		}
		if err != nil && slices.Contains(needed, name) {
			return err
		}
		switch {
		case err == nil:
		case cause.Is(err, cause.KernelModuleMissing):
			l.cfg.Log.Debug("a module of the kernel is not installed, continuing without it", "module", name)
		default:
			l.cfg.Log.Warn("cannot load a module of the kernel, continuing without it", "module", name, "err", err)
		}
	}
	return nil
}

// installed returns the causes for modules of the kernel that are neither loaded nor installed.
func (l *Loader) installed(o Observation, needed []string) []error {
	index, err := l.index(o)
	if err != nil {
		return []error{err}
	}
	var errs []error
	for _, name := range needed {
		if _, loaded := o.Modules[name]; !loaded {
			_, err := index.Files(name)
			errs = append(errs, err)
		}
	}
	return errs
}

// index lists the installed modules of the kernel.
func (l *Loader) index(o Observation) (depmod.Index, error) {
	return depmod.Read(filepath.Join(l.cfg.Kernel.Modules, o.Kernel.Release))
}

func (l *Loader) loadFiles(ctx context.Context, files []depmod.File, loaded map[string]kernel.Loaded) error {
	for _, f := range files {
		if _, ok := loaded[f.Name]; ok {
			continue
		}
		m, err := module.Read(f.Path)
		if err == nil {
			l.cfg.Log.Info("loading module", "module", f.Name)
			err = l.calls.Load(ctx, m, nil)
		}
		if err != nil && !cause.Is(err, cause.ModuleAlreadyLoaded) {
			return err
		}
		loaded[f.Name] = kernel.Loaded{Name: f.Name}
	}
	return nil
}

// symbols returns the symbols of the kernel from its headers. Without headers on the node, it returns
// nil, and only the kernel checks symbols.
func (l *Loader) symbols(o Observation) check.Symbols {
	headers, err := l.cfg.Builder.Places.Headers(o.Kernel.Release)
	if err != nil {
		return nil
	}
	f, err := os.Open(filepath.Join(headers.Build, "Module.symvers"))
	if err != nil {
		return nil
	}
	defer f.Close()
	symbols, err := check.ParseSymvers(f)
	if err != nil {
		l.cfg.Log.Warn("cannot read the symbols of the kernel, loading modules without checking their symbols", "err", err)
		return nil
	}
	return symbols
}
