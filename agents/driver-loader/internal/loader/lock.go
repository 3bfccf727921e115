package loader

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/pkg/pace"
)

// lockInterval is the time between attempts to acquire a lock that another process holds.
const lockInterval = 200 * time.Millisecond

// lock waits until no other process changes the driver of this node. Other processes are the agent, and
// commands that users run.
func (l *Loader) lock(ctx context.Context) (unlock func(), err error) {
	path := filepath.Join(l.cfg.Store, "lock")
	if err := os.MkdirAll(l.cfg.Store, 0o700); err != nil {
		return nil, fmt.Errorf("make the store: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock of the store: %w", err)
	}
	for told := false; ; told = true {
		err := hostfs.LockWrite(f)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, hostfs.ErrLocked) {
			return nil, errors.Join(fmt.Errorf("lock the store: %w", err), f.Close())
		}
		if !told {
			l.cfg.Log.Info("another driver-loader is changing the driver of this node, waiting", "lock", path)
		}
		if !pace.Pause(ctx, lockInterval) {
			return nil, errors.Join(fmt.Errorf("wait for another driver-loader, which has locked %s: %w", path, ctx.Err()), f.Close())
		}
	}
}
