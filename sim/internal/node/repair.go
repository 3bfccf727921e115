package node

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"
)

// tempPrefix is the prefix of temporary folders next to the node at root. They exist while the node
// is made or removed.
func tempPrefix(root string) string { return "." + filepath.Base(root) + "-gpu-sim-" }

// inParent runs change while no other process makes or removes a node in the parent of root. First,
// it removes temporary folders of a process that was killed.
func inParent(root string, change func() error) (err error) {
	parent := filepath.Dir(root)
	f, err := os.Open(parent)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", parent, err)
	}
	entries, err := f.ReadDir(-1)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), tempPrefix(root)) {
			if err := os.RemoveAll(filepath.Join(parent, e.Name())); err != nil {
				return err
			}
		}
	}
	return change()
}

// repair removes the remains of a change whose process was killed: staged entries, and GPUs that
// are not in the state. The caller holds the node's lock, so that no other process changes the
// node.
func (n *Node) repair() error {
	staged, err := os.ReadDir(n.path(stageDir))
	if err != nil {
		return err
	}
	for _, e := range staged {
		if err := os.RemoveAll(n.path(stageDir, e.Name())); err != nil {
			return err
		}
	}
	strays, err := n.strays()
	if err != nil {
		return err
	}
	if err := n.remove([]step{{tops: strays}}); err != nil {
		return err
	}
	// A program that changed MIG instances might not have seen the node's folders.
	return n.state.ShowInstances()
}

// strays returns the kernel's paths of GPUs that are not plugged.
func (n *Node) strays() ([]string, error) {
	plugged := map[string]bool{}
	snap := n.state.Show()
	for _, g := range snap.GPUs {
		for _, s := range gpuSteps(snap, g) {
			for _, top := range s.tops {
				plugged[top] = true
			}
		}
	}
	var strays []string
	for dir, name := range map[string]*regexp.Regexp{
		sysDevices:                   regexp.MustCompile(`.`),
		procGPUs:                     regexp.MustCompile(`.`),
		procNvidia + "/capabilities": regexp.MustCompile(`^gpu[0-9]+$`),
		devDir:                       regexp.MustCompile(`^(nvidia[0-9]+|\.gpu-sim-.*)$`),
	} {
		entries, err := os.ReadDir(n.path(dir))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			top := path.Join(dir, e.Name())
			// A link on the bus is a device of the machine.
			link := e.Type()&os.ModeSymlink != 0
			if name.MatchString(e.Name()) && !link && !plugged[top] {
				strays = append(strays, top)
			}
		}
	}
	return strays, nil
}
