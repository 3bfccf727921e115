package reader

import (
	"fmt"

	"outrigger.dev/pkg/gpu"
)

// checkUUID makes a GPU without a valid UUID faulty.
func checkUUID(g *gpu.GPU) {
	if g.UUID.Valid() {
		return
	}
	if g.Fault == nil {
		g.Fault = &gpu.Fault{Op: "nvmlDeviceGetUUID", Reason: fmt.Sprintf("%+q is not a UUID", g.UUID)}
	}
	g.UUID = ""
}
