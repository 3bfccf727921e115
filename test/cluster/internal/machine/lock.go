package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lockInterval is the interval between attempts to take the lock.
const lockInterval = 100 * time.Millisecond

// Lock is held while a cluster is started or removed. It ends with its process.
type Lock struct{ dir *os.File }

// TakeLock waits for the lock. It calls the function busy if it has to wait. The lock is on
// StateDir, because a separate lock file would outlive the cluster. TakeLock creates
// StateDir if it is missing.
func TakeLock(ctx context.Context, busy func()) (*Lock, error) {
	ticker := time.NewTicker(lockInterval)
	defer ticker.Stop()
	for tries := 0; ; tries++ {
		l, err := tryLock()
		if l != nil || err != nil {
			return l, err
		}
		if tries == 0 {
			busy()
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("lock %s, in which another process starts or removes a cluster: %w", StateDir, ctx.Err())
		case <-ticker.C:
		}
	}
}

// Close releases the lock.
func (l *Lock) Close() error { return l.dir.Close() }

// tryLock returns nil if another process holds the lock, or has removed the folder with
// its cluster.
func tryLock() (*Lock, error) {
	if err := os.MkdirAll(StateDir, 0o755); err != nil {
		return nil, fmt.Errorf("create state folder: %w", err)
	}
	dir, err := os.Open(StateDir)
	if err != nil {
		return nil, fmt.Errorf("open state folder: %w", err)
	}
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if err := dir.Close(); err != nil {
			return nil, fmt.Errorf("close state folder: %w", err)
		}
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, nil
		}
		return nil, fmt.Errorf("lock %s: %w", StateDir, err)
	}
	held, err := dir.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("stat state folder: %w", err), dir.Close())
	}
	current, err := os.Stat(StateDir)
	if err != nil || !os.SameFile(held, current) {
		return nil, dir.Close()
	}
	return &Lock{dir: dir}, nil
}
