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

func TestAGPUIsOfferedOnce(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	dir := contract.Dir{Root: t.TempDir()}
	first, second := owner.New(dir, "device-plugin", log), owner.New(dir, "dra-plugin", log)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	done := make(chan error, 1)
	go func() { done <- second.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })

	if got := first.Own([]gpu.UUID{a, b}); len(got) != 0 {
		t.Fatalf("nobody has the GPUs, and Own() = %v", got)
	}
	got := second.Own([]gpu.UUID{a, b})
	if len(got) != 2 || !strings.Contains(got[a], "gpu GPU-a is offered by device-plugin") {
		t.Fatalf("Own() = %v, want that device-plugin has both", got)
	}
	if got := first.Own([]gpu.UUID{b}); len(got) != 0 {
		t.Fatalf("Own() = %v of what it has", got)
	}
	select {
	case <-second.Freed():
	case <-ctx.Done():
		t.Fatal("a GPU was given back, and nobody was told")
	}
	if got := second.Own([]gpu.UUID{a, b}); len(got) != 1 || got[b] == "" {
		t.Errorf("Own() = %v, want b to be refused", got)
	}
	if err := first.Release(); err != nil {
		t.Error(err)
	}
	select {
	case <-second.Freed():
	case <-ctx.Done():
		t.Fatal("all GPUs were given back, and nobody was told")
	}
	if got := second.Own([]gpu.UUID{a, b}); len(got) != 0 {
		t.Errorf("Own() = %v, want both", got)
	}
	if err := second.Release(); err != nil {
		t.Error(err)
	}
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

func TestAloneAllGPUsAreToBeHad(t *testing.T) {
	o := owner.New(contract.Dir{Root: filepath.Join(t.TempDir(), "none")}, "device-plugin", slog.New(slog.DiscardHandler))
	if got := o.Own([]gpu.UUID{a}); len(got) != 0 {
		t.Errorf("Own() = %v without a run root", got)
	}
}
