package holders

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"outrigger.dev/pkg/procowner"
	"outrigger.dev/pkg/text"
)

// maxFile is the maximum number of bytes that are read at once from a file of a process.
const maxFile = 64 << 10

// Find returns the processes that have one of the devices open or mapped, ordered by PID. With an
// error it still returns the processes that it found. The error has the number of processes that
// could not be examined. Processes may start and end while Find reads.
func Find(ctx context.Context, root procowner.Root, devices []Devices) ([]Holder, error) {
	found, err := find(ctx, root, func(dir string) ([]string, error) { return process{dir: dir, wanted: devices}.devices() })
	if err != nil {
		err = fmt.Errorf("find the processes that hold devices: %w", err)
	}
	return found, err
}

// find calls the function held with the folder of each process, and returns the processes for which
// held returns paths. The paths become Holder.Devices.
func find(ctx context.Context, root procowner.Root, held func(dir string) ([]string, error)) ([]Holder, error) {
	entries, err := os.ReadDir(root.Folder())
	if err != nil {
		return nil, err
	}
	var found []procowner.Process
	all := map[int][]string{}
	failed, last := 0, error(nil)
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if err := ctx.Err(); err != nil {
			return newHolders(root, found, all), err
		}
		paths, err := held(filepath.Join(root.Folder(), entry.Name()))
		if err != nil {
			failed++
			last = err
		}
		if len(paths) > 0 {
			found = append(found, root.Process(pid))
			all[pid] = paths
		}
	}
	if failed > 0 {
		err = fmt.Errorf("cannot examine a process (run as root, in the host's PID namespace): %w", last)
	}
	if failed > 1 {
		err = fmt.Errorf("cannot examine %d processes (run as root, in the host's PID namespace), one of them: %w", failed, last)
	}
	return newHolders(root, found, all), err
}

// newHolders returns the processes as Holders, with the names of their pods and their devices.
func newHolders(root procowner.Root, processes []procowner.Process, held map[int][]string) []Holder {
	root.NamePods(processes)
	var out []Holder
	for _, p := range processes {
		out = append(out, Holder{Process: p, Devices: held[p.PID]})
	}
	slices.SortFunc(out, func(a, b Holder) int { return cmp.Compare(a.PID, b.PID) })
	return out
}

// process is a process in a folder of procfs.
type process struct {
	dir    string
	wanted []Devices
}

// devices returns the sorted paths of the devices that the process has open or mapped.
func (p process) devices() ([]string, error) {
	held := map[string]bool{}
	err := p.open(held)
	if err == nil {
		err = p.mapped(held)
	}
	return slices.Sorted(maps.Keys(held)), err
}

// open adds the devices that the process has open.
func (p process) open(held map[string]bool) error {
	dir := filepath.Join(p.dir, "fd")
	entries, err := os.ReadDir(dir)
	if processEnded(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		p.examine(filepath.Join(dir, entry.Name()), held)
	}
	return nil
}

// examine adds the target of a link of procfs, if it is one of the wanted devices. It
// accesses neither the file's server nor the device's driver.
func (p process) examine(link string, held map[string]bool) {
	var s unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, link, unix.AT_STATX_DONT_SYNC|unix.AT_NO_AUTOMOUNT, unix.STATX_TYPE, &s) != nil || s.Mode&unix.S_IFMT != unix.S_IFCHR {
		return
	}
	if !slices.ContainsFunc(p.wanted, func(d Devices) bool { return d.has(s.Rdev_major, s.Rdev_minor) }) {
		return
	}
	path, err := os.Readlink(link)
	if err != nil {
		path = fmt.Sprintf("/dev/char/%d:%d", s.Rdev_major, s.Rdev_minor)
	}
	held[text.Printable(strings.TrimSuffix(path, " (deleted)"))] = true
}

func (d Devices) has(major, minor uint32) bool {
	return d.Major == major && (d.Minors == nil || slices.Contains(d.Minors, minor))
}

// processEnded reports whether an error means that the process has ended.
func processEnded(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH)
}
