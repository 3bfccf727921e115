package container

import (
	"strconv"
	"strings"

	"outrigger.dev/agents/container-toolkit/internal/require"
)

// Facts are what is known of a GPU that /proc does not say. Empty ones are not known.
type Facts struct {
	// Brand in lower case, and the compute capability: "tesla", "9.0".
	Brand, Arch string
}

// Facts returns what the CDI specs say of a GPU.
func (c Config) Facts(g GPU) Facts {
	known := c.Specs.Facts()
	if known == nil || g.UUID == "" {
		return Facts{}
	}
	for _, f := range known.Of(string(g.UUID)) {
		return Facts{Brand: f.Brand, Arch: f.Arch}
	}
	return Facts{}
}

// CUDA returns the newest version of CUDA that the driver supports.
func (c Config) CUDA(driver string) string {
	if known := c.Specs.Facts(); known != nil && known.CUDA != "" && known.Driver == driver {
		return known.CUDA
	}
	return cudaOf(driver)
}

// Require returns an error unless the driver, and each GPU that a container asks for,
// meets all conditions, in the grammar of the variables NVIDIA_REQUIRE_*.
func (c Config) Require(n *Node, r Request, conditions []string) error {
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

// branches are the first drivers that supported a version of CUDA, from the tables "CUDA
// Toolkit and Corresponding Driver Versions" of the CUDA release notes.
func branches() []struct {
	driver int
	cuda   string
} {
	return []struct {
		driver int
		cuda   string
	}{
		{590, "13.1"}, {580, "13.0"}, {575, "12.9"}, {570, "12.8"}, {565, "12.7"}, {560, "12.6"}, {555, "12.5"}, {550, "12.4"},
		{545, "12.3"}, {535, "12.2"}, {530, "12.1"}, {525, "12.0"}, {520, "11.8"}, {515, "11.7"}, {510, "11.6"}, {495, "11.5"},
		{470, "11.4"}, {465, "11.3"}, {460, "11.2"}, {455, "11.1"}, {450, "11.0"},
	}
}

// cudaOf returns the newest version of CUDA that a driver supports, or of those that this
// program knows; "" for a driver that is older than CUDA 11.
func cudaOf(driver string) string {
	branch, _, _ := strings.Cut(driver, ".")
	n, err := strconv.Atoi(branch)
	if err != nil {
		return ""
	}
	for _, b := range branches() {
		if n >= b.driver {
			return b.cuda
		}
	}
	return ""
}
