package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Controllers returns the controllers that the root cgroup enables for its children. It returns
// none in version 1, which does not have this setting.
func (t Tree) Controllers() ([]string, error) {
	if !t.unified {
		return nil, nil
	}
	b, err := os.ReadFile(filepath.Join(t.hierarchies[0], "cgroup.subtree_control"))
	if err != nil {
		return nil, fmt.Errorf("read controllers of the root cgroup: %w", err)
	}
	return strings.Fields(string(b)), nil
}

// RestoreControllers disables the controllers that Controllers did not return before. It
// keeps a controller that another cgroup has started to use.
func (t Tree) RestoreControllers(before []string) error {
	now, err := t.Controllers()
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range now {
		if slices.Contains(before, c) {
			continue
		}
		if err := os.WriteFile(filepath.Join(t.hierarchies[0], "cgroup.subtree_control"), []byte("-"+c), 0); err != nil && !errors.Is(err, unix.EBUSY) {
			errs = append(errs, fmt.Errorf("disable controller %s of the root cgroup: %w", c, err))
		}
	}
	return errors.Join(errs...)
}
