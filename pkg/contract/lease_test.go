package contract_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/hostfs"
)

func TestLease(t *testing.T) {
	d := newDir(t)
	l := d.NVML()
	a, err := l.Share()
	must(t, err)
	b, err := l.Share()
	must(t, err)
	if _, ok := l.Claimed(); ok {
		t.Error("nobody has claimed the lease")
	}
	must(t, a.Release())
	must(t, b.Release())
	must(t, (*contract.Share)(nil).Release())

	g, err := l.Claim(t.Context(), "mig-manager", "apply all-1g.5gb", time.Minute)
	must(t, err)
	c, ok := l.Claimed()
	if !ok || c.Owner != "mig-manager" || c.Reason != "apply all-1g.5gb" {
		t.Errorf("claim: got %+v, %t", c, ok)
	}
	if r := c.Remaining(); r > time.Minute || r < time.Minute-patience {
		t.Errorf("remaining: want about a minute, got %s", r)
	}
	_, shareErr := l.Share()
	_, claimErr := l.Claim(t.Context(), "driver-loader", "upgrade", time.Minute)
	for name, err := range map[string]error{"Share": shareErr, "Claim": claimErr} {
		if !errors.Is(err, contract.ErrClaimed) || !strings.Contains(err.Error(), "mig-manager (apply all-1g.5gb)") {
			t.Errorf("%s while claimed: want ErrClaimed with owner and reason, got %v", name, err)
		}
	}
	must(t, g.Release())
	must(t, (*contract.Grant)(nil).Release())
	s, err := l.Share()
	must(t, err)
	must(t, s.Release())
}

// TestClaimWaitsForUsers has users in processes of their own: one that gives the
// share back, and one that crashes.
func TestClaimWaitsForUsers(t *testing.T) {
	d := newDir(t)
	polite, crashing := start(t, "share", d), start(t, "share", d)
	owner, out := launch(t, "claim", d)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := contract.WaitClaimed(ctx, d.NVML())
	must(t, err)
	if c.Owner != "mig-manager" {
		t.Errorf("want the claim of mig-manager, got %+v", c)
	}
	if _, err := d.NVML().Share(); !errors.Is(err, contract.ErrClaimed) {
		t.Errorf("a claim that waits already keeps new users out: got %v", err)
	}
	polite.quit()
	crashing.kill()
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("owner: %s", line)
	}
	owner.quit()
}

func TestAClaimEndsWithItsOwner(t *testing.T) {
	for name, end := range map[string]func(*agent){
		"the owner releases the lease": (*agent).quit,
		"the owner crashes":            (*agent).kill,
	} {
		t.Run(name, func(t *testing.T) {
			d := newDir(t)
			owner := start(t, "claim", d)
			if _, err := d.NVML().Share(); !errors.Is(err, contract.ErrClaimed) {
				t.Fatalf("the lease is claimed: got %v", err)
			}
			end(owner)
			s, err := d.NVML().Share()
			must(t, err)
			must(t, s.Release())
		})
	}
}

func TestClaimGivesUp(t *testing.T) {
	d := newDir(t)
	user := start(t, "share", d)
	_, err := d.NVML().Claim(t.Context(), "mig-manager", "reset", 50*time.Millisecond)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "NVML is still in use") {
		t.Errorf("want DeadlineExceeded, got %v", err)
	}
	if c, ok := d.NVML().Claimed(); ok {
		t.Errorf("a claim that was given up must be gone, got %v", c)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.NVML().Claim(ctx, "mig-manager", "reset", time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("want Canceled, got %v", err)
	}
	user.quit()
	g, err := d.NVML().Claim(t.Context(), "mig-manager", "reset", time.Minute)
	must(t, err)
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	must(t, g.Release())
	if _, err := contract.WaitClaimed(ctx, d.NVML()); !errors.Is(err, context.Canceled) {
		t.Errorf("WaitClaimed: want Canceled, got %v", err)
	}
}

// TestALockThatStaysIsNamed has claims with a long limit, while another process keeps a lock on the file of
// the lease.
func TestALockThatStaysIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		locks func(t *testing.T, d contract.Dir) (pid int)
	}{
		"an agent that does not release its share": {
			locks: func(t *testing.T, d contract.Dir) int { return start(t, "share", d).cmd.Process.Pid },
		},
		"a process that may only read the file": {
			locks: func(t *testing.T, d contract.Dir) int {
				start(t, "share", d).quit() // it makes the file
				f, err := os.Open(d.NVML().Path())
				must(t, err)
				t.Cleanup(func() { _ = f.Close() })
				must(t, hostfs.LockRead(f))
				return os.Getpid()
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDir(t)
			pid := c.locks(t, d)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			_, err := contract.WithUsersWait(d.NVML(), 50*time.Millisecond).Claim(ctx, "mig-manager", "reset", time.Hour)
			if want := fmt.Sprintf("NVML is still in use by contract.test (pid %d)", pid); err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want %q in it", err, want)
			}
			if c, ok := d.NVML().Claimed(); ok {
				t.Errorf("a claim that was given up is still published: %v", c)
			}
		})
	}
}

// TestClaimsExcludeEachOther lets many processes claim at once.
func TestClaimsExcludeEachOther(t *testing.T) {
	d := newDir(t)
	// What a crashed owner leaves must not help two to the lease.
	start(t, "claim", d).kill()
	type result struct {
		line  string
		agent *agent
	}
	results := make(chan result)
	for range 6 {
		a, out := launch(t, "claim", d)
		go func() {
			line, _ := bufio.NewReader(out).ReadString('\n')
			results <- result{line, a}
		}()
	}
	var owner *agent
	for range 6 {
		r := <-results
		switch {
		case r.line == "ready\n" && owner == nil:
			owner = r.agent
		case r.line == "ready\n":
			t.Error("two owners at once")
		case !strings.Contains(r.line, "lease is claimed by mig-manager"):
			t.Errorf("unexpected answer: %s", r.line)
		}
	}
	if owner == nil {
		t.Fatal("nobody got the lease")
	}
	owner.quit()
}

func TestShareFromReadOnlyMount(t *testing.T) {
	root := t.TempDir()
	if err := syscall.Mount("tmpfs", root, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("needs root to mount a tmpfs: %v", err)
	}
	t.Cleanup(func() { must(t, syscall.Unmount(root, syscall.MNT_DETACH)) })
	l := contract.Dir{Root: root}.NVML()
	readOnly := func() { must(t, syscall.Mount("", root, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, "")) }
	readOnly()
	if _, err := l.Share(); !errors.Is(err, contract.ErrNoRunRoot) {
		t.Errorf("no file to lock and no way to make it: want ErrNoRunRoot, got %v", err)
	}
	must(t, syscall.Mount("", root, "", syscall.MS_REMOUNT, ""))
	s, err := l.Share()
	must(t, err)
	must(t, s.Release())
	fi, err := os.Stat(l.Path())
	must(t, err)
	if fi.Size() != 0 {
		t.Errorf("the file that is locked stays empty, has %d bytes", fi.Size())
	}
	readOnly()
	s, err = l.Share()
	must(t, err)
	must(t, s.Release())
}

// inUse reports whether a user of NVML has the file of the lease locked.
func inUse(path string) bool {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(hostfs.LockWrite(f), hostfs.ErrLocked)
}

// TestAShareIsKept: a claimer has to wait for each user, also if another program removed the
// file of the lease, and if the user began without a run root.
func TestAShareIsKept(t *testing.T) {
	for name, lose := range map[string]func(t *testing.T, root string) error{
		"the file is removed":   func(_ *testing.T, root string) error { return os.Remove(filepath.Join(root, "leases", "nvml")) },
		"the folder is removed": func(_ *testing.T, root string) error { return removeAll(filepath.Join(root, "leases")) },
		"the run root appears":  nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := contract.Dir{Root: filepath.Join(t.TempDir(), "run")}
			if lose != nil {
				must(t, os.Mkdir(d.Root, 0o755))
			}
			share, err := d.NVML().Share()
			if lose != nil {
				must(t, err)
			} else if !errors.Is(err, contract.ErrNoRunRoot) {
				t.Fatalf("Share() = %v without a run root, want ErrNoRunRoot", err)
			}
			kept := make(chan error, 1)
			go func() {
				_, err := share.Keep(t.Context())
				kept <- err
			}()
			if lose == nil {
				must(t, os.Mkdir(d.Root, 0o755))
			} else {
				must(t, lose(t, d.Root))
			}
			inTime(t, "Keep", func() {
				for !inUse(d.NVML().Path()) {
					unix.Nanosleep(&unix.Timespec{Nsec: 1e6}, nil)
				}
			})
			granted := make(chan error, 1)
			go func() {
				g, err := d.NVML().Claim(t.Context(), "mig-manager", "test", patience)
				granted <- errors.Join(err, g.Release())
			}()
			must(t, <-kept) // the claim is seen
			select {
			case err := <-granted:
				t.Fatalf("Claim() = %v while NVML is used, want that it waits", err)
			default:
			}
			must(t, share.Release())
			must(t, <-granted)
		})
	}
}

// TestShareOfAnotherUser: the folder of leases is root's, and NVML can be used without it.
func TestShareOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to be another user for a moment")
	}
	d := newDir(t)
	first, err := d.NVML().Share()
	must(t, err)
	t.Cleanup(func() { must(t, first.Release()) })
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	must(t, unix.Setfsuid(65534))
	share, err := d.NVML().Share()
	must(t, unix.Setfsuid(0))
	if share == nil || !errors.Is(err, contract.ErrNoRunRoot) || !errors.Is(err, fs.ErrPermission) {
		t.Fatalf("Share() = %v, %v, want a share that no claim waits for, and why", share, err)
	}
	must(t, share.Release())
}
