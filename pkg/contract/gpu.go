package contract

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"outrigger.dev/pkg/pace"
)

// AdvertisedError means that another process advertises a GPU to the cluster.
type AdvertisedError struct {
	// Device is the UUID of the GPU.
	Device string
	// By is the name of the agent, or "another process" if the claim does not name one.
	By string
}

// Error names the GPU and the agent that advertises it.
func (e AdvertisedError) Error() string {
	return fmt.Sprintf("gpu %s is advertised by %s", e.Device, e.By)
}

// Claims are the GPUs that a process has claimed to advertise to the cluster, so that the
// device plugin and the DRA plugin of one node never allocate the same GPU. A claim ends
// with its process.
type Claims struct {
	dir    Dir
	writer string

	mu   sync.Mutex
	held map[string]*Held
	// denied has the GPUs of the last call of Claim that another process has claimed.
	denied []string
}

// NewClaims returns Claims without GPUs. writer is the name of the agent.
func (d Dir) NewClaims(writer string) *Claims {
	return &Claims{dir: d, writer: writer, held: map[string]*Held{}}
}

// Claim claims the GPUs with these UUIDs and releases all others. It returns, per GPU, why it could
// not be claimed: an AdvertisedError while another process has the claim, and ErrNoRunRoot on a
// node without a run root. It claims a GPU again if another program has removed or changed the file
// of the claim. It takes a second at most for all GPUs together.
func (c *Claims) Claim(devices []string) (denied map[string]error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for device := range c.held {
		if !slices.Contains(devices, device) {
			c.release(device)
		}
	}
	missing := slices.DeleteFunc(slices.Clone(devices), func(device string) bool {
		return c.held[device] != nil && c.held[device].Intact()
	})
	denied, c.denied = map[string]error{}, nil
	if len(missing) == 0 {
		return denied
	}
	if err := c.claimAll(missing, denied); err != nil {
		for _, device := range missing {
			denied[device] = err
		}
	}
	for device, err := range denied {
		if _, is := errors.AsType[AdvertisedError](err); is {
			c.denied = append(c.denied, device)
		}
	}
	return denied
}

// claimAll claims GPUs, and adds an error to denied for each GPU that it cannot claim.
func (c *Claims) claimAll(devices []string, denied map[string]error) error {
	turn, err := c.dir.acquireTurn(c.writer, time.Now().Add(turnWait))
	if err != nil {
		return err
	}
	defer turn.end() //nolint:errcheck // nothing more is written through it
	for _, device := range devices {
		if err := c.claim(device); err != nil {
			denied[device] = err
		}
	}
	return nil
}

// claim claims a GPU. The caller has the turn.
func (c *Claims) claim(device string) error {
	path, lost := c.dir.gpuClaimPath(device), c.held[device]
	defer func() { _ = lost.Release() }() // lost is no longer the file at the path
	delete(c.held, device)
	if by, claimed := c.dir.lockedBy(path); claimed && (lost == nil || lost.replaced(c.dir)) {
		return AdvertisedError{Device: device, By: by}
	}
	if lost != nil {
		c.dir.log().Warn("another program removed or changed the claim of a gpu, claiming it again", "gpu", device)
	}
	held, err := c.dir.put(path, Record{Writer: c.writer}, true)
	if err != nil {
		return err
	}
	c.held[device] = held
	return nil
}

// lostPause keeps two programs from replacing the same file in a loop.
const lostPause = 100 * time.Millisecond

// Watch calls changed whenever another call of Claim may have another result: a living process no
// longer claims one of the denied GPUs, or another program has removed or changed the file of a
// claim. It returns when ctx ends.
func (c *Claims) Watch(ctx context.Context, changed func()) {
	_ = c.dir.changes(c.dir.leases()).wait(ctx, func() bool { // wait ends with ctx
		free, lost := c.outdated()
		if free || lost {
			changed()
		}
		if lost {
			pace.Pause(ctx, lostPause)
		}
		return false
	})
}

// outdated reports whether a denied GPU is free, and whether a claim is lost.
func (c *Claims) outdated() (free, lost bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range c.held {
		lost = lost || !h.Intact()
	}
	return slices.ContainsFunc(c.denied, func(device string) bool {
		_, claimed := c.dir.lockedBy(c.dir.gpuClaimPath(device))
		return !claimed
	}), lost
}

// Release releases all GPUs.
func (c *Claims) Release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for device := range c.held {
		c.release(device)
	}
}

func (c *Claims) release(device string) {
	if err := c.held[device].Release(); err != nil {
		c.dir.log().Error("cannot remove the claim of a gpu, the claim ends with this process", "gpu", device, "err", err)
	}
	delete(c.held, device)
}

// gpuClaimPath returns the path of the claim's file. Other processes depend on its name.
func (d Dir) gpuClaimPath(device string) string { return filepath.Join(d.leases(), "offer."+device) }
