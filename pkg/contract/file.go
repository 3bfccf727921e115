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
	h, err := d.put(d.Path(n), r, putOptions{})
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
// Release or the end of the process, even by a crash, and readers check the lock.
func (d Dir) Hold(n Name, r Record) (*Held, error) {
	return d.put(d.Path(n), r, putOptions{held: true})
}

// HoldFile is Hold for a fact whose file is at another path than those of Names. The folder
// of the file must exist.
func (d Dir) HoldFile(path string, r Record) (*Held, error) {
	return d.put(path, r, putOptions{held: true})
}

// ReadFile returns the fact in a file that HoldFile wrote.
func (d Dir) ReadFile(path string) Fact { return d.read(path) }

// Held is a published fact that is valid until Release. Keep the value: the lock is
// released when it is garbage collected.
type Held struct {
	file *os.File
	path string
}

// Release deletes the file, unless another writer has replaced it, and unlocks it. It does
// nothing for nil.
func (h *Held) Release() error {
	if h == nil {
		return nil
	}
	unlock, err := lockFolder(filepath.Dir(h.path))
	if err != nil {
		return errors.Join(err, h.file.Close())
	}
	defer unlock()
	mine, errMine := h.file.Stat()
	there, errThere := os.Stat(h.path)
	if errMine == nil && errThere == nil && os.SameFile(mine, there) {
		err = os.Remove(h.path)
	}
	// It is unlocked before it is closed, because the close wakes waiters.
	return errors.Join(err, unix.Flock(int(h.file.Fd()), unix.LOCK_UN), h.file.Close())
}

type putOptions struct {
	held bool
	// exclusive rejects the write if the file exists and its writer lives.
	exclusive bool
}

// put writes the stamped file as a whole. A held file is locked before it is visible. put
// does not wait for the disk, because the stamp makes it a fact of this boot only.
func (d Dir) put(path string, r Record, o putOptions) (_ *Held, err error) {
	boot, err := d.bootID()
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	data, err := format(r.Values, Stamp{
		BootID: boot, Writer: r.Writer, Time: time.Now(), DriverVersion: r.DriverVersion, Held: o.held,
	})
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	if err := makeFolder(filepath.Dir(path)); err != nil {
		return nil, d.unwritable(err)
	}
	unlock, err := lockFolder(filepath.Dir(path))
	if err != nil {
		return nil, d.unwritable(err)
	}
	defer unlock()
	if o.exclusive {
		if f := d.read(path); f.State == Valid {
			return nil, &claimedError{claim: claimOf(f)}
		}
	}
	f, err := hostfs.Replace(path, 0o644)
	if err != nil {
		return nil, d.unwritable(err)
	}
	err = func() error {
		if o.held {
			if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
				return fmt.Errorf("lock %s: %w", path, err)
			}
		}
		if _, err := f.Write(data); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
		return f.Show()
	}()
	if err != nil {
		return nil, errors.Join(d.unwritable(err), f.Close())
	}
	return &Held{file: f.File, path: path}, nil
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
func makeFolder(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
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
	w, err := hostfs.NewWatcher(d.Path(n))
	if err != nil {
		return Fact{}, err
	}
	defer w.Close() //nolint:errcheck // nothing was written through it
	var last Fact
	for {
		f := d.Read(n)
		if f.State == Valid {
			return f, nil
		}
		if f.State != last.State || f.Reason != last.Reason {
			waiting(f)
		}
		last = f
		if _, err := w.Next(ctx); err != nil {
			if ctx.Err() != nil {
				return f, fmt.Errorf("%s: %w", f.Reason, ctx.Err())
			}
			return f, err
		}
	}
}

func (d Dir) read(path string) Fact {
	file, err := openFile(path)
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
	if stamp.Held && !locked(file) {
		f.State, f.Reason = WriterDead, fmt.Sprintf("%s was written by %s, which has ended since", path, stamp.Writer)
	}
	return f
}

// locked reports whether a writer holds the file. Closing the file releases the shared lock
// that locked takes if no one does.
func locked(f *os.File) bool {
	return unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil
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
