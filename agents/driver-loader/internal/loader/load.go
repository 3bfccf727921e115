package loader

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"outrigger.dev/agents/driver-loader/internal/cache"
	"outrigger.dev/agents/driver-loader/internal/cause"
	"outrigger.dev/agents/driver-loader/internal/check"
	"outrigger.dev/agents/driver-loader/internal/depmod"
	"outrigger.dev/agents/driver-loader/internal/kernel"
	"outrigger.dev/agents/driver-loader/internal/module"
	"outrigger.dev/agents/driver-loader/internal/stack"
	"outrigger.dev/pkg/driverproc"
)

// Codes of causes.
const (
	// NotInDriver: the driver was built without a module that is wanted.
	NotInDriver cause.Code = "ModuleNotInDriver"
	// NoAnswer: a device of the driver cannot be opened.
	NoAnswer cause.Code = "DriverDoesNotAnswer"
)

// Prerequisites are modules of the kernel that NVIDIA's driver container loads first. The
// driver works without them on most kernels.
func Prerequisites() []string { return []string{"i2c_core", "ipmi_msghandler", "ipmi_devintf"} }

// load loads the modules of a driver that are not loaded, and the kernel's own that they need.
func (l *Loader) load(ctx context.Context, o Observation, s Step) error {
	listed, ok := o.set(s.Driver)
	if !ok {
		return fmt.Errorf("load driver %s: its modules are not built", s.Driver.Version)
	}
	// What was read from the disk at another time has to be what was built.
	set, err := l.cache.Find(ctx, listed.Key)
	if err != nil {
		return err
	}
	driver, err := read(set)
	if err != nil {
		return err
	}
	order, absent, others := stack.LoadOrder(driver, s.Modules)
	if len(absent) > 0 {
		return cause.Cause{
			Code: NotInDriver, Subject: "driver " + s.Driver.Version, Text: "it was built without " + strings.Join(absent, ", "),
			Fix: "turn off the feature that needs it, or use a driver that has it",
		}
	}
	if err := l.loadKernels(ctx, o, others); err != nil {
		return err
	}
	symbols := l.symbols(o)
	for _, name := range order {
		m := driver[name]
		if _, loaded := o.Modules[name]; !loaded {
			if err := l.loadOne(ctx, filepath.Join(set.Dir, fileOf(set, name)), s.Driver.Params[name], symbols); err != nil {
				return err
			}
		}
		for symbol, version := range m.Provides {
			if symbols != nil {
				symbols[symbol] = version
			}
		}
	}
	return l.journal.edit(func(r *record) { r.Loaded = s.Driver })
}

// read reads what the modules of a set say about themselves, without their code.
func read(set cache.Set) (map[string]*module.Module, error) {
	out := map[string]*module.Module{}
	for _, f := range set.Modules {
		m, err := module.Read(filepath.Join(set.Dir, f.File))
		if err != nil {
			return nil, err
		}
		m.Data = nil
		out[f.Name] = m
	}
	return out, nil
}

// fileOf returns the name of the file of a module.
func fileOf(set cache.Set, name string) string {
	i := slices.IndexFunc(set.Modules, func(m cache.Module) bool { return m.Name == name })
	return set.Modules[i].File
}

// loadOne checks a module and loads it.
func (l *Loader) loadOne(ctx context.Context, file string, params []string, symbols check.Symbols) error {
	m, err := module.Read(file)
	if err != nil {
		return err
	}
	var errs []error
	k, err := kernel.Observe(l.cfg.Kernel)
	if err != nil {
		return err
	}
	for _, c := range check.Module(m, k, params, symbols) {
		errs = append(errs, c)
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	l.cfg.Log.Info("loading module", "module", m.Name, "version", m.Version, "parameters", strings.Join(params, " "))
	return l.calls.Load(ctx, m, params)
}

// loadKernels loads modules of the kernel that the driver needs.
func (l *Loader) loadKernels(ctx context.Context, o Observation, needed []string) error {
	index, err := depmod.Read(filepath.Join(l.cfg.Kernel.Modules, o.Kernel.Release))
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
		if err != nil {
			l.cfg.Log.Info("cannot load a module of the kernel, going on without it", "module", name, "err", err)
		}
	}
	return nil
}

func (l *Loader) loadFiles(ctx context.Context, files []depmod.File, loaded map[string]kernel.Loaded) error {
	for _, f := range files {
		if _, ok := loaded[f.Name]; ok {
			continue
		}
		m, err := module.Read(f.Path)
		if err == nil {
			err = l.calls.Load(ctx, m, nil)
		}
		var c cause.Cause
		if err != nil && (!errors.As(err, &c) || c.Code != kernel.AlreadyLoaded) {
			return err
		}
		loaded[f.Name] = kernel.Loaded{Name: f.Name}
	}
	return nil
}

// symbols returns those of the kernel, if its headers are on the node. Else the kernel
// checks them alone.
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
		l.cfg.Log.Warn("cannot read the symbols of the kernel, leaving the check to it", "err", err)
		return nil
	}
	return symbols
}

// validate opens the driver's control device and each GPU, as NVML does first. That makes
// the driver initialize a GPU. One that does not answer costs this GPU, unless it is the only one.
func (l *Loader) validate(ctx context.Context, o Observation) error {
	if err := open(ctx, filepath.Join(l.cfg.Nodes.Dev, "nvidiactl")); err != nil {
		return unanswered(o, err)
	}
	var errs []error
	driver := driverproc.Root(l.cfg.Kernel.Proc)
	buses := driver.BusIDs()
	for _, bus := range buses {
		g, err := driver.GPU(bus)
		if err == nil && g.Minor != driverproc.NoMinor {
			err = open(ctx, filepath.Join(l.cfg.Nodes.Dev, fmt.Sprintf("nvidia%d", g.Minor)))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("GPU %s: %w", bus, err))
		}
	}
	if len(buses) == 0 {
		return unanswered(o, errors.New("it has taken none of the GPUs"))
	}
	if len(errs) == len(buses) {
		return unanswered(o, errors.Join(errs...))
	}
	for _, err := range errs {
		l.cfg.Log.Error("a GPU does not answer, the others are used", "err", err)
	}
	return nil
}

// unanswered is the cause that a driver does not work.
func unanswered(o Observation, err error) error {
	return cause.Cause{
		Code: NoAnswer, Subject: "driver " + o.Running.Version, Text: err.Error(),
		Fix: "look at the kernel's log: dmesg | grep -i NVRM; a GPU of Blackwell and later needs the open modules",
	}
}

// open opens and closes a device.
func open(ctx context.Context, path string) error {
	result := make(chan error, 1)
	go func() {
		fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err == nil {
			err = unix.Close(fd)
		}
		result <- err
	}()
	select {
	case err := <-result:
		if err != nil {
			return fmt.Errorf("open %s: %w", path, err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("open %s: the driver does not answer: %w", path, ctx.Err())
	}
}
