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

// AdvertisedError says that another process advertises a GPU to the cluster.
type AdvertisedError struct {
	// Device is the UUID of the GPU.
	Device string
	// By is the name of the agent.
	By string
}

// Error names the GPU and the agent that advertises it.
func (e AdvertisedError) Error() string {
	return fmt.Sprintf("gpu %s is advertised by %s", e.Device, e.By)
}

// ClaimGPU claims the right to advertise a GPU to the cluster, so that the device plugin
// and the DRA plugin of one node never allocate the same GPU. The claim ends with Release
// or with the process. ClaimGPU returns an AdvertisedError while another process holds the
// claim, and ErrNoRunRoot on a node without a run root.
func (d Dir) ClaimGPU(device, writer string) (*Held, error) {
	held, err := d.put(d.gpu(device), Record{Writer: writer}, putOptions{held: true, exclusive: true})
	if claimed, ok := errors.AsType[*claimedError](err); ok {
		return nil, AdvertisedError{Device: device, By: claimed.claim.Owner}
	}
	return held, err
}

// WaitGPU waits until at least one of the GPUs is not claimed by a living process. It
// watches the folder of all claims, so that a node with many GPUs needs only one watch.
func (d Dir) WaitGPU(ctx context.Context, devices ...string) error {
	// Only the holder of a claim has the file open for writing; readers do not.
	folder := closesOf(unix.IN_CLOSE_WRITE|unix.IN_DELETE, filepath.Dir(d.gpu("")))
	err := folder.wait(ctx, func() bool {
		return slices.ContainsFunc(devices, func(device string) bool { return d.read(d.gpu(device)).State != Valid })
	})
	if err != nil {
		return fmt.Errorf("wait for gpus %s: %w", strings.Join(devices, ", "), err)
	}
	return nil
}

// gpu returns the path of the claim's file. Other processes depend on its name.
func (d Dir) gpu(device string) string { return filepath.Join(d.Root, "leases", "offer."+device) }
