// Package cgroup manages a tree of cgroups with the same name in every hierarchy of the machine:
// the separate hierarchies of version 1, or the only one of version 2.
package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// MountPoint is the mount point of cgroups in every distribution.
const MountPoint = "/sys/fs/cgroup"

// pollInterval is the interval between checks for dying processes. Only version 2 has an
// event for an empty cgroup.
const pollInterval = 20 * time.Millisecond

// Tree is the cgroup with the same name in each hierarchy.
type Tree struct {
	name string
	// hierarchies are the root folders of all hierarchies. Version 2 has one.
	hierarchies []string
	unified     bool
}

// Find finds the hierarchies mounted at or below mountPoint, which is MountPoint on a
// machine. It creates nothing.
func Find(mountPoint, name string) (Tree, error) {
	t := Tree{name: name}
	kind, err := filesystem(mountPoint)
	if err != nil {
		return t, err
	}
	if kind == unix.CGROUP2_SUPER_MAGIC {
		t.unified = true
		t.hierarchies = []string{mountPoint}
		return t, nil
	}
	entries, err := os.ReadDir(mountPoint)
	if err != nil {
		return t, fmt.Errorf("list cgroup hierarchies: %w", err)
	}
	for _, e := range entries {
		// Links such as cpu -> cpu,cpuacct are second names of a hierarchy.
		if !e.IsDir() {
			continue
		}
		dir := filepath.Join(mountPoint, e.Name())
		kind, err := filesystem(dir)
		if err != nil {
			return t, err
		}
		if kind == unix.CGROUP_SUPER_MAGIC || kind == unix.CGROUP2_SUPER_MAGIC {
			t.hierarchies = append(t.hierarchies, dir)
		}
	}
	if len(t.hierarchies) == 0 {
		return t, fmt.Errorf("find cgroup hierarchies: no hierarchy is mounted below %s: mount them first", mountPoint)
	}
	return t, nil
}

// filesystem returns the magic number of the file system at path.
func filesystem(path string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return 0, fmt.Errorf("stat file system at %s: %w", path, err)
	}
	return s.Type, nil
}

// Path returns the tree's cgroup, or one below it, as the kernel names it.
func (t Tree) Path(child ...string) string {
	return "/" + filepath.Join(append([]string{t.name}, child...)...)
}

// Create creates the cgroup and its parents in each hierarchy, ready for processes or
// more cgroups.
func (t Tree) Create(child ...string) error {
	for _, root := range t.hierarchies {
		dir := root
		for _, part := range append([]string{t.name}, child...) {
			if t.unified {
				if err := enableControllers(dir); err != nil {
					return err
				}
			}
			parent := dir
			dir = filepath.Join(dir, part)
			if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("create cgroup: %w", err)
			}
			if t.unified {
				continue // An empty CPU set means the set of the parent.
			}
			if err := inheritCPUs(parent, dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// enableControllers enables all controllers of a version 2 cgroup for its children.
func enableControllers(dir string) error {
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return fmt.Errorf("read cgroup controllers: %w", err)
	}
	for c := range strings.FieldsSeq(string(b)) {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+c), 0); err != nil {
			return fmt.Errorf("enable controller %s below %s (the cgroup may hold no process of its own): %w", c, dir, err)
		}
	}
	return nil
}

// inheritCPUs sets the CPU sets of a new version 1 cgroup. They are empty at first, and an empty
// set admits no process.
func inheritCPUs(parent, dir string) error {
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || len(strings.TrimSpace(string(b))) > 0 {
			continue // The controller is missing here, or already set.
		}
		if b, err = os.ReadFile(filepath.Join(parent, name)); err != nil {
			return fmt.Errorf("read CPU set: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0); err != nil {
			return fmt.Errorf("write CPU set: %w", err)
		}
	}
	return nil
}

// Enter moves the calling process into a cgroup that Create created.
func (t Tree) Enter(child ...string) error {
	for _, root := range t.hierarchies {
		procs := filepath.Join(root, t.Path(child...), "cgroup.procs")
		if err := os.WriteFile(procs, []byte("0"), 0); err != nil {
			return fmt.Errorf("enter cgroup: %w", err)
		}
	}
	return nil
}

// Processes returns the processes in the tree.
func (t Tree) Processes() ([]int, error) {
	seen := map[int]bool{}
	var pids []int
	for _, dir := range t.dirs() {
		b, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
			continue // The cgroup has been removed.
		}
		if err != nil {
			return nil, fmt.Errorf("read cgroup: %w", err)
		}
		for field := range strings.FieldsSeq(string(b)) {
			// Zero is a process outside of this PID namespace.
			if pid, err := strconv.Atoi(field); err == nil && pid > 0 && !seen[pid] {
				seen[pid] = true
				pids = append(pids, pid)
			}
		}
	}
	return pids, nil
}

// Kill kills all processes in the tree and waits until they have ended.
func (t Tree) Kill(ctx context.Context) error {
	return poll(ctx, func() error {
		pids, err := t.Processes()
		if err != nil || len(pids) == 0 {
			return err
		}
		for _, pid := range pids {
			if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("kill process %d: %w", pid, err)
			}
		}
		return fmt.Errorf("kill processes of cgroup %s: %v still run: %w", t.Path(), pids, errAgain)
	})
}

// Remove removes the tree, which must not contain processes.
func (t Tree) Remove(ctx context.Context) error {
	return poll(ctx, func() error {
		var last error
		for _, dir := range slices.Backward(t.dirs()) {
			if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
				last = fmt.Errorf("remove cgroup %s: %w: %w", dir, err, errAgain)
			}
		}
		return last
	})
}

// dirs returns the folders of the tree in all hierarchies, parents first.
func (t Tree) dirs() []string {
	var dirs []string
	for _, root := range t.hierarchies {
		// Ignore folders that disappear during the walk.
		_ = filepath.WalkDir(filepath.Join(root, t.name), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
	}
	return dirs
}

// errAgain marks errors of an operation that may succeed a moment later.
var errAgain = errors.New("not done yet")

// poll calls the function try until it returns nil or another error than errAgain, or until ctx
// ends.
func poll(ctx context.Context, try func() error) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		err := try()
		if err == nil || !errors.Is(err, errAgain) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-ticker.C:
		}
	}
}
