// Package prepare makes what must be on the node before its GPUs are offered:
// the CDI specs that the answers to the kubelet refer to, and the list of device
// nodes that all GPUs share. It finds out which optional hardware is there.
package prepare

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

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
	Log    *slog.Logger
}

// Preparer prepares the node. It is used by one goroutine at a time.
type Preparer struct {
	cfg Config
	// outdated tells whether what was scanned has changed, nil before Scan.
	outdated func() bool
	// given is what containers may have been given in the life of the process.
	given given
	// told are the troubles that were told, by what they are about.
	told map[string]string
}

var _ inventory.Preparer = (*Preparer)(nil)

// New returns a Preparer; it touches nothing before Scan.
func New(cfg Config) *Preparer {
	cfg.Vendor = cmp.Or(cfg.Vendor, allocate.CDIVendor)
	return &Preparer{cfg: cfg, told: map[string]string{}}
}

// Outdated reports whether the driver's files, or the folders of device nodes,
// have changed since the last Scan.
func (p *Preparer) Outdated() bool { return p.outdated != nil && p.outdated() }

// Scan reads the driver root, as far as the config has a use for it. The
// function that it returns writes the CDI specs for the GPUs of a node, unless
// they are there already, and removes those that nobody can refer to.
func (p *Preparer) Scan(c config.Config) func(*gpu.Node) (inventory.Prepared, error) {
	s := p.scan(c)
	return func(n *gpu.Node) (inventory.Prepared, error) {
		out, err := p.extras(c, s.extras)
		if err != nil {
			return inventory.Prepared{}, err
		}
		if c.PassDeviceSpecs && !c.OnlyCDI() {
			p.nodes(&out)
		}
		specs := p.specs(c, s)
		if !c.CDI() {
			// Nobody waits for the specs, which are only kept for what was given.
			_, err := specs(n)
			p.tell("cdi specs of running containers", err)
			return out, nil
		}
		if out.Unresolved, err = specs(n); err != nil {
			return inventory.Prepared{}, fmt.Errorf("make the CDI spec of the GPUs: %w", err)
		}
		p.given = p.given.with(c)
		out.CDIClasses = classes(c, s.extras)
		return out, nil
	}
}

// scanned is what was read of the driver root.
type scanned struct {
	// content is nil if it is of no use, or incomplete.
	content *driverroot.Content
	extras  driverroot.Extras
	// features are those of the specs.
	features cdi.Features
	// err is why there can be no spec.
	err error
}

func (p *Preparer) scan(c config.Config) scanned {
	if !c.CDI() && !p.given.cdi() {
		s := scanned{}
		if len(wanted(c)) > 0 || c.PassDeviceSpecs {
			s.extras = p.cfg.Root.FindExtras()
		}
		p.outdated = s.extras.Outdated
		return s
	}
	s := p.find(p.given.with(c).last)
	if s.content == nil {
		s.extras = p.cfg.Root.FindExtras()
		p.outdated = s.extras.Outdated
		return s
	}
	s.extras = s.content.Extras
	p.outdated = s.content.Outdated
	return s
}

func (p *Preparer) find(c config.Config) scanned {
	features, void, err := cdi.ParseFeatures(c.CDIFeatureFlags, c.CDIDisableHooks)
	if err != nil {
		return scanned{err: err}
	}
	for _, v := range void {
		p.tell(v, errors.New("use it in a CDI spec: it changes nothing there"))
	}
	if err := p.checkHook(c.HookPath); err != nil {
		return scanned{err: err}
	}
	content, err := p.cfg.Root.Find()
	return scanned{content: content, features: features, err: err}
}

// checkHook finds out what it can about the hook: the runtime would refuse
// every container with a GPU if it were missing.
func (p *Preparer) checkHook(hook string) error {
	if hook == "" || p.cfg.Root.HostPath() != "/" {
		return nil
	}
	seen, _ := p.cfg.Root.CtrPathOf(hook)
	if _, err := os.Stat(seen); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("find hook %s on the host: %w (install it, or leave nvidia-cdi-hook-path empty for a spec without hooks)", hook, err)
	}
	return nil
}

// tell tells a trouble that does not keep the GPUs from being offered: once,
// and again when it has changed. It goes with a nil error.
func (p *Preparer) tell(about string, err error) {
	if err == nil {
		delete(p.told, about)
		return
	}
	if text := err.Error(); p.told[about] != text {
		p.told[about] = text
		p.cfg.Log.Warn("gpus are offered without a part of what the config asks for", "part", about, "err", err)
	}
}
