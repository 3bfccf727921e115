package nvml

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"outrigger.dev/pkg/gpu"
)

// controlNode is the device node that NVML opens first. NVIDIA's libraries open
// nodes in the /dev of their process, whatever the driver root is.
const controlNode = "/dev/nvidiactl"

// giveNodes is what helps a process that has no access to device nodes.
const giveNodes = "give its container the nodes (docker run --device /dev/nvidiactl --device /dev/nvidia0, " +
	"and so on for each GPU), or run it privileged"

// access returns why this process may not use a device node, nil if it may. The
// kernel asks the device cgroup too, and nothing is opened: a GPU's node would
// wake the GPU.
func access(node string) error {
	err := unix.Access(node, unix.R_OK|unix.W_OK)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("this process has no %s", node)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("the device cgroup of this process does not allow %s", node)
	case errors.Is(err, unix.EACCES):
		return fmt.Errorf("this process may not open %s", node)
	default:
		return nil
	}
}

func usable(node string) bool { return access(node) == nil }

// tellHidden tells once in a session of GPUs that NVML does not show to this
// process, and notes their device nodes.
func (s *Source) tellHidden(sess *session, node *gpu.Node) {
	sess.hidden.Do(func() {
		nodes, reasons := hidden(s.cfg.ProcRoot, sess.present, node)
		sess.lacks.Store(&nodes)
		if len(reasons) > 0 {
			s.cfg.Log.Warn("gpus are hidden from this process", "reasons", reasons, "fix", giveNodes)
		}
	})
}

// hidden returns why NVML does not show GPUs that the kernel has: the device
// nodes that this process may not use, and why not. GPUs that are absent for
// another reason are left out.
func hidden(procRoot string, present map[string]procGPU, node *gpu.Node) (nodes, reasons []string) {
	for id, p := range present {
		if slices.ContainsFunc(node.GPUs, func(g gpu.GPU) bool { return g.PCI.BusID == id }) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(procRoot, "driver/nvidia/gpus", id, "information"))
		if err != nil {
			continue
		}
		parseInformation(data, &p)
		if p.minor == noMinor || isDisplay(p.name) {
			continue
		}
		path := fmt.Sprintf("/dev/nvidia%d", p.minor)
		if err := access(path); err != nil {
			nodes, reasons = append(nodes, path), append(reasons, err.Error())
		}
	}
	slices.Sort(reasons)
	return nodes, reasons
}
