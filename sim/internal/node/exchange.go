package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Exchange gives the node another driver and other GPUs, as if the machine were switched off in
// between. Unlike after Delete and Create, the folders that are mounted elsewhere stay, so that
// every program sees the new GPUs. The driver is not loaded. A process that is killed
// leaves the node without a driver, and Exchange can be repeated.
func Exchange(cfg Config) (*Node, error) {
	root, err := checkRoot(cfg.Root)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(cfg.Spec.Validate(), checkLibraries(cfg.Libraries)); err != nil {
		return nil, fmt.Errorf("exchange the GPUs of %s: %w", root, err)
	}
	cfg.Spec.DriverOff = true
	n := &Node{root: root, host: cfg.Host}
	if err := n.locked(func() error { return n.exchange(cfg) }); err != nil {
		return nil, fmt.Errorf("exchange the GPUs of %s: %w%s", root, err, rootHint(err))
	}
	return Open(root, cfg.Host)
}

func (n *Node) exchange(cfg Config) (err error) {
	temp, err := os.MkdirTemp(n.path(stageDir), "new-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	if err := render(temp, cfg); err != nil {
		return err
	}
	if err := Clear(n.root); err != nil {
		return err
	}
	old := filepath.Join(temp, "old")
	if err := os.Rename(n.path(driverRoot), old); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	names := []string{driverRoot, stateFile}
	if cfg.Hook != "" {
		names = append(names, filepath.Join(containerRoot, hookFile))
	}
	for _, name := range names {
		if err := os.Rename(filepath.Join(temp, name), n.path(name)); err != nil {
			return err
		}
	}
	if err := n.showBus(filepath.Join(temp, sysDevices)); err != nil {
		return err
	}
	devices, err := n.devices()
	if err != nil {
		return err
	}
	return n.showDevices(devices, false)
}

// showBus moves the devices of another folder to the PCI bus of the node. It removes devices of
// the machine that are not in the other folder.
func (n *Node) showBus(from string) error {
	bus := n.path(sysDevices)
	there, err := os.ReadDir(bus)
	if err != nil {
		return err
	}
	for _, e := range there {
		if _, err := os.Lstat(filepath.Join(from, e.Name())); errors.Is(err, os.ErrNotExist) {
			if err := os.RemoveAll(filepath.Join(bus, e.Name())); err != nil {
				return err
			}
		}
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() { // a device of the machine can have had the same bus ID
			if err := os.RemoveAll(filepath.Join(bus, e.Name())); err != nil {
				return err
			}
		}
		if err := replace(filepath.Join(from, e.Name()), filepath.Join(bus, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// FollowMachine updates the devices of the machine on the PCI bus of the node, which can appear and
// disappear while the machine runs.
func (n *Node) FollowMachine() error {
	return n.withLock(func() error {
		host, err := sysHost(os.DirFS(n.host.PCIDevices))
		if err != nil {
			return err
		}
		there, err := os.ReadDir(n.path(sysDevices))
		if err != nil {
			return err
		}
		gone := map[string]bool{}
		taken := map[string]bool{}
		for _, e := range there {
			taken[e.Name()] = true
			gone[e.Name()] = e.Type()&os.ModeSymlink != 0
		}
		for _, e := range host {
			name := filepath.Base(e.Path)
			gone[name] = false
			if taken[name] {
				continue
			}
			if err := os.Symlink(e.Target, n.path(e.Path)); err != nil {
				return err
			}
		}
		for name, is := range gone {
			if is {
				if err := os.Remove(n.path(sysDevices, name)); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
