package contract

import (
	"context"
	"errors"
	"os"
	"sync"

	"outrigger.dev/pkg/hostfs"
)

// Share is a share of the lease. A user of NVML holds it while it has handles.
type Share struct {
	lease *Lease

	mu sync.Mutex
	// file is locked. It is nil without a run root, and after Release.
	file     *os.File
	released bool
}

// Keep waits until an agent claims the lease. The caller then has to close its handles and release
// its share. Meanwhile, Keep takes the share again if another program removes the file of the
// lease, and when a run root appears. It returns an error only when ctx ends.
func (s *Share) Keep(ctx context.Context) (claim Claim, err error) {
	l := s.lease
	err = l.dir.changes(l.dir.leases()).wait(ctx, func() (ok bool) {
		if claim, ok = s.lease.Claimed(); !ok {
			_ = s.acquire() // the next change causes another attempt
		}
		return ok
	})
	return claim, err
}

// Release ends the share. Call it after the last handle is closed. It does nothing for nil.
func (s *Share) Release() error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.released = true
	if s.file == nil {
		return nil
	}
	err := unlock(s.file)
	s.file = nil
	return err
}

// acquire locks the file of the lease, unless this share has already locked it.
func (s *Share) acquire() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.released || s.file != nil && hostfs.IsAt(s.file, s.lease.path) {
		return nil
	}
	f, err := s.lease.open(os.O_RDONLY)
	if err != nil {
		return err
	}
	err = hostfs.LockRead(f)
	if errors.Is(err, hostfs.ErrLocked) {
		err = errLocked
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	if s.file != nil {
		_ = unlock(s.file) // this file is not at the path any more
	}
	s.file = f
	return nil
}

// unlock unlocks a file and closes it, in this order because the close wakes the processes that
// wait.
func unlock(f *os.File) error { return errors.Join(hostfs.Unlock(f), f.Close()) }
