package contract_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/hostfs"
)

// inTime runs f and fails the test if it does not return.
func inTime(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("%s does not return", what)
	}
}

// TestReadersCannotHoldWritersUp: whoever may read the run root, for example a pod that
// mounts it read-only, may lock each file and folder in it, with a flock and with a read
// lock.
func TestReadersCannotHoldWritersUp(t *testing.T) {
	d := newDir(t)
	must(t, d.Write(contract.DriverReady, contract.Record{Writer: "driver-loader"}))
	dead := start(t, "hold", d)
	dead.kill()
	offer := start(t, "offer", d)
	offer.kill()
	user := start(t, "share", d)
	user.quit()
	lockAll(t, d.Root)
	if got := d.Read(contract.PluginReady); got.State != contract.WriterDead {
		t.Errorf("the fact of a dead writer is %s while another process locks its file", got.State)
	}
	share, err := d.NVML().Share()
	must(t, err)
	must(t, share.Release())
	claims := d.NewClaims("device-plugin")
	claim(t, claims, claimedGPU, "GPU-1")
	held, err := d.HoldFile(d.Path(contract.PluginReady), contract.Record{Writer: "device-plugin"})
	must(t, err)
	must(t, d.Write(contract.DriverReady, contract.Record{Writer: "driver-loader"}))
	lockAll(t, d.Root)
	if got := d.Read(contract.PluginReady); got.State != contract.Valid {
		t.Errorf("the fact of a living writer is %s: %s", got.State, got.Reason)
	}
	claim(t, claims, claimedGPU, "GPU-1", "GPU-2")
	claims.Release()
	must(t, held.Release())
	if got := d.Read(contract.PluginReady); got.State != contract.Missing {
		t.Errorf("a fact that was released is %s", got.State)
	}
}

// lockAll locks all files and folders below root, as a process that may only read them,
// until the test ends.
func lockAll(t *testing.T, root string) {
	t.Helper()
	must(t, filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = f.Close() })
		_ = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !e.IsDir() {
			_ = hostfs.LockRead(f)
		}
		return nil
	}))
}

// TestTheDeadlineIsForAllGPUs: a process that stops while it claims holds the others up,
// once and not for each GPU, and is named.
func TestTheDeadlineIsForAllGPUs(t *testing.T) {
	d := newDir(t)
	stuck := start(t, "turn", d)
	claims := d.NewClaims("device-plugin")
	devices := make([]string, 64)
	for i := range devices {
		devices[i] = fmt.Sprintf("GPU-%d", i)
	}
	began := time.Now()
	denied := claims.Claim(devices)
	if took := time.Since(began); took > patience || len(denied) != len(devices) {
		t.Errorf("%d of %d GPUs were denied after %s", len(denied), len(devices), took)
	}
	if err := denied["GPU-0"]; err == nil || !strings.Contains(err.Error(), "stuck-agent") {
		t.Errorf("Claim() = %v, want the name of the agent", err)
	}
	// Facts are not held up.
	must(t, d.Write(contract.DriverReady, contract.Record{Writer: "driver-loader"}))
	stuck.kill()
	claim(t, claims, devices...)
	claims.Release()
	left, err := filepath.Glob(filepath.Join(d.Root, "leases", ".*"))
	must(t, err)
	if len(left) != 1 {
		t.Errorf("the turns left %v, want the last one", left)
	}
}

func TestOnlyRootMayOpenLeases(t *testing.T) {
	d := newDir(t)
	claims := d.NewClaims("device-plugin")
	claim(t, claims, claimedGPU)
	defer claims.Release()
	info, err := os.Stat(filepath.Join(d.Root, "leases"))
	must(t, err)
	if info.Mode().Perm() != 0o700 {
		t.Errorf("leases has mode %o, want 700", info.Mode().Perm())
	}
}

// TestAClaimWithoutLockIsNone: another program has written or truncated the file, and no
// process claims NVML.
func TestAClaimWithoutLockIsNone(t *testing.T) {
	d := newDir(t)
	l := d.NVML()
	must(t, os.MkdirAll(filepath.Dir(l.Path()), 0o700))
	for _, content := range []string{"", "OUTRIGGER_WRITER=mig-manager\n", "OUTRIGGER_HELD=true\n"} {
		must(t, os.WriteFile(l.Path()+".claim", []byte(content), 0o600))
		share, err := l.Share()
		if err != nil {
			t.Errorf("Share() = %v while the claim is %q, want a share", err, content)
		}
		must(t, share.Release())
	}
}

func TestAFIFOInAFilesPlaceIsAnErrorInTime(t *testing.T) {
	d := newDir(t)
	l := d.NVML()
	for _, path := range []string{d.Path(contract.DriverReady), l.Path(), l.Path() + ".claim"} {
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, unix.Mkfifo(path, 0o644))
	}
	inTime(t, "Read", func() {
		if got := d.Read(contract.DriverReady); got.State != contract.Unreadable || !strings.Contains(got.Reason, "move it away") {
			t.Errorf("Read() = %+v, want it unreadable", got)
		}
	})
	inTime(t, "Claimed", func() {
		if c, ok := l.Claimed(); ok {
			t.Errorf("Claimed() = %+v, want none", c)
		}
	})
	inTime(t, "Share", func() {
		if _, err := l.Share(); err == nil || !strings.Contains(err.Error(), l.Path()) || !strings.Contains(err.Error(), "move it away") {
			t.Errorf("Share() = %v, want the path and what to do", err)
		}
	})
}

func TestALeaseLockedWithoutClaimSaysSo(t *testing.T) {
	d := newDir(t)
	s, err := d.NVML().Share()
	must(t, err)
	must(t, s.Release())
	f, err := os.OpenFile(d.NVML().Path(), os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	must(t, hostfs.LockWrite(f))
	_, err = d.NVML().Share()
	if !errors.Is(err, contract.ErrClaimed) || !strings.Contains(err.Error(), "lslocks") || strings.Contains(err.Error(), "left)") {
		t.Errorf("Share() = %v, want ErrClaimed by a process that is not known", err)
	}
}

// TestOnlyRootWritesFacts: another user may have written the file, or led its reader there.
func TestOnlyRootWritesFacts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to other users")
	}
	const other = 65534
	for name, change := range map[string]func(d contract.Dir, file string) error{
		"a file of another user": func(_ contract.Dir, file string) error { return os.Chown(file, other, other) },
		"a file for all":         func(_ contract.Dir, file string) error { return os.Chmod(file, 0o666) },
		"a file for a group": func(_ contract.Dir, file string) error {
			return errors.Join(os.Chown(file, 0, other), os.Chmod(file, 0o664))
		},
		"a folder of another user":   func(_ contract.Dir, file string) error { return os.Chown(filepath.Dir(file), other, other) },
		"a folder for all":           func(_ contract.Dir, file string) error { return os.Chmod(filepath.Dir(file), 0o777) },
		"a run root of another user": func(d contract.Dir, _ string) error { return os.Chown(d.Root, other, other) },
		"a run root for all":         func(d contract.Dir, _ string) error { return os.Chmod(d.Root, 0o777) },
		"a link to a file of root": func(_ contract.Dir, file string) error {
			return errors.Join(os.Rename(file, file+"-"), os.Symlink(file+"-", file))
		},
		"a link to a folder of root": func(_ contract.Dir, file string) error {
			return errors.Join(os.Rename(filepath.Dir(file), filepath.Dir(file)+"-"), os.Symlink(filepath.Dir(file)+"-", filepath.Dir(file)))
		},
		"a folder with a sticky bit ": func(_ contract.Dir, file string) error {
			return errors.Join(os.Chmod(filepath.Dir(file), 0o777|os.ModeSticky), os.Chown(file, other, other))
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDir(t)
			held, err := d.HoldFile(d.Path(contract.ToolkitReady), contract.Record{Writer: "container-toolkit", Values: map[string]string{contract.KeyCDIHook: "/tmp/x"}})
			must(t, err)
			defer held.Release()
			if f := d.Read(contract.ToolkitReady); f.State != contract.Valid {
				t.Fatalf("the fact is %s (%s) before", f.State, f.Reason)
			}
			must(t, change(d, d.Path(contract.ToolkitReady)))
			if f := d.Read(contract.ToolkitReady); f.State != contract.Unreadable || len(f.Values) > 0 || !strings.Contains(f.Reason, d.Root) {
				t.Errorf("the fact is %+v, want it unreadable, with the path", f)
			}
		})
	}
}

// TestAFactWithoutStampHasNoValues: NVIDIA's components write such facts, which tell only that
// something is ready.
func TestAFactWithoutStampHasNoValues(t *testing.T) {
	d := newDir(t)
	path := d.Path(contract.ToolkitReady)
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(contract.KeyCDIHook+"=/tmp/x\n"), 0o600))
	if f := d.Read(contract.ToolkitReady); f.State != contract.Valid || len(f.Values) > 0 {
		t.Errorf("the fact is %+v, want it valid without values", f)
	}
}

// TestNobodyLeadsWritersElsewhere: a link in place of a folder, or a folder that others can change,
// makes an error with the path, and nothing is written there.
func TestNobodyLeadsWritersElsewhere(t *testing.T) {
	for _, folder := range []string{"leases", "validations"} {
		for name, make := range map[string]func(path, elsewhere string) error{
			"a link":           func(path, elsewhere string) error { return os.Symlink(elsewhere, path) },
			"a folder for all": func(path, _ string) error { return errors.Join(os.Mkdir(path, 0o755), os.Chmod(path, 0o777)) },
		} {
			t.Run(folder+"/"+name, func(t *testing.T) {
				d, elsewhere := newDir(t), t.TempDir()
				must(t, os.Chmod(elsewhere, 0o750))
				path := filepath.Join(d.Root, folder)
				must(t, make(path, elsewhere))
				var err error
				if folder == "leases" {
					_, err = d.NVML().Claim(t.Context(), "mig-manager", "apply", time.Second)
					if _, shareErr := d.NVML().Share(); shareErr == nil {
						t.Error("Share() succeeds")
					}
					if denied := d.NewClaims("device-plugin").Claim([]string{claimedGPU}); denied[claimedGPU] == nil {
						t.Error("a GPU is claimed")
					}
				} else {
					err = d.Write(contract.DriverReady, contract.Record{Writer: "driver-loader"})
				}
				if err == nil || !strings.Contains(err.Error(), path) || errors.Is(err, contract.ErrNoRunRoot) {
					t.Errorf("error %v, want the path", err)
				}
				for _, dir := range []string{path, elsewhere} {
					entries, err := os.ReadDir(dir)
					must(t, err)
					if len(entries) > 0 {
						t.Errorf("%s has %s", dir, entries)
					}
				}
				if info, err := os.Stat(elsewhere); err != nil || info.Mode().Perm() != 0o750 {
					t.Errorf("the other folder has mode %s, %v", info.Mode(), err)
				}
			})
		}
	}
}
