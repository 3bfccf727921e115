package contract

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// OfferedError says that another process offers a GPU to the cluster.
type OfferedError struct {
	// Device is the UUID of the GPU.
	Device string
	// By is the name of the agent.
	By string
}

// Error names the GPU and who offers it.
func (e OfferedError) Error() string {
	return fmt.Sprintf("gpu %s is offered by %s", e.Device, e.By)
}

// Offer takes the right to offer a GPU to the cluster, until Release or the end
// of the process: the device plugin and the DRA plugin of one node so never give
// away the same GPU. It returns an OfferedError while another process has it,
// and ErrNoRunRoot where agents cannot meet.
func (d Dir) Offer(device, writer string) (*Held, error) {
	held, err := d.put(d.offer(device), Record{Writer: writer}, putOptions{held: true, exclusive: true})
	if claimed, ok := errors.AsType[*claimedError](err); ok {
		return nil, OfferedError{Device: device, By: claimed.claim.Owner}
	}
	return held, err
}

// WaitOffer waits until no living process offers one of the GPUs. It watches
// the folder, so that a node of many GPUs takes one watch.
func (d Dir) WaitOffer(ctx context.Context, devices ...string) error {
	// Only who offers has the file open for writing; who looks has not.
	folder := closesOf(unix.IN_CLOSE_WRITE|unix.IN_DELETE, filepath.Dir(d.offer("")))
	err := folder.wait(ctx, func() bool {
		return slices.ContainsFunc(devices, func(device string) bool { return d.read(d.offer(device)).State != Valid })
	})
	if err != nil {
		return fmt.Errorf("wait for gpus %s: %w", strings.Join(devices, ", "), err)
	}
	return nil
}

func (d Dir) offer(device string) string { return filepath.Join(d.Root, "leases", "offer."+device) }
