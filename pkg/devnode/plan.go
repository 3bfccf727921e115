package devnode

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Step is one change: it makes a device node or a link, or removes a link.
type Step struct {
	// Path of the node or link, as this process sees it.
	Path string
	// Node is the device to make, nil for a link.
	Node *Node
	// Target is the target of a link. A step without Node and Target removes a link.
	Target string
	// Was describes the file at Path before the step, empty if there is none.
	Was string
}

// String describes the step.
func (s Step) String() string {
	what := "remove " + s.Path
	switch {
	case s.Node != nil:
		what = fmt.Sprintf("make %s: character device %d:%d, mode %#o", s.Path, s.Node.Major, s.Node.Minor, s.Node.Mode)
	case s.Target != "":
		what = fmt.Sprintf("link %s -> %s", s.Path, s.Target)
	}
	if s.Was != "" {
		what += fmt.Sprintf(" (it is %s)", s.Was)
	}
	return what
}

// Plan lists changes in their order. It is empty if no change is needed.
type Plan []Step

// Apply does all steps, even after one has failed. It replaces an existing node or link atomically,
// so that its path always exists.
func (p Plan) Apply() error {
	var errs []error
	for _, s := range p {
		if err := s.apply(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s, err))
		}
	}
	return errors.Join(errs...)
}

func (s Step) apply() error {
	if s.Node == nil && s.Target == "" {
		return remove(s.Path)
	}
	dir := filepath.Dir(s.Path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	temp := filepath.Join(dir, "."+filepath.Base(s.Path)+"."+rand.Text())
	err := s.create(temp)
	if err == nil {
		err = os.Rename(temp, s.Path)
	}
	if err != nil {
		return errors.Join(err, remove(temp))
	}
	return nil
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// create makes the node or link at another path.
func (s Step) create(path string) error {
	if s.Node == nil {
		return os.Symlink(s.Target, path)
	}
	n := s.Node
	if err := unix.Mknod(path, unix.S_IFCHR, int(unix.Mkdev(n.Major, n.Minor))); err != nil { //nolint:gosec // Linux has 32 bits
		return fmt.Errorf("%w (it needs CAP_MKNOD, and a file system without nodev)", err)
	}
	if err := os.Lchown(path, n.UID, n.GID); err != nil {
		return err
	}
	return os.Chmod(path, n.Mode)
}

// Undo removes the links that the steps made, unless they have changed. Nodes stay, because running
// containers may use them.
func (p Plan) Undo() error {
	var errs []error
	for _, s := range p {
		if target, err := os.Readlink(s.Path); s.Target != "" && err == nil && target == s.Target {
			errs = append(errs, remove(s.Path))
		}
	}
	return errors.Join(errs...)
}

// Nodes returns the plan that makes the wanted nodes in the folder dev. It replaces only device
// nodes. The error names the paths of wanted nodes where another kind of file exists. Nodes that are
// Fixed are skipped.
func Nodes(dev string, wanted []Node) (Plan, error) {
	var plan Plan
	var errs []error
	for i := range wanted {
		n := &wanted[i]
		if n.Fixed {
			continue
		}
		path := filepath.Join(dev, n.Name)
		is, err := stat(path)
		switch {
		case err != nil:
			errs = append(errs, err)
		case is == nil:
			plan = append(plan, Step{Path: path, Node: n})
		case is.Mode&unix.S_IFMT != unix.S_IFCHR:
			errs = append(errs, fmt.Errorf("make device node %s: the file with this path is not a character device: remove it", path))
		case numbers(is) != (deviceNumber{n.Major, n.Minor}):
			plan = append(plan, Step{Path: path, Node: n, Was: numbers(is).String()})
		}
	}
	return plan, errors.Join(errs...)
}

// Left returns an error with the Fixed nodes among wanted that are missing in the folder dev, or
// have another number. An administrator has to make them.
func Left(dev string, wanted []Node) error {
	var names []string
	for _, n := range wanted {
		is, err := stat(filepath.Join(dev, n.Name))
		there := err == nil && is != nil && is.Mode&unix.S_IFMT == unix.S_IFCHR && numbers(is) == deviceNumber{n.Major, n.Minor}
		if n.Fixed && !there {
			names = append(names, n.Name)
		}
	}
	if names == nil {
		return nil
	}
	return fmt.Errorf("the driver forbids programs to make device nodes, and these are missing in %s: %s; "+
		"make them by hand, or load the kernel module nvidia with NVreg_ModifyDeviceFiles=1", dev, strings.Join(names, ", "))
}

// deviceNumber is the number of a device.
type deviceNumber struct{ major, minor uint32 }

func (p deviceNumber) String() string { return fmt.Sprintf("%d:%d", p.major, p.minor) }

func numbers(st *unix.Stat_t) deviceNumber {
	return deviceNumber{unix.Major(st.Rdev), unix.Minor(st.Rdev)}
}

// stat returns the state of the file at a path, nil if there is none. It does not follow links.
func stat(path string) (*unix.Stat_t, error) {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the state of %s: %w", path, err)
	}
	return &st, nil
}
