package nvml

import (
	"fmt"

	"outrigger.dev/pkg/gpu"
)

// checkUUID takes a UUID away that is none, which is a fault of the GPU.
func checkUUID(g *gpu.GPU) {
	if g.UUID.Valid() {
		return
	}
	if g.Fault == nil {
		g.Fault = &gpu.Fault{Op: "nvmlDeviceGetUUID", Reason: fmt.Sprintf("%+q is no UUID", g.UUID)}
	}
	g.UUID = ""
}
