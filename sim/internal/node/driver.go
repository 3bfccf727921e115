package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"outrigger.dev/sim/internal/state"
	"outrigger.dev/sim/internal/tree"
)

// SetDriver loads or unloads the driver for all programs in the node. It completes the work of a
// process that was killed.
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

// loaded reports whether the driver is completely loaded. The control node appears last, so it is
// missing if a process was killed while it loaded the driver.
func (n *Node) loaded(snap state.Snapshot) bool {
	_, err := os.Lstat(n.path(devCtl))
	return snap.Driver.Loaded && err == nil
}

// load follows the order of a real load. A container provides the files, the module appears in
// procfs and binds the GPUs, and the device nodes appear, with the control node last. A program
// that waits for a node can therefore use NVML as soon as the node appears.
func (n *Node) load(snap state.Snapshot, devices procDevices) error {
	err := errors.Join(n.remove(loadSteps(snap, devices.majors())), n.hideContainerRoot()) // left by a load that was killed
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

// unload reverses load. It continues after an error, and ignores the parts that a killed unload has
// already removed.
func (n *Node) unload(snap state.Snapshot, devices procDevices) error {
	return errors.Join(
		n.remove(nodeSteps(snap, devices.majors())),
		n.state.SetDriver(false),
		n.showDevices(devices, false),
		n.remove(moduleSteps(snap)),
		n.hideContainerRoot(),
	)
}

// containerDirs returns the folders of the driver root in the order of their appearance. The
// libraries appear after all files that they need.
func containerDirs() []string { return []string{"lib", "etc", "usr"} }

// showContainerRoot shows the driver root below /run, as a driver container does. The files are the
// same inodes.
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
