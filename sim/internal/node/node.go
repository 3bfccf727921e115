package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"outrigger.dev/sim/internal/state"
)

// ErrNotFound means that a folder is not a simulated node.
var ErrNotFound = errors.New("no simulated node")

// ErrReplaced means that the node was deleted or got other GPUs after it was opened.
var ErrReplaced = errors.New("the node was replaced meanwhile; repeat the command")

// Node is a rendered node. Several processes may use its methods at the same time.
type Node struct {
	root  string
	host  Host
	state *state.State
}

// Host has the paths of the machine's own devices.
type Host struct {
	// ProcDevices is the file with the majors in use. PCIDevices is the folder with the devices on the
	// PCI bus.
	ProcDevices, PCIDevices string
	// Dev is the folder in which Create lets the node make its device nodes: the machine's /dev. If it
	// is empty, the node has a /dev of its own.
	Dev string
}

// Machine returns the Host of the current machine.
func Machine() Host {
	return Host{ProcDevices: "/proc/devices", PCIDevices: "/sys/bus/pci/devices"}
}

// Open opens the node in the folder root.
func Open(root string, host Host) (*Node, error) {
	root, err := checkRoot(root)
	if err != nil {
		return nil, err
	}
	st, err := state.Open(filepath.Join(root, stateFile))
	if err != nil {
		return nil, err
	}
	n := &Node{root: root, host: host, state: st}
	if err := st.ShowAt(n.path(procDir), n.path(devDir)); err != nil {
		return nil, errors.Join(err, st.Close())
	}
	return n, nil
}

// checkRoot returns the absolute path of a node's folder.
func checkRoot(root string) (string, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return "", fmt.Errorf("find node %s: %w", root, err)
	}
	_, err = os.Lstat(filepath.Join(root, stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("open %s: %w there; make one with \"gpu-sim create --root %s\"", root, ErrNotFound, root)
	}
	if err != nil {
		return "", fmt.Errorf("open node %s: %w", root, err)
	}
	return root, nil
}

// Close releases the node's state.
func (n *Node) Close() error { return n.state.Close() }

// Root returns the node's folder.
func (n *Node) Root() string { return n.root }

// State returns the node's state. The kernel's files are derived from it, so callers must load the
// driver, and plug and unplug GPUs, through the Node.
func (n *Node) State() *state.State { return n.state }

func (n *Node) path(elem ...string) string {
	return filepath.Join(append([]string{n.root}, elem...)...)
}

// withLock runs change while no other process changes the folder. First, it repairs the folder if a
// process was killed during a change.
func (n *Node) withLock(change func() error) error {
	return n.locked(func() error {
		if !n.state.Current() {
			return fmt.Errorf("change node %s: %w", n.root, ErrReplaced)
		}
		if err := n.repair(); err != nil {
			return fmt.Errorf("repair node %s: %w", n.root, err)
		}
		return change()
	})
}

// locked runs change while no other process changes the folder, and repairs nothing.
func (n *Node) locked(change func() error) (err error) {
	f, err := os.OpenFile(n.path(lockFile), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("lock node %s: %w%s", n.root, err, rootHint(err))
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock node %s: %w", n.root, err)
	}
	return change()
}

// Delete unloads the driver of the node at root, and removes the folder. It also deletes a node
// with a damaged state.
func Delete(root string) error {
	root, err := checkRoot(root)
	if err != nil {
		return err
	}
	err = inParent(root, func() error { return remove(root) })
	if err != nil {
		return fmt.Errorf("delete node %s: %w%s", root, err, rootHint(err))
	}
	return nil
}

// remove first renames the folder. A user without the permission to rename it must not unload the
// driver either.
func remove(root string) error {
	gone, err := os.MkdirTemp(filepath.Dir(root), tempPrefix(root))
	if err != nil {
		return err
	}
	node := filepath.Join(gone, "node")
	if err := os.Rename(root, node); err != nil {
		return errors.Join(err, os.Remove(gone))
	}
	if err := Clear(node); err != nil {
		return fmt.Errorf("unload the driver: %w", err)
	}
	return os.RemoveAll(gone)
}
