package state

// #include "simstate.h"
import "C"

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const fabricField = "fabric"

// fabricCompleted is NVML_GPU_FABRIC_STATE_COMPLETED.
const fabricCompleted = 3

// fabricStates returns the values of nvmlGpuFabricState_t by their number.
func fabricStates() []string {
	return []string{"not-supported", "not-started", "in-progress", "completed"}
}

const wantFabric = "want not-supported, not-started, in-progress, completed, completed:CLUSTER.CLIQUE with the UUID or a name of the cluster, or failed:CODE with a code of nvmlReturn_t"

// fabricMember matches a place in a fabric of several nodes: the UUID or the name of the cluster, and
// the clique.
var fabricMember = regexp.MustCompile(`^(?:([0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})|([a-z](?:[-a-z0-9]{0,61}[a-z0-9])?))\.([0-9]{1,10})$`)

// SetFabric sets the state of a GPU in its NVLink fabric: a state of nvmlGpuFabricState_t,
// "completed:CLUSTER.CLIQUE" with the UUID or a name of the cluster if several nodes share the fabric, or "failed:CODE" for a
// registration that completed with an error.
func (s *State) SetFabric(slot Slot, text string) error {
	fabric, ok := parseFabric(text)
	if !ok {
		return fmt.Errorf("set fabric of the GPU in slot %d to %q: %s", slot, text, wantFabric)
	}
	return s.updateGPU(slot, func(gpu *C.struct_sim_gpu) error {
		if gpu.fabric.present == 0 {
			return fmt.Errorf("set fabric of the GPU in slot %d: %s has none", slot, getString(gpu.model[:]))
		}
		gpu.fabric = fabric
		return nil
	})
}

func parseFabric(text string) (fabric C.struct_sim_fabric, ok bool) {
	fabric.present = 1
	if code, failed := strings.CutPrefix(text, "failed:"); failed {
		n, err := strconv.ParseUint(code, 10, 31)
		fabric.state, fabric.status = fabricCompleted, C.uint32_t(n)
		return fabric, err == nil && n > 0
	}
	name, place, shared := strings.Cut(text, ":")
	state := slices.Index(fabricStates(), name)
	if state < 0 || shared && state != fabricCompleted {
		return fabric, false
	}
	fabric.state = C.uint32_t(state)
	if !shared {
		return fabric, true
	}
	m := fabricMember.FindStringSubmatch(place)
	if m == nil {
		return fabric, false
	}
	id, err := clusterID(m[1], m[2])
	clique, tooLarge := strconv.ParseUint(m[3], 10, 32)
	if err != nil || tooLarge != nil {
		return fabric, false
	}
	for i, b := range id {
		fabric.cluster[i] = C.uint8_t(b)
	}
	fabric.clique = C.uint32_t(clique)
	return fabric, true
}

// clusterID returns the ID of a cluster from its UUID or, if that is empty, from its name. The same name has
// the same ID on all nodes.
func clusterID(uuid, name string) ([]byte, error) {
	if uuid != "" {
		return hex.DecodeString(strings.ReplaceAll(uuid, "-", ""))
	}
	id := sha256.Sum256([]byte("fabric/" + name))
	return id[:len(C.struct_sim_fabric{}.cluster)], nil
}

// CheckFabric returns an error if text does not have the form of SetFabric.
func CheckFabric(text string) error {
	if _, ok := parseFabric(text); !ok {
		return fmt.Errorf("fabric %q: %s", text, wantFabric)
	}
	return nil
}

// fabricText returns a fabric in the form of SetFabric, or "" if the product has no fabric.
func fabricText(f *C.struct_sim_fabric) string {
	states := fabricStates()
	switch {
	case f.present == 0 || int(f.state) >= len(states):
		return ""
	case f.state != fabricCompleted:
		return states[f.state]
	case f.status != 0:
		return fmt.Sprintf("failed:%d", f.status)
	case f.cluster == [len(f.cluster)]C.uint8_t{} && f.clique == 0:
		return states[f.state]
	}
	id := make([]byte, len(f.cluster))
	for i, b := range f.cluster {
		id[i] = byte(b)
	}
	return fmt.Sprintf("%s:%x-%x-%x-%x-%x.%d", states[f.state], id[0:4], id[4:6], id[6:8], id[8:10], id[10:16], f.clique)
}
