package apply

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"outrigger.dev/pkg/driverproc"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/hostfs"
)

// open returns the processes that have the device node of a GPU open: daemons of the host use it
// without a context, which is what the driver lists. This process is left out. What cannot be read
// is too.
func (p Processes) open(g mig.GPU) []Holder {
	proc := cmp.Or(p.Proc, "/proc")
	is, err := driverproc.Root(cmp.Or(p.Driver, proc)).GPU(g.PCI.BusID)
	if err != nil || is.Minor == driverproc.NoMinor {
		return nil
	}
	node := fmt.Sprintf("/dev/nvidia%d", is.Minor)
	self, _ := os.Readlink(filepath.Join(proc, "self"))
	entries, _ := os.ReadDir(proc)
	var list []mig.Process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err == nil && e.Name() != self && leads(filepath.Join(proc, e.Name(), "fd"), node) {
			list = append(list, mig.Process{PID: pid, GPUInstance: gpu.NoInstance, ComputeInstance: gpu.NoInstance})
		}
	}
	slices.SortFunc(list, func(a, b mig.Process) int { return a.PID - b.PID })
	return p.name(list)
}

// leads reports whether one of the links in a folder leads to a path.
func leads(dir, path string) bool {
	entries, _ := os.ReadDir(dir)
	return slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		target, err := os.Readlink(filepath.Join(dir, e.Name()))
		return err == nil && target == path
	})
}

// display returns the modules that are loaded of those by which a display uses a GPU.
func (p Processes) display() []string {
	data, err := hostfs.ReadFile(filepath.Join(cmp.Or(p.Proc, "/proc"), "modules"), 1<<20)
	if err != nil {
		return nil
	}
	var out []string
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		if name, _, _ := strings.Cut(lines.Text(), " "); name == "nvidia_drm" || name == "nvidia_modeset" {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
