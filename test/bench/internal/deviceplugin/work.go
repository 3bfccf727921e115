package deviceplugin

import (
	"context"
	"fmt"

	"outrigger.dev/test/bench/internal/simnode"
)

// work is the load of years: allocations of a kubelet, and events of a node's GPUs.
type work struct {
	plugin *plugin
	batch  *simnode.Batch
	gpus   int
	ids    []string
	// allocated and raised are the numbers of allocations and events so far.
	allocated, raised int
}

// allocate makes n allocations, of one to eight devices.
func (w *work) allocate(ctx context.Context, n int) error {
	for range n {
		at := w.allocated % (len(w.ids) - 8)
		if _, err := w.plugin.kubelet.Allocate(ctx, resource, w.ids[at:at+1+w.allocated%8]...); err != nil {
			return err
		}
		w.allocated++
	}
	return nil
}

// faults makes all GPUs unhealthy and healthy again: the driver requests a reset, XIDs follow, one
// of them caused by an application, and the driver withdraws the request.
func (w *work) faults(ctx context.Context) error {
	for _, step := range []struct {
		command   string
		unhealthy int
	}{
		{"set %d.recovery=reset", len(w.ids)},
		{"xid %d 95", len(w.ids)},
		{"xid %d 31", len(w.ids)},
		{"set %d.recovery=none", 0},
	} {
		if err := w.runForAll(ctx, step.unhealthy, step.command); err != nil {
			return err
		}
	}
	return nil
}

// loss makes the driver lose all GPUs, and brings them back.
func (w *work) loss(ctx context.Context) error {
	if err := w.runForAll(ctx, len(w.ids), "lose %d"); err != nil {
		return err
	}
	return w.runForAll(ctx, 0, "heal %d")
}

// runForAll runs a command for each GPU, with the GPU's index in place of %d. It waits until this
// number of devices is unhealthy.
func (w *work) runForAll(ctx context.Context, unhealthy int, command string) error {
	for gpu := range w.gpus {
		if err := w.batch.Do(fmt.Sprintf(command, gpu)); err != nil {
			return err
		}
		w.raised++
	}
	_, err := w.plugin.unhealthy(ctx, unhealthy)
	return err
}
