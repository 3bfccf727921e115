package devnode

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Existing returns the nodes of the driver in the folder dev. It omits the nodes of GPUDirect
// Storage and of switches, as NVIDIA's toolkit does.
func Existing(dev string) ([]Node, error) {
	name := regexp.MustCompile(`^(nvidia\d+|nvidiactl|nvidia-modeset|nvidia-uvm(-tools)?|nvidia-cap\d+|channel\d+)$`)
	var out []Node
	for _, dir := range []string{"", "nvidia-caps", "nvidia-caps-imex-channels"} {
		entries, err := os.ReadDir(filepath.Join(dev, dir))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list device nodes: %w", err)
		}
		for _, e := range entries {
			n := Node{Name: filepath.Join(dir, e.Name())}
			st, err := stat(filepath.Join(dev, n.Name))
			if err != nil {
				return nil, err
			}
			if name.MatchString(e.Name()) && st != nil && st.Mode&unix.S_IFMT == unix.S_IFCHR {
				n.Major, n.Minor = numbers(st).major, numbers(st).minor
				out = append(out, n)
			}
		}
	}
	return out, nil
}

// Once returns the nodes without duplicate names.
func Once(list []Node) []Node {
	slices.SortStableFunc(list, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(list, func(a, b Node) bool { return a.Name == b.Name })
}

// Links returns the plan for the links char/MAJOR:MINOR to the nodes in dev. char is usually
// /dev/char. A link to one of the nodes under another number is removed, because the number of
// nvidia-uvm can change when the driver is loaded again. The error names the paths of wanted links
// where another kind of file exists.
func Links(dev, char string, nodes []Node) (Plan, error) {
	var plan Plan
	var errs []error
	wanted := map[string]deviceNumber{}
	for _, n := range nodes {
		number, node := deviceNumber{n.Major, n.Minor}, filepath.Join(dev, n.Name)
		wanted[node] = number
		path := filepath.Join(char, number.String())
		target, err := filepath.Rel(char, node)
		if err != nil {
			return nil, err
		}
		is, err := os.Readlink(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			plan = append(plan, Step{Path: path, Target: target})
		case err != nil:
			errs = append(errs, fmt.Errorf("link %s: another file has this path: remove it", path))
		case absolute(char, is) != node && !leadsTo(path, number):
			plan = append(plan, Step{Path: path, Target: target, Was: is})
		}
	}
	stale, err := staleLinks(char, wanted)
	return append(stale, plan...), errors.Join(append(errs, err)...)
}

// staleLinks returns steps that remove links to a wanted node under another number.
func staleLinks(char string, wanted map[string]deviceNumber) (Plan, error) {
	entries, err := os.ReadDir(char)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	var plan Plan
	for _, e := range entries {
		path := filepath.Join(char, e.Name())
		target, err := os.Readlink(path)
		if err != nil {
			continue
		}
		if number, ok := wanted[absolute(char, target)]; ok && number.String() != e.Name() {
			plan = append(plan, Step{Path: path, Was: target})
		}
	}
	return plan, nil
}

// absolute returns the target of a link in a folder as an absolute path.
func absolute(dir, target string) string {
	if filepath.IsAbs(target) {
		return filepath.Clean(target)
	}
	return filepath.Join(dir, target)
}

// leadsTo reports whether a link leads to the device with this number, at any path.
func leadsTo(path string, number deviceNumber) bool {
	var st unix.Stat_t
	return unix.Stat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR && numbers(&st) == number
}
