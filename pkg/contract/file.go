package contract

import (
	"cmp"
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

// ErrNoRunRoot is returned by functions that write if the run root cannot be written: it is not
// mounted, or read-only. An agent logs the error and continues without the other agents.
var ErrNoRunRoot = errors.New("run root cannot be written")

// Write publishes a fact that stays valid after its writer ends.
func (d Dir) Write(n Name, r Record) error {
	h, err := d.put(d.Path(n), r, false)
	if err != nil {
		return err
	}
	return h.file.Close()
}

// Remove deletes the file of a fact. It returns nil if the file does not exist.
func (d Dir) Remove(n Name) error { return remove(d.Path(n)) }

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("withdraw %s: %w", filepath.Base(path), err)
	}
	return nil
}

// HoldFile publishes a fact that is valid while its writer lives. The file stays locked until Release
// or the end of the process, even by a crash, and readers check the lock. Use a Keeper to publish
// the fact again if another program removes it.
func (d Dir) HoldFile(path string, r Record) (*Held, error) { return d.put(path, r, true) }

// ReadFile returns the fact in a file that HoldFile wrote.
func (d Dir) ReadFile(path string) Fact { return d.read(path) }

// put writes the whole file with a stamp. It locks a held file before the file is visible. It does
// not wait for other processes or the disk: the fact need not survive a reboot, because its stamp
// limits it to this boot.
func (d Dir) put(path string, r Record, held bool) (*Held, error) {
	boot, err := d.BootID()
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	data, err := format(r.Values, Stamp{
		BootID: boot, Writer: r.Writer, Time: time.Now(), DriverVersion: r.DriverVersion, Held: held,
	})
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	if err := d.makeFolder(filepath.Dir(path)); err != nil {
		return nil, d.unwritable(err)
	}
	f, err := hostfs.Replace(path, 0o644)
	if err != nil {
		return nil, d.unwritable(err)
	}
	h := &Held{file: f.File, path: path}
	err = func() error {
		if held {
			if err := f.Locked(); err != nil {
				return fmt.Errorf("write %s: %w", path, err)
			}
		}
		if _, err := f.Write(data); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
		// The file is not visible yet, so any later change is by another program.
		if h.shown, err = f.Stat(); err != nil {
			return err
		}
		if r.durable {
			return f.Commit()
		}
		return f.Show()
	}()
	if err != nil {
		return nil, errors.Join(d.unwritable(err), f.Close())
	}
	return h, nil
}

// unwritable adds ErrNoRunRoot to errors that mean that the run root cannot be written.
func (d Dir) unwritable(err error) error {
	if errors.Is(err, unix.EROFS) || errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w (mount the host's %s read-write, or point --run-root elsewhere)", ErrNoRunRoot, err, d.Root)
	}
	return err
}

// makeFolder creates a folder in the run root, but not the run root itself. If the run root does
// not exist, it is not mounted, and other agents would not see the files. It rejects a folder that
// other users can change, and a link in the folder's place.
func (d Dir) makeFolder(dir string) error {
	if d.Root == "" {
		return fmt.Errorf("%w: its path is empty: set --run-root", ErrNoRunRoot)
	}
	mode := fs.FileMode(0o755)
	if dir == d.leases() {
		mode = 0o700
	}
	if err := os.Mkdir(dir, mode); !errors.Is(err, fs.ErrExist) {
		return err
	}
	_, err := d.trusted(dir)
	return err
}

// trusted returns the path of a file or folder of the contract, with links resolved. It returns an
// error if users other than root can change the file or a folder of its path, or if the file or the
// folder that contains it is a link.
func (d Dir) trusted(path string) (string, error) {
	real, err := hostfs.Trusted("/", path)
	if err != nil {
		return "", err
	}
	for _, p := range []string{filepath.Dir(path), path} {
		if info, err := os.Lstat(p); err == nil && p != d.Root && info.Mode()&fs.ModeSymlink != 0 {
			return "", fmt.Errorf("%s is a symbolic link: remove it", p)
		}
	}
	return real, nil
}

// Read returns the current state of a fact.
func (d Dir) Read(n Name) Fact {
	f := d.read(d.Path(n))
	if n == DriverReady && f.State == Valid && f.Stamp.DriverVersion != "" {
		return d.checkDriver(f)
	}
	return f
}

// Wait waits until the fact is valid, and returns it. Until then, it calls waiting with the invalid
// fact, once and whenever its state or reason changes.
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

// read returns the fact in a file. A fact counts only if nobody but root can have written it, because
// root acts on it. A fact without a stamp has no values: components of NVIDIA write such files.
func (d Dir) read(path string) Fact {
	real, err := d.trusted(path)
	var file *os.File
	if err == nil {
		file, err = hostfs.Open(real)
	}
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
	if stamp.Writer == "" {
		values = nil
	}
	f := Fact{State: Valid, Stamp: stamp, Values: values}
	if stamp.BootID != "" {
		boot, err := d.BootID()
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
	switch locked, err := hostfs.WriteLocked(file); {
	case err != nil:
		f.State, f.Reason = Unreadable, err.Error()
	case !locked:
		f.State, f.Reason = WriterDead, fmt.Sprintf("%s was written by %s, which has ended since", path, stamp.Writer)
	}
	return f
}

// lockedBy returns the name of the agent that has locked a file, and whether a process has locked it. Another
// program may have truncated the file, so a file without a name can be locked.
func (d Dir) lockedBy(path string) (agent string, locked bool) {
	file, err := hostfs.Open(path)
	if err != nil {
		return "", false
	}
	defer file.Close()
	if locked, err := hostfs.WriteLocked(file); err != nil || !locked {
		return "", false
	}
	return cmp.Or(d.read(path).Stamp.Writer, "another process"), true
}

func (d Dir) whyMissing(path string) string {
	if _, err := os.Stat(d.Root); err != nil {
		return fmt.Sprintf("run root %s does not exist: mount the host's folder, or point --run-root elsewhere", d.Root)
	}
	return path + " has not been written yet"
}

// BootID returns the ID of this boot of the node. It is the same in all containers.
func (d Dir) BootID() (string, error) {
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

// checkDriver compares a driver-ready file with the loaded driver. If the version of the driver
// cannot be read, the file stays valid.
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
