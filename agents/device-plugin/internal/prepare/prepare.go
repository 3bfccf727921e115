// Package prepare makes what must be on the node before its GPUs are offered:
// the CDI spec that the answers to the kubelet refer to, and the list of device
// nodes that all GPUs share.
package prepare

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"outrigger.dev/agents/device-plugin/internal/allocate"
	"outrigger.dev/agents/device-plugin/internal/config"
	"outrigger.dev/agents/device-plugin/internal/plugin"
	"outrigger.dev/pkg/cdi"
	"outrigger.dev/pkg/driverroot"
	"outrigger.dev/pkg/gpu"
)

// Config says what to prepare, and where.
type Config struct {
	Config config.Config
	// Root is the driver installation.
	Root *driverroot.Root
	// DevRoot is the folder on the host under which the device nodes lie;
	// empty to use the driver root if they are there, and "/" otherwise.
	DevRoot string
	Log     *slog.Logger
}

// Preparer prepares the node.
type Preparer struct{ cfg Config }

var _ plugin.Preparer = (*Preparer)(nil)

// New returns a Preparer; it touches nothing before Scan.
func New(cfg Config) *Preparer { return &Preparer{cfg: cfg} }

// Scan reads the driver root, as far as the config has a use for it. The
// function that it returns writes the CDI spec for the GPUs of a node, unless
// it is there already.
func (p *Preparer) Scan() func(*gpu.Node) (plugin.Prepared, error) {
	var out plugin.Prepared
	if p.cfg.Config.PassDeviceSpecs && !p.cfg.Config.OnlyCDI() {
		out = p.nodes()
	}
	if !p.cfg.Config.CDI() {
		return func(*gpu.Node) (plugin.Prepared, error) { return out, nil }
	}
	content, err := p.find()
	return func(n *gpu.Node) (plugin.Prepared, error) {
		if err == nil {
			err = p.write(content, n)
		}
		if err != nil {
			return plugin.Prepared{}, fmt.Errorf("make the CDI spec of the GPUs: %w", err)
		}
		return out, nil
	}
}

func (p *Preparer) find() (*driverroot.Content, error) {
	if err := p.checkHook(); err != nil {
		return nil, err
	}
	return p.cfg.Root.Find()
}

func (p *Preparer) write(content *driverroot.Content, n *gpu.Node) error {
	name := cdi.ByUUID
	if p.cfg.Config.IDStrategy == config.IDIndex {
		name = cdi.ByIndex
	}
	devices, err := cdi.Devices(n.GPUs, content, name)
	if err != nil {
		return err
	}
	dir := cdi.Dir{Path: p.cfg.Config.CDIRoot, Vendor: allocate.CDIVendor}
	if len(devices) == 0 {
		// A spec without devices is none; one of GPUs that are gone misleads.
		_, err := dir.Sync()
		return err
	}
	spec, err := cdi.Spec(content, devices, cdi.Options{
		Kind:     allocate.CDIVendor + "/" + allocate.CDIClass,
		HookPath: p.cfg.Config.HookPath,
	})
	if err != nil {
		return err
	}
	wrote, err := dir.Sync(spec)
	if err != nil {
		return err
	}
	if wrote {
		p.cfg.Log.Info("cdi spec written", "folder", dir.Path, "kind", spec.Kind, "devices", len(devices), "driver", content.Version)
	}
	return nil
}

// checkHook finds out what it can about the hook: the runtime would refuse
// every container with a GPU if it were missing.
func (p *Preparer) checkHook() error {
	hook := p.cfg.Config.HookPath
	if hook == "" || p.cfg.Root.HostPath() != "/" {
		return nil
	}
	seen, _ := p.cfg.Root.CtrPathOf(hook)
	if _, err := os.Stat(seen); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("find hook %s on the host: %w (install it, or leave nvidia-cdi-hook-path empty for a spec without hooks)", hook, err)
	}
	return nil
}

// nodes finds the device nodes that all GPUs share.
func (p *Preparer) nodes() plugin.Prepared {
	host, seen := p.cfg.DevRoot, p.cfg.DevRoot
	switch {
	case host == "" && exists(filepath.Join(p.cfg.Root.CtrPath(), "dev/nvidiactl")):
		host, seen = p.cfg.Root.HostPath(), p.cfg.Root.CtrPath()
	case host == "":
		host, seen = "/", "/"
	case host != "/":
		// "/dev" is seen where it is on the host, all else in the driver root.
		if ctr, ok := p.cfg.Root.CtrPathOf(host); ok {
			seen = ctr
		}
	}
	out := plugin.Prepared{DevRoot: host}
	for _, path := range []string{"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"} {
		if exists(filepath.Join(seen, path)) {
			out.ControlNodes = append(out.ControlNodes, path)
		}
	}
	return out
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
