package node

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"outrigger.dev/sim/internal/state"
)

// Plug puts a GPU into the lowest free slot and returns it. The kernel's files are complete before
// NVML shows the GPU.
func (n *Node) Plug(spec state.GPUSpec) (state.GPU, error) {
	var gpu state.GPU
	err := n.withLock(func() error {
		var err error
		if gpu, err = n.state.NextGPU(spec); err != nil {
			return err
		}
		steps := gpuSteps(n.state.Show(), gpu)
		if err := n.remove(steps); err != nil { // left by a plug that was killed
			return err
		}
		if err := n.install(steps); err != nil {
			return err
		}
		slot, err := n.state.Plug(spec)
		if err != nil {
			return errors.Join(err, n.remove(steps))
		}
		gpu, err = n.gpu(slot)
		return err
	})
	if err != nil {
		return state.GPU{}, fmt.Errorf("plug GPU into %s: %w", n.root, err)
	}
	return gpu, nil
}

// Unplug removes the GPU that ref names: an NVML index, UUID or PCI bus ID.
func (n *Node) Unplug(ref string) (state.GPU, error) {
	var gpu state.GPU
	err := n.withLock(func() error {
		slot, err := n.state.Find(ref)
		if err != nil {
			return err
		}
		if gpu, err = n.gpu(slot); err != nil {
			return err
		}
		if err := n.state.Unplug(slot); err != nil {
			return err
		}
		return n.remove(gpuSteps(n.state.Show(), gpu))
	})
	return gpu, err
}

// SetField sets a value of the GPU that ref names. The ref GPU/GI names a GPU instance.
func (n *Node) SetField(ref, field, value string) error {
	return n.withLock(func() error {
		ref, instance, divided := strings.Cut(ref, "/")
		slot, err := n.state.Find(ref)
		if err != nil {
			return err
		}
		if divided {
			gi, err := strconv.Atoi(instance)
			if err != nil {
				return fmt.Errorf("GPU instance %q: want a number that \"gpu-sim mig list\" prints", instance)
			}
			return n.state.SetInstanceField(slot, gi, field, value)
		}
		if err := n.state.SetField(slot, field, value); err != nil {
			return err
		}
		gpu, err := n.gpu(slot)
		if err != nil || field != "numa-node" {
			return err
		}
		// The NUMA node is the only field that is also a file of the kernel.
		return os.WriteFile(n.path(sysGPU(gpu), "numa_node"), fmt.Appendf(nil, "%d\n", gpu.NUMANode), 0o644)
	})
}

// gpu returns the GPU in a slot.
func (n *Node) gpu(slot state.Slot) (state.GPU, error) {
	for _, g := range n.state.Show().GPUs {
		if g.Slot == slot {
			return g, nil
		}
	}
	return state.GPU{}, fmt.Errorf("slot %d: %w", slot, state.ErrNoGPU)
}
