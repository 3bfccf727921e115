package owner_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"outrigger.dev/agents/device-plugin/internal/inventory"
	"outrigger.dev/agents/device-plugin/internal/owner"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/pace"
)

const a, b = gpu.UUID("GPU-a"), gpu.UUID("GPU-b")

func TestAGPUIsClaimedOnce(t *testing.T) {
	dir, first, second := running(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()

	if got := own(first, a, b); len(got) != 0 {
		t.Fatalf("nobody has the GPUs, and Own() = %v", got)
	}
	got := own(second, a, b)
	if len(got) != 2 || !strings.Contains(got[a].Reason, "gpu GPU-a is advertised by device-plugin") {
		t.Fatalf("Own() = %v, want that device-plugin has both", got)
	}
	if got := own(first, b); len(got) != 0 {
		t.Fatalf("Own() = %v of what it has", got)
	}
	select {
	case <-second.freed:
	case <-ctx.Done():
		t.Fatal("a GPU was released without a signal")
	}
	if got := own(second, a, b); len(got) != 1 || got[b].Reason == "" {
		t.Errorf("Own() = %v, want b to be rejected", got)
	}
	_ = first.Close()
	select {
	case <-second.freed:
	case <-ctx.Done():
		t.Fatal("all GPUs were released without a signal")
	}
	if got := own(second, a, b); len(got) != 0 {
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

// process is an Owner that runs.
type process struct {
	*owner.Owner
	// freed has a signal after a call of what Notify was called with.
	freed chan struct{}
}

// own returns the GPUs that a process could not claim.
func own(p *process, gpus ...gpu.UUID) map[gpu.UUID]inventory.Rejection {
	rejected, _ := p.Own(gpus)
	return rejected
}

// run returns an owner that runs until the test ends.
func run(t *testing.T, dir contract.Dir, writer string) *process {
	t.Helper()
	o := &process{Owner: owner.New(dir, writer, slog.New(slog.DiscardHandler)), freed: make(chan struct{}, 1)}
	o.Notify(func() { pace.Signal(o.freed) })
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
func running(t *testing.T) (dir contract.Dir, first, second *process) {
	t.Helper()
	dir = contract.Dir{Root: t.TempDir()}
	return dir, run(t, dir, "device-plugin"), run(t, dir, "dra-plugin")
}

func freed(t *testing.T, o *process) {
	t.Helper()
	select {
	case <-o.freed:
	case <-time.After(10 * time.Second):
		t.Fatal("a GPU was released without a signal")
	}
}

func TestAnyReleasedGPUCausesASignal(t *testing.T) {
	_, first, second := running(t)
	own(first, a, b)
	own(second, a, b)
	own(first, a)
	freed(t, second)
	if got := own(second, a, b); len(got) != 1 || got[a].Reason == "" {
		t.Errorf("Own() = %v, want a to be rejected", got)
	}
}

// A wait for a GPU that this process has claimed meanwhile would never end.
func TestOwnedGPUsAreNotWaitedFor(t *testing.T) {
	_, first, second := running(t)
	for range 50 {
		own(first, a, b)
		own(second, a, b)
		own(second, a, b)
		own(first)
		own(second, a, b) // before the signal
		own(second)
	}
	own(first, b)
	own(second, b)
	for drained := false; !drained; {
		select {
		case <-second.freed:
		default:
			drained = true
		}
	}
	own(first)
	freed(t, second)
}

// A claim that fails for another reason than another process is a fault, and is
// retried.
func TestAFailedClaimIsAFault(t *testing.T) {
	dir, _, second := running(t)
	if err := os.MkdirAll(filepath.Join(dir.Root, "leases", "offer."+string(a), "full"), 0o755); err != nil {
		t.Fatal(err)
	}
	got, err := second.Own([]gpu.UUID{a, b})
	if len(got) != 1 || !got[a].Fault || !strings.Contains(got[a].Reason, "offer.GPU-a") || err == nil {
		t.Fatalf("Own() = %v, %v, want a fault that names the file, and an error", got, err)
	}
}

// Without a run root nothing is rejected, until there is one: it may have been away for
// moments only.
func TestARunRootThatAppearsIsUsed(t *testing.T) {
	dir := contract.Dir{Root: filepath.Join(t.TempDir(), "run")}
	o := run(t, dir, "device-plugin")
	if got, err := o.Own([]gpu.UUID{a}); len(got) != 0 || !errors.Is(err, contract.ErrNoRunRoot) {
		t.Errorf("Own() = %v, %v without a run root", got, err)
	}
	if err := os.Mkdir(dir.Root, 0o755); err != nil {
		t.Fatal(err)
	}
	if got, err := o.Own([]gpu.UUID{a}); len(got) != 0 || err != nil {
		t.Errorf("Own() = %v, %v with a run root", got, err)
	}
	other := run(t, dir, "dra-plugin")
	if got := own(other, a); len(got) != 1 {
		t.Errorf("Own() = %v of another process, want that the GPU is claimed", got)
	}
}

// A claim whose file another program removed would let a second process advertise the GPU.
func TestALostClaimCausesASignal(t *testing.T) {
	dir, first, second := running(t)
	own(second, a, b)
	if err := os.RemoveAll(filepath.Join(dir.Root, "leases")); err != nil {
		t.Fatal(err)
	}
	freed(t, second)
	if got := own(second, a, b); len(got) != 0 {
		t.Errorf("Own() = %v of what it had", got)
	}
	if got := own(first, a, b); len(got) != 2 {
		t.Errorf("Own() = %v of another process, want both rejected", got)
	}
}
