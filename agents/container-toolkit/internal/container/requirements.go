package container

import (
	"slices"
	"strconv"
	"strings"

	"outrigger.dev/agents/container-toolkit/internal/require"
)

// Facts has facts about a GPU that are not in /proc. An empty field means that it is not known.
type Facts struct {
	// Brand is in lower case, such as "tesla". Arch is the compute capability, such as "9.0".
	Brand, Arch string
}

// Facts returns the facts that the CDI specs have about a GPU.
func (c Config) Facts(g GPU) Facts {
	known := c.Specs.Facts()
	if known == nil || g.UUID == "" {
		return Facts{}
	}
	for _, f := range known.ForDevice(string(g.UUID)) {
		return Facts{Brand: f.Brand, Arch: f.Arch}
	}
	return Facts{}
}

// CUDA returns the newest version of CUDA that the driver supports.
func (c Config) CUDA(driver string) string {
	if known := c.Specs.Facts(); known != nil && known.CUDA != "" && known.Driver == driver {
		return known.CUDA
	}
	return require.CUDAOf(driver)
}

// Require returns an error unless the driver and each requested GPU meet all conditions. The
// conditions have the grammar of the variables NVIDIA_REQUIRE_*. A blank condition holds: LXD passes
// one for each container without requirements.
func (c Config) Require(n *Node, r Request, conditions []string) error {
	conditions = slices.DeleteFunc(slices.Clone(conditions), func(s string) bool { return strings.TrimSpace(s) == "" })
	if len(conditions) == 0 {
		return nil
	}
	chosen, err := choose(n.GPUs, c.Specs, r.Devices)
	if err != nil {
		return err
	}
	driver := require.Driver{Version: n.Content.Version, CUDA: c.CUDA(n.Content.Version)}
	var gpus []require.GPU
	for _, g := range chosen {
		f := c.Facts(g.GPU)
		gpus = append(gpus, require.GPU{Name: strconv.Itoa(g.Index), Arch: f.Arch, Brand: f.Brand})
	}
	for _, condition := range conditions {
		if err := require.Check("--require", condition, driver, gpus...); err != nil {
			return err
		}
	}
	return nil
}
