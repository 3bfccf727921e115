package label

import (
	"strconv"
	"strings"

	"outrigger.dev/pkg/gpu"
)

// driver sets the labels of the driver's versions. It also sets them under their deprecated
// names, because selectors still use these. The revision is empty if the version has two
// numbers. A version that the driver does not report has no labels.
func (l labels) driver(d gpu.Driver) {
	l.text("cuda.driver-version.full", d.Version)
	parts := strings.SplitN(d.Version, ".", 3)
	for i, names := range [][]string{
		{"cuda.driver.major", "cuda.driver-version.major"},
		{"cuda.driver.minor", "cuda.driver-version.minor"},
		{"cuda.driver.rev", "cuda.driver-version.revision"},
	} {
		for _, name := range names {
			if i < len(parts) {
				l.text(name, parts[i])
			} else if len(parts) == i && i == 2 {
				l.put(name, "")
			}
		}
	}
	l.version("cuda.runtime.major", "cuda.runtime.minor", d.CUDA)
	l.version("cuda.runtime-version.major", "cuda.runtime-version.minor", d.CUDA)
	if d.CUDA.Major > 0 && d.CUDA.Minor >= 0 {
		l.put("cuda.runtime-version.full", strconv.Itoa(d.CUDA.Major)+"."+strconv.Itoa(d.CUDA.Minor))
	}
}

// clique sets the label of the NVLink clique: the fabric that the GPUs of this node share with
// other nodes, and the clique within it. It sets the label only if all GPUs that have joined a
// fabric have the same clique. It ignores GPUs that are joining or failed to join.
func (l labels) clique(all []gpu.GPU) {
	var joined *gpu.Fabric
	for i := range all {
		f := all[i].Fabric
		if f == nil || f.State != gpu.FabricCompleted || f.Status != gpu.FabricSuccess || f.ClusterUUID == "" {
			continue
		}
		if joined != nil && (f.ClusterUUID != joined.ClusterUUID || f.CliqueID != joined.CliqueID) {
			return
		}
		joined = f
	}
	if joined == nil {
		return
	}
	if cluster := clean(joined.ClusterUUID); cluster != "" {
		l.put("gpu.clique", fit(cluster, "."+strconv.FormatUint(uint64(joined.CliqueID), 10), maxText))
	}
}
