package generate

import (
	"errors"
	"fmt"
	"slices"

	"outrigger.dev/pkg/driverproc"
	"outrigger.dev/pkg/driverroot"
	"outrigger.dev/pkg/gpu"
)

// CheckHidden returns an error that names the GPUs that have no device node although the
// kernel driver uses them. NVML does not show such GPUs.
func CheckHidden(proc driverproc.Root, c *driverroot.Content, n *gpu.Node) error {
	var errs []error
	for _, id := range proc.BusIDs() {
		if slices.ContainsFunc(n.GPUs, func(g gpu.GPU) bool { return g.PCI.BusID == id }) {
			continue
		}
		g, err := proc.GPU(id)
		if err != nil || g.Minor == driverproc.NoMinor {
			continue
		}
		if _, ok := c.GPUs[g.Minor]; !ok {
			errs = append(errs, fmt.Errorf("describe GPU %s: device node nvidia%d is missing (make it: nvidia-modprobe -c %d)", id, g.Minor, g.Minor))
		}
	}
	return errors.Join(errs...)
}
