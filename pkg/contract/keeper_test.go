package contract_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"outrigger.dev/pkg/contract"
)

// keep runs a Keeper of plugin-ready until the test ends.
func keep(t *testing.T, d contract.Dir) *contract.Keeper {
	t.Helper()
	k := d.NewKeeper(d.Path(contract.PluginReady), slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		inTime(t, "Run", func() { must(t, <-ended) })
	})
	return k
}

// removeAll removes a folder with all files in it. Who keeps a file there may be quicker than the
// removal of the folder, which stays then.
func removeAll(dir string) error {
	err := os.RemoveAll(dir)
	if errors.Is(err, unix.ENOTEMPTY) {
		return nil
	}
	return err
}

// ready waits until the fact is valid and has this writer.
func ready(t *testing.T, d contract.Dir, writer string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		f, err := d.Wait(ctx, contract.PluginReady, func(contract.Fact) {})
		must(t, err)
		if f.Stamp.Writer == writer && f.Stamp.Held {
			return
		}
		unix.Nanosleep(&unix.Timespec{Nsec: 1e6}, nil)
	}
}

func TestAFactThatItsKeeperLeaves(t *testing.T) {
	d := newDir(t)
	k := d.NewKeeper(d.Path(contract.PluginReady), slog.New(slog.DiscardHandler))
	k.Publish(contract.Record{Writer: "device-plugin"})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	must(t, k.Keep(ctx))
	if _, err := os.Stat(d.Path(contract.PluginReady)); err != nil {
		t.Errorf("after Keep the file is gone: %v", err)
	}
	k.Withdraw()
	if f := d.Read(contract.PluginReady); f.State != contract.Missing {
		t.Errorf("after Withdraw the fact is %s", f.State)
	}
}

func TestAKeptFactHeals(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, path string){
		"removed":      func(t *testing.T, path string) { must(t, os.Remove(path)) },
		"truncated":    func(t *testing.T, path string) { must(t, os.Truncate(path, 0)) },
		"written over": func(t *testing.T, path string) { must(t, os.WriteFile(path, []byte("x"), 0o600)) },
		"replaced": func(t *testing.T, path string) {
			must(t, os.WriteFile(path+"2", nil, 0o600))
			must(t, os.Rename(path+"2", path))
		},
		"moved":           func(t *testing.T, path string) { must(t, os.Rename(path, path+".old")) },
		"with the folder": func(t *testing.T, path string) { must(t, removeAll(filepath.Dir(path))) },
		"with the moved folder": func(t *testing.T, path string) {
			must(t, os.Rename(filepath.Dir(path), filepath.Join(t.TempDir(), "old")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDir(t)
			k := keep(t, d)
			k.Publish(contract.Record{Writer: "device-plugin"})
			if f := d.Read(contract.PluginReady); f.State != contract.Valid {
				t.Fatalf("after Publish the fact is %s: %s", f.State, f.Reason)
			}
			for range 3 {
				damage(t, d.Path(contract.PluginReady))
				ready(t, d, "device-plugin")
			}
			k.Withdraw()
			if f := d.Read(contract.PluginReady); f.State != contract.Missing {
				t.Errorf("after Withdraw the fact is %s", f.State)
			}
		})
	}
}

func TestAKeptFactWaitsForTheRunRoot(t *testing.T) {
	d := contract.Dir{Root: filepath.Join(t.TempDir(), "run", "nvidia")}
	k := keep(t, d)
	k.Publish(contract.Record{Writer: "device-plugin"})
	must(t, os.MkdirAll(d.Root, 0o755))
	ready(t, d, "device-plugin")
	must(t, removeAll(d.Root))
	must(t, os.MkdirAll(d.Root, 0o755))
	ready(t, d, "device-plugin")
}

func TestAKeptFactWaitsForTheDisk(t *testing.T) {
	for name, state := range map[string]struct {
		broken, whole func(t *testing.T, root string)
	}{
		"a read-only mount": {
			broken: func(t *testing.T, root string) {
				must(t, syscall.Mount("", root, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
			},
			whole: func(t *testing.T, root string) { must(t, syscall.Mount("", root, "", syscall.MS_REMOUNT, "")) },
		},
		"a full disk": {
			broken: func(t *testing.T, root string) {
				err := os.WriteFile(filepath.Join(root, "full"), make([]byte, 1<<20), 0o600)
				if err == nil || !strings.Contains(err.Error(), "no space") {
					t.Fatalf("the disk is not full: %v", err)
				}
			},
			whole: func(t *testing.T, root string) { must(t, os.Remove(filepath.Join(root, "full"))) },
		},
		"a full disk on which others make space": {
			broken: func(t *testing.T, root string) {
				must(t, os.Mkdir(filepath.Join(root, "others"), 0o755))
				err := os.WriteFile(filepath.Join(root, "others", "full"), make([]byte, 1<<20), 0o600)
				if err == nil || !strings.Contains(err.Error(), "no space") {
					t.Fatalf("the disk is not full: %v", err)
				}
			},
			// The kernel reports nothing of it to who watches the root.
			whole: func(t *testing.T, root string) { must(t, os.Remove(filepath.Join(root, "others", "full"))) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := contract.Dir{Root: t.TempDir()}
			if err := syscall.Mount("tmpfs", d.Root, "tmpfs", 0, "size=64k"); err != nil {
				t.Skipf("needs root to mount a tmpfs: %v", err)
			}
			t.Cleanup(func() { must(t, syscall.Unmount(d.Root, syscall.MNT_DETACH)) })
			state.broken(t, d.Root)
			k := keep(t, d)
			k.Publish(contract.Record{Writer: "device-plugin"})
			if f := d.Read(contract.PluginReady); f.State == contract.Valid {
				t.Fatal("the fact was written nevertheless")
			}
			state.whole(t, d.Root)
			ready(t, d, "device-plugin")
		})
	}
}

// TestAKeptFactLeavesItsSuccessorAlone: two processes that keep the same fact do not fight,
// and one is left when the other one ends, however it ends.
func TestAKeptFactLeavesItsSuccessorAlone(t *testing.T) {
	d := newDir(t)
	k := keep(t, d)
	k.Publish(contract.Record{Writer: "first"})
	ready(t, d, "first")
	next := start(t, "hold", d)
	must(t, contract.Check(k))
	if f := d.Read(contract.PluginReady); f.Stamp.Writer != "device-plugin" {
		t.Errorf("the fact is that of %s, want that of the process that published last", f.Stamp.Writer)
	}
	next.kill()
	ready(t, d, "first")
}
