package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"outrigger.dev/sim/internal/state"
	"outrigger.dev/sim/internal/tree"
)

// SetDriver loads or unloads the driver, visibly for all who run in the node.
// It completes what one that was killed has begun.
func (n *Node) SetDriver(loaded bool) error {
	return n.withLock(func() error {
		snap := n.state.Show()
		if loaded && n.loaded(snap) {
			return nil
		}
		devices, err := n.devices()
		if err != nil {
			return err
		}
		if loaded {
			err = n.load(snap, devices)
		} else {
			err = n.unload(snap, devices)
		}
		if err != nil {
			return fmt.Errorf("set driver of %s: %w", n.root, err)
		}
		return nil
	})
}

// loaded reports whether the driver is loaded whole. The control node is the last
// that comes with it, so one that was killed while it loaded has not made it.
func (n *Node) loaded(snap state.Snapshot) bool {
	_, err := os.Lstat(n.path(devCtl))
	return snap.Driver.Loaded && err == nil
}

// load follows the order of a real load: a container brings the files, the
// module shows itself in procfs and takes the GPUs, and the device nodes come
// last, the control node as the very last. So who waits for a node, and asks
// NVML when it appears, gets an answer.
func (n *Node) load(snap state.Snapshot, devices procDevices) error {
	err := errors.Join(n.remove(loadSteps(snap, devices.majors())), n.hideContainerRoot()) // what a killed load left
	if err != nil {
		return err
	}
	err = n.showContainerRoot()
	if err == nil {
		err = n.install(moduleSteps(snap))
	}
	if err == nil {
		err = n.showDevices(devices, true)
	}
	if err == nil {
		err = n.state.SetDriver(true)
	}
	if err == nil {
		err = n.install(nodeSteps(snap, devices.majors()))
	}
	if err != nil {
		return errors.Join(err, n.unload(snap, devices))
	}
	return nil
}

// unload goes the way back. It does what it can: the first error ends nothing,
// and what an unload that was killed has done already is no error.
func (n *Node) unload(snap state.Snapshot, devices procDevices) error {
	return errors.Join(
		n.remove(nodeSteps(snap, devices.majors())),
		n.state.SetDriver(false),
		n.showDevices(devices, false),
		n.remove(moduleSteps(snap)),
		n.hideContainerRoot(),
	)
}

// containerDirs are the folders of the driver root, in the order in which they
// appear: the libraries come when all they need is there.
func containerDirs() []string { return []string{"lib", "etc", "usr"} }

// showContainerRoot gives the driver root a second name below /run, as a
// driver container does. Its files are the same inodes.
func (n *Node) showContainerRoot() (err error) {
	stage, err := os.MkdirTemp(n.path(stageDir), "new-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(stage)) }()
	if err := tree.Clone(n.path(driverRoot), stage); err != nil {
		return err
	}
	for _, dir := range containerDirs() {
		if err := os.Rename(filepath.Join(stage, dir), n.path(containerRoot, dir)); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) hideContainerRoot() error {
	var tops []string
	for _, dir := range containerDirs() {
		tops = append(tops, filepath.Join(containerRoot, dir))
	}
	return n.remove([]step{{tops: tops}})
}
