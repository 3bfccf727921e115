package contract

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"outrigger.dev/pkg/driverproc"
	"outrigger.dev/pkg/hostfs"
)

// ErrNoRunRoot is returned by functions that write if the run root cannot be written: it is
// not mounted, or read-only. An agent logs the error and continues without the other agents.
var ErrNoRunRoot = errors.New("run root cannot be written")

// Write publishes a fact that stays valid after its writer ends.
func (d Dir) Write(n Name, r Record) error {
	h, err := d.put(d.Path(n), r, false)
	if err != nil {
		return err
	}
	return h.file.Close()
}

// Remove deletes the file of a fact. It returns nil if there is none.
func (d Dir) Remove(n Name) error {
	if err := os.Remove(d.Path(n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("withdraw %s: %w", n, err)
	}
	return nil
}

// Hold publishes a fact that is valid while its writer lives: the file stays locked until
// Release or the end of the process, even by a crash, and readers check the lock. A Keeper
// also publishes it again.
func (d Dir) Hold(n Name, r Record) (*Held, error) { return d.HoldFile(d.Path(n), r) }

// HoldFile is Hold for a fact whose file is at another path than those of Names. The folder
// of the file must exist.
func (d Dir) HoldFile(path string, r Record) (*Held, error) { return d.put(path, r, true) }

// ReadFile returns the fact in a file that HoldFile wrote.
func (d Dir) ReadFile(path string) Fact { return d.read(path) }

// put writes the stamped file as a whole. A held file is locked before it is visible. put
// waits neither for other processes nor for the disk: the stamp makes it a fact of this
// boot only.
func (d Dir) put(path string, r Record, held bool) (*Held, error) {
	b, err := d.batch(path)
	if err != nil {
		return nil, err
	}
	return b.put(path, r, held)
}

// batch has what is the same for all files that are written to one folder at once.
type batch struct {
	dir  Dir
	boot string
}

// batch prepares the folder of the files at these paths.
func (d Dir) batch(paths ...string) (batch, error) {
	boot, err := d.bootID()
	if err != nil {
		return batch{}, fmt.Errorf("write %s: %w", paths[0], err)
	}
	folder := filepath.Dir(paths[0])
	if err := d.makeFolder(folder); err != nil {
		return batch{}, d.unwritable(err)
	}
	_ = hostfs.RemoveLeftoversIn(folder, paths...) // what cannot be removed now does no harm
	return batch{dir: d, boot: boot}, nil
}

// put is Dir.put for one of the files of the batch.
func (b batch) put(path string, r Record, held bool) (_ *Held, err error) {
	data, err := format(r.Values, Stamp{
		BootID: b.boot, Writer: r.Writer, Time: time.Now(), DriverVersion: r.DriverVersion, Held: held, WriteLocked: held,
	})
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	f, err := hostfs.Create(path, 0o644)
	if err != nil {
		return nil, b.dir.unwritable(err)
	}
	h := &Held{file: f.File, path: path}
	err = func() error {
		if held {
			if err := f.Locked(); err != nil {
				return fmt.Errorf("write %s: %w", path, err)
			}
			// For readers of earlier versions, which ask for nothing else.
			_ = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		}
		if _, err := f.Write(data); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
		// Before it can be seen: whoever changes it afterwards has damaged it.
		if h.shown, err = f.Stat(); err != nil {
			return err
		}
		return f.Show()
	}()
	if err != nil {
		return nil, errors.Join(b.dir.unwritable(err), f.Close())
	}
	return h, nil
}

// unwritable adds ErrNoRunRoot to the errors which mean that the run root cannot be
// written.
func (d Dir) unwritable(err error) error {
	if errors.Is(err, unix.EROFS) || errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w (mount the host's %s read-write, or point --run-root elsewhere)", ErrNoRunRoot, err, d.Root)
	}
	return err
}

// makeFolder creates a folder in the run root, but not the run root itself: if that does
// not exist, it is not mounted, and no other agent would see a file in it.
func (d Dir) makeFolder(dir string) error {
	mode := fs.FileMode(0o755)
	if dir == d.leases() {
		mode = 0o700
	}
	err := os.Mkdir(dir, mode)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&^mode != 0 && dir == d.leases() {
		// An earlier version created it. On a read-only mount it stays as it is.
		_ = os.Chmod(dir, mode)
	}
	return nil
}

// Read returns the current state of a fact.
func (d Dir) Read(n Name) Fact {
	f := d.read(d.Path(n))
	if n == DriverReady && f.State == Valid && f.Stamp.DriverVersion != "" {
		return d.checkDriver(f)
	}
	return f
}

// Wait waits until the fact is valid, and returns it. Until then, it calls waiting with the
// invalid fact, once and whenever its state or reason changes.
func (d Dir) Wait(ctx context.Context, n Name, waiting func(Fact)) (Fact, error) {
	var f, last Fact
	err := d.changes(d.folder()).wait(ctx, func() bool {
		f = d.Read(n)
		if f.State != Valid && (f.State != last.State || f.Reason != last.Reason) {
			waiting(f)
		}
		last = f
		return f.State == Valid
	})
	if err != nil {
		return f, fmt.Errorf("%s: %w", f.Reason, err)
	}
	return f, nil
}

func (d Dir) read(path string) Fact {
	file, err := hostfs.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Fact{State: Missing, Reason: d.whyMissing(path)}
	}
	if err != nil {
		return Fact{State: Unreadable, Reason: err.Error()}
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return Fact{State: Unreadable, Reason: err.Error()}
	}
	values, stamp, err := parse(data)
	if err != nil {
		return Fact{State: Unreadable, Reason: fmt.Sprintf("%s: %v", path, err)}
	}
	f := Fact{State: Valid, Stamp: stamp, Values: values}
	if stamp.BootID != "" {
		boot, err := d.bootID()
		if err != nil {
			f.State, f.Reason = Unreadable, err.Error()
			return f
		}
		if boot != stamp.BootID {
			f.State, f.Reason = Stale, fmt.Sprintf("%s was written by %s before the last boot, at %s",
				path, stamp.Writer, stamp.Time.Format(time.RFC3339))
			return f
		}
	}
	if !stamp.Held {
		return f
	}
	switch alive, err := writerLives(file, stamp); {
	case err != nil:
		f.State, f.Reason = Unreadable, err.Error()
	case !alive:
		f.State, f.Reason = WriterDead, fmt.Sprintf("%s was written by %s, which has ended since", path, stamp.Writer)
	}
	return f
}

// writerLives reports whether the writer of a held file still has it locked.
func writerLives(f *os.File, s Stamp) (bool, error) {
	if s.WriteLocked {
		return hostfs.WriteLocked(f)
	}
	// The flock of an earlier version. Closing the file releases the shared lock.
	return unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil, nil
}

func (d Dir) whyMissing(path string) string {
	if _, err := os.Stat(d.Root); err != nil {
		return fmt.Sprintf("run root %s is not there: mount the host's folder, or point --run-root elsewhere", d.Root)
	}
	return path + " has not been written yet"
}

func (d Dir) bootID() (string, error) {
	file := d.BootIDFile
	if file == "" {
		file = "/proc/sys/kernel/random/boot_id"
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read boot id: %w", err)
	}
	id := strings.TrimSpace(string(data))
	if id == "" {
		return "", fmt.Errorf("read boot id: %s is empty", file)
	}
	return id, nil
}

// checkDriver compares a driver-ready file with the driver that the kernel runs.
// A version that cannot be read proves nothing against the file.
func (d Dir) checkDriver(f Fact) Fact {
	version, err := driverproc.Root(d.ProcRoot).Version()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.State, f.Reason = Stale, fmt.Sprintf("%s reported driver %s, but the kernel has none: %v", f.Stamp.Writer, f.Stamp.DriverVersion, err)
	case err == nil && version != f.Stamp.DriverVersion:
		f.State, f.Reason = Stale, fmt.Sprintf("%s reported driver %s, but the kernel runs %s", f.Stamp.Writer, f.Stamp.DriverVersion, version)
	}
	return f
}
