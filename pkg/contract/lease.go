package contract

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"outrigger.dev/pkg/holders"
	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/procowner"
)

// The keys of a claim, in addition to the stamp.
const (
	keyReason = "OUTRIGGER_REASON"
	// keyDeadline is in nanoseconds of CLOCK_BOOTTIME. Changes of the clock and suspend do not
	// affect this clock, and it is the same in all containers.
	keyDeadline = "OUTRIGGER_DEADLINE_BOOTTIME_NS"
)

// claimPoll is the interval of a claimer's checks whether all users have closed their handles.
const claimPoll = 5 * time.Millisecond

// Lease is the right to use NVML on this node. Agents with NVML handles share it. An agent that
// needs exclusive use of NVML, to reset a GPU or to replace the driver, claims it, and the others
// close their handles.
//
// The lease consists of two files. Users hold read locks on leases/nvml, which is empty and never
// replaced. The claimer publishes its claim in leases/nvml.claim, which it keeps locked while it
// lives, and then takes the write lock on leases/nvml. If a user or the claimer crashes, the kernel
// releases its locks. A user that starts in the meantime sees the claim, because it takes its lock
// first and then checks for a claim. A process that can only read leases/nvml cannot
// keep users from their lock.
type Lease struct {
	dir       Dir
	path      string
	usersWait time.Duration
}

// NVML returns the lease on NVML.
func (d Dir) NVML() *Lease {
	return &Lease{dir: d, path: filepath.Join(d.leases(), "nvml"), usersWait: usersWait}
}

// Claim describes a claim of NVML: the owner, the reason, and the deadline.
type Claim struct {
	Owner  string
	Reason string
	// Deadline is a time of CLOCK_BOOTTIME (see Remaining).
	Deadline time.Duration
}

// Remaining returns the time until the deadline. It is negative if the owner is overdue.
func (c Claim) Remaining() time.Duration { return c.Deadline - Boottime() }

// String returns the owner, the reason and the remaining time.
func (c Claim) String() string {
	return fmt.Sprintf("%s (%s, %s left)", c.Owner, c.Reason, c.Remaining().Round(time.Second))
}

// ErrClaimed is returned while another agent has claimed the lease. The wrapping error names the
// agent and the reason.
var ErrClaimed = errors.New("lease is claimed")

// errLocked is ErrClaimed for a lock by a process without a claim.
var errLocked = fmt.Errorf("%w by a process that published no claim (find it with lslocks)", ErrClaimed)

type claimedError struct{ claim Claim }

// Error returns the owner and the reason. It omits the remaining time, so that a caller that
// retries gets the same text each time.
func (e *claimedError) Error() string {
	return fmt.Sprintf("%s by %s (%s)", ErrClaimed, e.claim.Owner, e.claim.Reason)
}

func (e *claimedError) Unwrap() error { return ErrClaimed }

// Path returns the file that users of NVML lock.
func (l *Lease) Path() string { return l.path }

func (l *Lease) claimPath() string { return l.path + ".claim" }

// Share takes a share of the lease. It does not block: while there is a claim, it returns
// ErrClaimed. Without a run root, it returns ErrNoRunRoot and a share that is invisible to claimers
// until Keep has found a run root. The caller may use NVML in this case. The same applies to a
// process that has no permission to read the file of the lease, which belongs to root. The error
// then also wraps fs.ErrPermission.
func (l *Lease) Share() (*Share, error) {
	s := &Share{lease: l}
	err := s.acquire()
	if claim, ok := l.Claimed(); ok {
		err = &claimedError{claim: claim}
	}
	switch {
	case err == nil:
		return s, nil
	case errors.Is(err, ErrNoRunRoot):
		return s, fmt.Errorf("share lease %s: %w", l.path, err)
	default:
		return nil, errors.Join(fmt.Errorf("share lease %s: %w", l.path, err), s.Release())
	}
}

// open opens the file that users of NVML lock. If the file exists, a read-only mount of the run
// root is enough to read it.
func (l *Lease) open(access int) (*os.File, error) {
	if err := l.dir.makeFolder(filepath.Dir(l.path)); err != nil {
		return nil, l.dir.unwritable(err)
	}
	f, err := hostfs.Open(l.path)
	switch {
	case err == nil && access == os.O_RDONLY:
		return f, nil
	case err == nil:
		_ = f.Close() // the file was only opened to read
	case errors.Is(err, fs.ErrPermission):
		// The process does not run as root, and the folder belongs to root.
		return nil, fmt.Errorf("%w: %w", ErrNoRunRoot, err)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	f, err = os.OpenFile(l.path, access|os.O_CREATE|unix.O_NONBLOCK, 0o644)
	if err != nil {
		return nil, l.dir.unwritable(err)
	}
	return f, nil
}

// Claimed returns the claim of a living owner, and whether there is one.
func (l *Lease) Claimed() (Claim, bool) {
	f := l.dir.read(l.claimPath())
	if f.State != Valid || !f.Stamp.Held {
		return Claim{}, false
	}
	ns, _ := strconv.ParseInt(f.Values[keyDeadline], 10, 64)
	return Claim{Owner: f.Stamp.Writer, Reason: f.Values[keyReason], Deadline: time.Duration(ns)}, true
}

// Await calls try at once, and again after each change of the lease, until try returns an error other
// than ErrClaimed, or nil. It returns the last error of try. When ctx ends, it returns without
// another call.
func (l *Lease) Await(ctx context.Context, try func() error) (err error) {
	_ = l.dir.changes(l.dir.leases()).wait(ctx, func() bool {
		err = try()
		return !errors.Is(err, ErrClaimed)
	})
	return err
}

// Grant is the exclusive use of NVML by the owner of the claim.
type Grant struct {
	file  *os.File
	claim *Held
}

// usersWait is how long a claim waits for the users of NVML. Agents close their handles at once, and a
// call of NVML that takes longer hangs. A process that may only read the file of the lease can keep a
// lock of it for ever.
const usersWait = 30 * time.Second

// Claim asks all users of NVML to close their handles, and waits for this for at most 30 s, or for limit if it is
// shorter. It publishes the end of limit as the deadline of the claim. It returns ErrClaimed if another agent has
// already claimed the lease. If users remain, the error names them.
func (l *Lease) Claim(ctx context.Context, owner, reason string, limit time.Duration) (*Grant, error) {
	held, err := l.claim(Record{
		Writer: owner,
		Values: map[string]string{keyReason: reason, keyDeadline: strconv.FormatInt(int64(Boottime()+limit), 10)},
	})
	if err != nil {
		return nil, fmt.Errorf("claim lease %s: %w", l.path, err)
	}
	f, err := l.open(os.O_RDWR)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("claim lease %s: %w", l.path, err), held.Release())
	}
	wait, cancel := context.WithTimeout(ctx, min(limit, l.usersWait))
	defer cancel()
	err = hostfs.LockWrite(f)
	for errors.Is(err, hostfs.ErrLocked) && pace.Pause(wait, claimPoll) {
		err = hostfs.LockWrite(f)
	}
	if err := cmp.Or(wait.Err(), err); err != nil {
		err = fmt.Errorf("claim lease %s: NVML is still in use by %s: %w", l.path, lockingProcesses(ctx, f), err)
		return nil, errors.Join(err, unlock(f), held.Release())
	}
	return &Grant{file: f, claim: held}, nil
}

// lockingProcesses returns a text with the names of the processes that lock a file, and the fix.
func lockingProcesses(ctx context.Context, f *os.File) string {
	const hidden = "a process that this agent cannot see (find it on the node with lslocks)"
	file, err := f.Stat()
	if err != nil || ctx.Err() != nil {
		return hidden
	}
	// Locks are in the /proc of this process, even if ProcRoot is another folder.
	found, _ := holders.Locking(ctx, procowner.Root{}, file) // a process that cannot be examined stays unnamed
	if len(found) == 0 {
		return hidden
	}
	names := make([]string, min(len(found), mostNamed))
	for i := range names {
		names[i] = found[i].String()
	}
	if more := len(found) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, "; ") + " (it locks this file; if it is no agent, end it)"
}

// mostNamed is the number of processes that an error names.
const mostNamed = 3

// claim publishes a claim, unless there is one already.
func (l *Lease) claim(r Record) (*Held, error) {
	turn, err := l.dir.acquireTurn(r.Writer, time.Now().Add(turnWait))
	if err != nil {
		return nil, err
	}
	defer turn.end() //nolint:errcheck // nothing more is written through it
	if claim, ok := l.Claimed(); ok {
		return nil, &claimedError{claim: claim}
	}
	return l.dir.put(l.claimPath(), r, true)
}

// Release ends the claim, so that others can use NVML again. It does nothing for nil.
func (g *Grant) Release() error {
	if g == nil {
		return nil
	}
	// Release the lock first. The end of the claim wakes the other agents, which then find the lock free.
	return errors.Join(unlock(g.file), g.claim.Release())
}

// Boottime returns the time since the boot, including suspend. Changes of the clock do not affect
// it.
func Boottime() time.Duration {
	var ts unix.Timespec
	// It cannot fail: Linux has the clock since 2.6.39.
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts)
	return time.Duration(ts.Nano())
}
