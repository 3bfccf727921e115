package contract

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"outrigger.dev/pkg/hostfs"
)

// Keys of a claim, beside the stamp.
const (
	keyReason = "OUTRIGGER_REASON"
	// keyDeadline is in nanoseconds of CLOCK_BOOTTIME, which no clock change
	// and no suspend bends, and which is the same in every container.
	keyDeadline = "OUTRIGGER_DEADLINE_BOOTTIME_NS"
)

// Lease is the right to have NVML in use on this node. Who holds NVML handles
// shares it; who needs quiet (to reset a GPU, or to change the driver) claims
// it, upon which the others drop their handles.
//
// Two files make it. Users hold a shared flock on leases/nvml, which is empty
// and never replaced. A claim is published in leases/nvml.claim, locked for the
// claimer's life, and the claimer then takes the exclusive flock on leases/nvml.
// Thus a crash on either side frees it, and a user that starts meanwhile sees
// the claim: it takes its lock first and looks for a claim after.
type Lease struct {
	dir  Dir
	path string
}

// NVML returns the lease on NVML.
func (d Dir) NVML() *Lease {
	return &Lease{dir: d, path: filepath.Join(d.Root, "leases", "nvml")}
}

// Claim says who wants quiet, why, and for how long at most.
type Claim struct {
	Owner  string
	Reason string
	// Deadline is a time of CLOCK_BOOTTIME, see Remaining.
	Deadline time.Duration
}

// Remaining returns the time until the deadline; below zero the owner is
// overdue.
func (c Claim) Remaining() time.Duration { return c.Deadline - boottime() }

// String returns the claim in words.
func (c Claim) String() string {
	return fmt.Sprintf("%s (%s, %s left)", c.Owner, c.Reason, c.Remaining().Round(time.Second))
}

// ErrClaimed is returned while another agent has claimed the lease. The error
// tells which, and why.
var ErrClaimed = errors.New("lease is claimed")

// errLocked is ErrClaimed by a process that does not say who it is.
var errLocked = fmt.Errorf("%w by a process that tells neither its name nor its reason (find it with lslocks)", ErrClaimed)

type claimedError struct{ claim Claim }

// Error is the same as long as the claim is: time that runs down would make it a
// new trouble for whoever asks again.
func (e *claimedError) Error() string {
	return fmt.Sprintf("%s by %s (%s)", ErrClaimed, e.claim.Owner, e.claim.Reason)
}

func (e *claimedError) Unwrap() error { return ErrClaimed }

// Path returns the file that users of NVML lock.
func (l *Lease) Path() string { return l.path }

func (l *Lease) claimPath() string { return l.path + ".claim" }

// Share is held by a user of NVML for as long as it has handles.
type Share struct{ file *os.File }

// Share takes part in the lease. It does not block: while there is a claim it
// returns ErrClaimed, see WaitFree; without a run root it returns ErrNoRunRoot,
// and the caller may work without, seen by nobody.
func (l *Lease) Share() (*Share, error) {
	f, err := l.open()
	if err != nil {
		return nil, fmt.Errorf("share lease %s: %w", l.path, err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = errLocked
			if claim, ok := l.Claimed(); ok {
				err = &claimedError{claim: claim}
			}
		}
		return nil, errors.Join(fmt.Errorf("share lease %s: %w", l.path, err), f.Close())
	}
	s := &Share{file: f}
	if claim, ok := l.Claimed(); ok {
		return nil, errors.Join(fmt.Errorf("share lease %s: %w", l.path, &claimedError{claim: claim}), s.Release())
	}
	return s, nil
}

// Release gives the share back, after the last handle has been closed. It may
// be called on nil.
func (s *Share) Release() error {
	if s == nil {
		return nil
	}
	// Unlocked before it is closed, because waiters are woken by the close.
	return errors.Join(unix.Flock(int(s.file.Fd()), unix.LOCK_UN), s.file.Close())
}

// open opens the file that is locked. A read-only mount will do if it exists.
func (l *Lease) open() (*os.File, error) {
	f, err := openFile(l.path)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	if err := makeFolder(filepath.Dir(l.path)); err != nil {
		return nil, l.dir.unwritable(err)
	}
	f, err = os.OpenFile(l.path, os.O_RDONLY|os.O_CREATE, 0o644)
	if err != nil {
		return nil, l.dir.unwritable(err)
	}
	return f, nil
}

// Claimed returns the claim of a living owner, if there is one.
func (l *Lease) Claimed() (Claim, bool) {
	f := l.dir.read(l.claimPath())
	if f.State != Valid {
		return Claim{}, false
	}
	return claimOf(f), true
}

func claimOf(f Fact) Claim {
	ns, _ := strconv.ParseInt(f.Values[keyDeadline], 10, 64)
	return Claim{Owner: f.Stamp.Writer, Reason: f.Values[keyReason], Deadline: time.Duration(ns)}
}

// WaitClaimed waits until somebody claims the lease: then drop the handles and
// release the share.
func (l *Lease) WaitClaimed(ctx context.Context) (Claim, error) {
	w, err := hostfs.NewWatcher(l.claimPath())
	if err != nil {
		return Claim{}, err
	}
	defer w.Close() //nolint:errcheck // nothing was written through it
	for {
		if c, ok := l.Claimed(); ok {
			return c, nil
		}
		if _, err := w.Next(ctx); err != nil {
			return Claim{}, err
		}
	}
}

// WaitFree waits until no living owner claims the lease.
func (l *Lease) WaitFree(ctx context.Context) error {
	// Only the owner has the file open for writing; who looks has not.
	err := closesOf(unix.IN_CLOSE_WRITE, l.claimPath()).wait(ctx, func() bool {
		_, ok := l.Claimed()
		return !ok
	})
	if err != nil {
		return fmt.Errorf("wait for lease %s: %w", l.path, err)
	}
	return nil
}

// Grant is held by the owner of the lease while it needs quiet.
type Grant struct {
	file  *os.File
	claim *Held
}

// Claim asks all users of NVML to drop their handles, and returns when the last
// one has, at the latest after limit. Limit also bounds how long the owner
// expects to keep the lease: it is announced as the deadline. An earlier claim
// is not waited for; it returns ErrClaimed.
func (l *Lease) Claim(ctx context.Context, owner, reason string, limit time.Duration) (*Grant, error) {
	deadline := boottime() + limit
	held, err := l.dir.put(l.claimPath(), Record{
		Writer: owner,
		Values: map[string]string{keyReason: reason, keyDeadline: strconv.FormatInt(int64(deadline), 10)},
	}, putOptions{held: true, exclusive: true})
	if err != nil {
		return nil, fmt.Errorf("claim lease %s: %w", l.path, err)
	}
	f, err := l.open()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("claim lease %s: %w", l.path, err), held.Release())
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var lockErr error
	err = closesOf(unix.IN_CLOSE_NOWRITE, l.path).wait(ctx, func() bool {
		lockErr = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		return !errors.Is(lockErr, unix.EWOULDBLOCK)
	})
	if err = errors.Join(err, lockErr); err != nil {
		return nil, errors.Join(fmt.Errorf("claim lease %s: NVML is still in use (see lslocks): %w", l.path, err), f.Close(), held.Release())
	}
	return &Grant{file: f, claim: held}, nil
}

// Release ends the claim; users may take NVML again. It may be called on nil.
func (g *Grant) Release() error {
	if g == nil {
		return nil
	}
	// The lock goes first: who is woken by the end of the claim finds it free.
	return errors.Join(unix.Flock(int(g.file.Fd()), unix.LOCK_UN), g.file.Close(), g.claim.Release())
}

func boottime() time.Duration {
	var ts unix.Timespec
	// It cannot fail: the clock exists since Linux 2.6.39.
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts)
	return time.Duration(ts.Nano())
}
