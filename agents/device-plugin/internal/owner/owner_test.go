package owner_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"outrigger.dev/agents/device-plugin/internal/owner"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
)

const a, b = gpu.UUID("GPU-a"), gpu.UUID("GPU-b")

func TestAGPUIsClaimedOnce(t *testing.T) {
	dir, first, second := running(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()

	if got := first.Own([]gpu.UUID{a, b}); len(got) != 0 {
		t.Fatalf("nobody has the GPUs, and Own() = %v", got)
	}
	got := second.Own([]gpu.UUID{a, b})
	if len(got) != 2 || !strings.Contains(got[a].Reason, "gpu GPU-a is advertised by device-plugin") {
		t.Fatalf("Own() = %v, want that device-plugin has both", got)
	}
	if got := first.Own([]gpu.UUID{b}); len(got) != 0 {
		t.Fatalf("Own() = %v of what it has", got)
	}
	select {
	case <-second.Freed():
	case <-ctx.Done():
		t.Fatal("a GPU was released without a signal")
	}
	if got := second.Own([]gpu.UUID{a, b}); len(got) != 1 || got[b].Reason == "" {
		t.Errorf("Own() = %v, want b to be rejected", got)
	}
	_ = first.Close()
	select {
	case <-second.Freed():
	case <-ctx.Done():
		t.Fatal("all GPUs were released without a signal")
	}
	if got := second.Own([]gpu.UUID{a, b}); len(got) != 0 {
		t.Errorf("Own() = %v, want both", got)
	}
	_ = second.Close()
	left, err := os.ReadDir(filepath.Join(dir.Root, "leases"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range left {
		if strings.HasPrefix(e.Name(), "offer.") {
			t.Errorf("%s is left", e.Name())
		}
	}
}

// run returns an owner that runs until the test ends.
func run(t *testing.T, dir contract.Dir, writer string) *owner.Owner {
	t.Helper()
	o := owner.New(dir, writer, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- o.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		_ = o.Close()
	})
	return o
}

// running returns two owners of one node.
func running(t *testing.T) (dir contract.Dir, first, second *owner.Owner) {
	t.Helper()
	dir = contract.Dir{Root: t.TempDir()}
	return dir, run(t, dir, "device-plugin"), run(t, dir, "dra-plugin")
}

func freed(t *testing.T, o *owner.Owner) {
	t.Helper()
	select {
	case <-o.Freed():
	case <-time.After(10 * time.Second):
		t.Fatal("a GPU was released without a signal")
	}
}

func TestAnyReleasedGPUCausesASignal(t *testing.T) {
	_, first, second := running(t)
	first.Own([]gpu.UUID{a, b})
	second.Own([]gpu.UUID{a, b})
	first.Own([]gpu.UUID{a})
	freed(t, second)
	if got := second.Own([]gpu.UUID{a, b}); len(got) != 1 || got[a].Reason == "" {
		t.Errorf("Own() = %v, want a to be rejected", got)
	}
}

// A wait for a GPU that this process has claimed meanwhile would never end.
func TestOwnedGPUsAreNotWaitedFor(t *testing.T) {
	_, first, second := running(t)
	for range 50 {
		first.Own([]gpu.UUID{a, b})
		second.Own([]gpu.UUID{a, b})
		second.Own([]gpu.UUID{a, b})
		first.Own(nil)
		second.Own([]gpu.UUID{a, b}) // before the signal
		second.Own(nil)
	}
	first.Own([]gpu.UUID{b})
	second.Own([]gpu.UUID{b})
	for drained := false; !drained; {
		select {
		case <-second.Freed():
		default:
			drained = true
		}
	}
	first.Own(nil)
	freed(t, second)
}

// A claim that fails for another reason than another process is a fault, and is
// retried after a while.
func TestAFailedClaimIsAFault(t *testing.T) {
	dir, _, second := running(t)
	if err := os.MkdirAll(filepath.Join(dir.Root, "leases", "offer."+string(a), "full"), 0o755); err != nil {
		t.Fatal(err)
	}
	got := second.Own([]gpu.UUID{a, b})
	if len(got) != 1 || !got[a].Fault || !strings.Contains(got[a].Reason, "offer.GPU-a") {
		t.Fatalf("Own() = %v, want a fault that names the file", got)
	}
	select {
	case <-second.Freed():
		t.Error("the claim is retried at once")
	case <-time.After(300 * time.Millisecond):
	}
}

// Without a run root nothing is rejected, until there is one: it may have been away for
// moments only.
func TestARunRootThatAppearsIsUsed(t *testing.T) {
	dir := contract.Dir{Root: filepath.Join(t.TempDir(), "run")}
	o := run(t, dir, "device-plugin")
	if got := o.Own([]gpu.UUID{a}); len(got) != 0 {
		t.Errorf("Own() = %v without a run root", got)
	}
	if err := os.Mkdir(dir.Root, 0o755); err != nil {
		t.Fatal(err)
	}
	freed(t, o)
	if got := o.Own([]gpu.UUID{a}); len(got) != 0 {
		t.Errorf("Own() = %v with a run root", got)
	}
	other := run(t, dir, "dra-plugin")
	if got := other.Own([]gpu.UUID{a}); len(got) != 1 {
		t.Errorf("Own() = %v of another process, want that the GPU is claimed", got)
	}
}

// A claim whose file another program removed would let a second process advertise the GPU.
func TestALostClaimCausesASignal(t *testing.T) {
	dir, first, second := running(t)
	second.Own([]gpu.UUID{a, b})
	if err := os.RemoveAll(filepath.Join(dir.Root, "leases")); err != nil {
		t.Fatal(err)
	}
	freed(t, second)
	if got := second.Own([]gpu.UUID{a, b}); len(got) != 0 {
		t.Errorf("Own() = %v of what it had", got)
	}
	if got := first.Own([]gpu.UUID{a, b}); len(got) != 2 {
		t.Errorf("Own() = %v of another process, want both rejected", got)
	}
}
