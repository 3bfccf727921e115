// Package prepare makes what must be on the node before its GPUs are advertised:
// the CDI specs to which the answers to the kubelet refer, and the list of device
// nodes that all GPUs share. It finds out which optional hardware is present.
package prepare

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"outrigger.dev/agents/device-plugin/internal/allocate"
	"outrigger.dev/agents/device-plugin/internal/inventory"
	"outrigger.dev/pkg/cdi"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/driverroot"
	"outrigger.dev/pkg/gpu"
)

// Config says where to prepare.
type Config struct {
	// Root is the driver installation.
	Root *driverroot.Root
	// DevRoot is the folder on the host under which the device nodes lie;
	// empty to use the driver root if they are there, and "/" otherwise.
	DevRoot string
	// Vendor of the CDI specs; empty is allocate.CDIVendor.
	Vendor string
	// Toolkit says where the container toolkit has installed its hook. A spec names it
	// unless the config has another one: one hook is faster than mounting each library
	// under all of its names.
	Toolkit Toolkit
	Log     *slog.Logger
}

// Preparer prepares the node. It is used by one goroutine at a time.
type Preparer struct {
	cfg   Config
	specs *cdi.Publisher
	// extras are those that were read where no spec is published.
	extras driverroot.Extras
	// hook is the toolkit's hook that the last Scan found.
	hook string
	// given is what containers may have got in the life of the process.
	used usedNames
	// reported are the problems that the log has, by their subject.
	reported map[string]string
}

var _ inventory.Preparer = (*Preparer)(nil)

// New returns a Preparer; it touches nothing before Scan.
func New(cfg Config) *Preparer {
	cfg.Vendor = cmp.Or(cfg.Vendor, allocate.CDIVendor)
	p := &Preparer{cfg: cfg, reported: map[string]string{}}
	var kinds []string
	for _, class := range append([]string{allocate.CDIClass}, extraClasses()...) {
		kinds = append(kinds, p.kind(class))
	}
	p.specs = cdi.NewPublisher(cdi.Config{Root: cfg.Root, Kinds: kinds, Log: cfg.Log})
	return p
}

// Outdated reports whether the driver's files, the folders of device nodes or the
// CDI specs have changed since they were prepared.
func (p *Preparer) Outdated() bool {
	return p.specs.Outdated() || p.extras.Outdated() || p.cfg.Toolkit.hook() != p.hook
}

// Watched returns the files and folders in which a change makes the Preparer
// outdated.
func (p *Preparer) Watched() []string {
	return slices.Concat(p.specs.Watched(), p.extras.Watched(), p.cfg.Toolkit.watched())
}

// Scan reads the driver root, as far as the config has a use for it. The
// function that it returns writes the CDI specs for the GPUs of a node, unless
// they are there already, and removes those that no container can refer to.
func (p *Preparer) Scan(c config.Config) func(*gpu.Node) (inventory.Prepared, error) {
	s := p.scan(c)
	return func(n *gpu.Node) (inventory.Prepared, error) {
		out, err := p.prepareExtras(c, s.extras)
		if err != nil {
			return inventory.Prepared{}, err
		}
		if c.PassDeviceSpecs && !c.OnlyCDI() {
			p.findNodes(&out)
		}
		unresolved, err := p.publish(c, s, n)
		if !c.CDI() {
			// No new container needs the specs, which are kept for those that run.
			p.report("cdi specs of running containers", err)
			return out, nil
		}
		if err != nil {
			return inventory.Prepared{}, fmt.Errorf("make the CDI spec of the GPUs: %w", err)
		}
		out.Unresolved = unresolved
		p.used = p.used.with(c)
		out.CDIClasses = foundClasses(c, s.extras)
		return out, nil
	}
}

// scanned is what was read of the driver root.
type scanned struct {
	extras driverroot.Extras
	// options are the hook and the features of the specs.
	options cdi.Options
	// err is why no spec can be written.
	err error
}

func (p *Preparer) scan(c config.Config) scanned {
	p.extras, p.hook = driverroot.Extras{}, p.cfg.Toolkit.hook()
	s := scanned{}
	if c.CDI() || p.used.cdi() {
		var content *driverroot.Content
		if content, s.options, s.err = p.scanRoot(p.used.with(c).last); s.err == nil {
			s.extras = content.Extras
			return s
		}
	}
	if c.CDI() || p.used.cdi() || len(enabledClasses(c)) > 0 || c.PassDeviceSpecs {
		p.extras = p.cfg.Root.FindExtras()
	}
	s.extras = p.extras
	return s
}

func (p *Preparer) scanRoot(c config.Config) (*driverroot.Content, cdi.Options, error) {
	features, void, err := cdi.ParseFeatures(c.CDIFeatureFlags, c.CDIDisableHooks)
	o := cdi.Options{HookPath: cmp.Or(c.HookPath, p.hook), Features: features}
	o.OneHook = o.HookPath != "" && o.HookPath == p.hook
	if err != nil {
		return nil, o, err
	}
	for _, v := range void {
		p.report(v, errors.New("use it in a CDI spec: it has no effect there"))
	}
	content, err := p.specs.Scan(o.HookPath)
	return content, o, err
}

// report logs a problem that does not keep the GPUs from being advertised: once,
// and again when it has changed. A nil error ends the problem.
func (p *Preparer) report(subject string, err error) {
	if err == nil {
		delete(p.reported, subject)
		return
	}
	if text := err.Error(); p.reported[subject] != text {
		p.reported[subject] = text
		p.cfg.Log.Warn("advertising gpus without a part of what the config asks for", "part", subject, "err", err)
	}
}
