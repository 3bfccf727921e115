// Package prepare prepares the node before its GPUs are advertised: it writes the CDI specs
// that answers to the kubelet refer to, lists the device nodes that all GPUs share, and
// finds optional hardware.
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

// Config configures a Preparer.
type Config struct {
	// Root is the driver installation.
	Root *driverroot.Root
	// Vendor is the vendor of the CDI specs. The default is allocate.CDIVendor.
	Vendor string
	// Toolkit finds the hook of the container toolkit. A CDI spec names this hook unless the
	// config sets another one. One hook is faster than a mount of each library under each of
	// its names.
	Toolkit Toolkit
	Log     *slog.Logger
}

// Preparer prepares the node. It is not safe for concurrent use.
type Preparer struct {
	cfg   Config
	specs *cdi.Publisher
	// extras has the optional hardware that the last Scan without a CDI strategy has found.
	extras driverroot.Extras
	// hook is the toolkit's hook that the last Scan found.
	hook hook
	// used has the CDI names that containers may use.
	used usedNames
	// reported has the problems that were logged, by their subject.
	reported map[string]string
}

var _ inventory.Preparer = (*Preparer)(nil)

// New returns a Preparer. It does nothing before Scan.
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

// Watched returns the files and folders whose changes can make the prepared node outdated.
func (p *Preparer) Watched() []string {
	return slices.Concat(p.specs.Watched(), p.extras.Watched(), p.cfg.Toolkit.watched())
}

// Scan reads the parts of the driver root that the config needs. It returns a function that
// writes the CDI specs for the GPUs of a node, if they differ, and removes the specs that no
// container can refer to.
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
			// New containers do not need the specs. They are kept for running containers.
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

// scanned is the result of a scan of the driver root.
type scanned struct {
	extras driverroot.Extras
	// options has the hook and the features of the CDI specs.
	options cdi.Options
	// err is the reason why CDI specs cannot be written.
	err error
}

func (p *Preparer) scan(c config.Config) scanned {
	p.extras, p.hook = driverroot.Extras{}, p.cfg.Toolkit.hook()
	p.report("hook of the container toolkit", p.hook.err())
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
	o := cdi.Options{HookPath: cmp.Or(c.HookPath, p.hook.path), Features: features}
	o.OneHook = o.HookPath != "" && o.HookPath == p.hook.path
	if err != nil {
		return nil, o, err
	}
	for _, v := range void {
		p.report(v, errors.New("it has no effect on CDI specs"))
	}
	content, err := p.specs.Scan(o.HookPath)
	return content, o, err
}

// report logs a problem that does not prevent the advertisement of the GPUs. It logs the
// problem once, and again when it changes. A nil error ends the problem.
func (p *Preparer) report(subject string, err error) {
	if err == nil {
		delete(p.reported, subject)
		return
	}
	if text := err.Error(); p.reported[subject] != text {
		p.reported[subject] = text
		p.cfg.Log.Warn("cannot do a part of the config, advertising gpus without it", "part", subject, "err", err)
	}
}
