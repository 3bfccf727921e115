package apply

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"outrigger.dev/pkg/devnode"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/holders"
	"outrigger.dev/pkg/hostfs"
)

// withOpenDevice returns the processes with an open or mapped device node of a GPU, except this
// process. The driver does not list processes without a context, such as daemons of the host.
// Processes that cannot be read are skipped.
func (p Processes) withOpenDevice(ctx context.Context, g mig.GPU) []mig.Holder {
	node, err := devnode.Driver(cmp.Or(p.Driver, p.Folder())).GPU(g.PCI.BusID)
	if err != nil {
		return nil
	}
	self, _ := os.Readlink(filepath.Join(p.Folder(), "self"))
	found, _ := holders.Find(ctx, p.Root, []holders.Devices{{Major: node.Major, Minors: []uint32{node.Minor}}})
	var out []mig.Holder
	for _, h := range found {
		if strconv.Itoa(h.PID) != self {
			out = append(out, mig.Holder{Process: h.Process, GPU: g.Index, GPUInstance: gpu.NoInstance, ComputeInstance: gpu.NoInstance})
		}
	}
	return out
}

// displayModules returns the loaded modules through which a display uses a GPU.
func (p Processes) displayModules() []string {
	data, err := hostfs.ReadFile(filepath.Join(p.Folder(), "modules"), 1<<20)
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
