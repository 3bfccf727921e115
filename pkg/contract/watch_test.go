package contract_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/pkg/contract"
)

// watched is a Watch that runs until the test ends.
type watched struct {
	t     *testing.T
	facts chan map[contract.Name]contract.Fact
}

func watch(t *testing.T, d contract.Dir) *watched {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &watched{t: t, facts: make(chan map[contract.Name]contract.Fact)}
	ended := make(chan error, 1)
	go func() {
		ended <- d.Watch(ctx, func(facts map[contract.Name]contract.Fact) {
			select {
			case w.facts <- facts:
			case <-ctx.Done():
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		inTime(t, "Watch", func() {
			if err := <-ended; err != nil {
				t.Errorf("Watch() = %v at the end of its context", err)
			}
		})
	})
	return w
}

// next returns what is delivered next.
func (w *watched) next() map[contract.Name]contract.Fact {
	w.t.Helper()
	select {
	case facts := <-w.facts:
		return facts
	case <-time.After(patience):
		w.t.Fatal("nothing is delivered")
		return nil
	}
}

// await waits until a fact is in a state, and returns it.
func (w *watched) await(n contract.Name, want contract.State) contract.Fact {
	w.t.Helper()
	for {
		facts := w.next()
		if len(facts) != len(contract.Names()) {
			w.t.Fatalf("delivered %d facts, want all", len(facts))
		}
		if f := facts[n]; f.State == want {
			return f
		}
	}
}

func TestWatch(t *testing.T) {
	d := newDir(t)
	must(t, d.Write(contract.ToolkitReady, contract.Record{Writer: "container-toolkit"}))
	w := watch(t, d)
	first := w.next()
	want := map[contract.Name]contract.State{
		contract.DriverReady: contract.Missing, contract.MIGReady: contract.Missing, contract.ToolkitReady: contract.Valid,
		contract.PluginReady: contract.Missing, contract.DRAReady: contract.Missing, contract.CUDAReady: contract.Missing,
	}
	got := map[contract.Name]contract.State{}
	for n, f := range first {
		got[n] = f.State
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what is delivered at first (-want +got):\n%s", diff)
	}
	// What is delivered is the caller's.
	clear(first)

	must(t, d.Write(contract.CUDAReady, contract.Record{Writer: "validation", Values: map[string]string{"A": "1"}}))
	w.await(contract.CUDAReady, contract.Valid)
	must(t, d.Write(contract.CUDAReady, contract.Record{Writer: "validation", Values: map[string]string{"A": "2"}}))
	if f := w.await(contract.CUDAReady, contract.Valid); f.Values["A"] != "2" {
		t.Errorf("another value is a change, got %+v", f)
	}
	must(t, d.Remove(contract.CUDAReady))
	w.await(contract.CUDAReady, contract.Missing)
	must(t, os.WriteFile(d.Path(contract.CUDAReady), []byte("OUTRIGGER_BOOT_ID=other\nOUTRIGGER_WRITER=validation\n"), 0o600))
	if f := w.await(contract.CUDAReady, contract.Stale); !strings.Contains(f.Reason, "before the last boot") {
		t.Errorf("a file of another boot: got %+v", f)
	}
	must(t, os.WriteFile(d.Path(contract.CUDAReady), []byte("hello world\n"), 0o600))
	w.await(contract.CUDAReady, contract.Unreadable)
}

func TestWatchSeesAWriterDie(t *testing.T) {
	d := newDir(t)
	w := watch(t, d)
	w.await(contract.PluginReady, contract.Missing)
	for range 3 {
		a := start(t, "hold", d)
		w.await(contract.PluginReady, contract.Valid)
		a.kill()
		w.await(contract.PluginReady, contract.WriterDead)
	}
	a := start(t, "hold", d)
	w.await(contract.PluginReady, contract.Valid)
	a.quit()
	w.await(contract.PluginReady, contract.Missing)
}

// TestWatchSeesTheDriver changes what procfs shows, which causes no event.
func TestWatchSeesTheDriver(t *testing.T) {
	d := newDir(t)
	d.Root = filepath.Join(d.ProcRoot, "nvidia")
	must(t, os.Mkdir(d.Root, 0o755))
	must(t, d.Write(contract.DriverReady, contract.Record{Writer: "driver-loader", DriverVersion: "580.95.05"}))
	w := watch(t, d)
	w.await(contract.DriverReady, contract.Valid)
	version := filepath.Join(d.ProcRoot, "driver/nvidia/version")
	must(t, os.Rename(version, version+".gone"))
	if f := w.await(contract.DriverReady, contract.Stale); !strings.Contains(f.Reason, "the kernel has none") {
		t.Errorf("the driver was unloaded: got %+v", f)
	}
	must(t, os.Rename(version+".gone", version))
	w.await(contract.DriverReady, contract.Valid)
}

func TestWatchFollowsTheFolder(t *testing.T) {
	d := contract.Dir{Root: filepath.Join(t.TempDir(), "run", "nvidia")}
	write := func() { must(t, d.Write(contract.ToolkitReady, contract.Record{Writer: "container-toolkit"})) }
	w := watch(t, d)
	if f := w.await(contract.ToolkitReady, contract.Missing); !strings.Contains(f.Reason, "run root "+d.Root) {
		t.Errorf("without run root: got %+v", f)
	}
	for range 2 {
		must(t, os.MkdirAll(d.Root, 0o755))
		write()
		w.await(contract.ToolkitReady, contract.Valid)
		must(t, os.RemoveAll(filepath.Dir(d.Path(contract.ToolkitReady))))
		w.await(contract.ToolkitReady, contract.Missing)
		write()
		w.await(contract.ToolkitReady, contract.Valid)
		must(t, os.RemoveAll(filepath.Dir(d.Root)))
		w.await(contract.ToolkitReady, contract.Missing)
	}
}

func TestWatchSeesAMount(t *testing.T) {
	root := t.TempDir()
	d := contract.Dir{Root: root}
	w := watch(t, d)
	w.await(contract.ToolkitReady, contract.Missing)
	if err := syscall.Mount("tmpfs", root, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("needs root to mount a tmpfs: %v", err)
	}
	t.Cleanup(func() { must(t, syscall.Unmount(root, syscall.MNT_DETACH)) })
	must(t, d.Write(contract.ToolkitReady, contract.Record{Writer: "container-toolkit"}))
	w.await(contract.ToolkitReady, contract.Valid)
	must(t, syscall.Mount("", root, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	readOnly := watch(t, d)
	readOnly.await(contract.ToolkitReady, contract.Valid)
}
