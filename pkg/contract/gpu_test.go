package contract_test

import (
	"errors"
	"path/filepath"
	"testing"

	"outrigger.dev/pkg/contract"
)

const claimedGPU = "GPU-00000000-0000-4000-8000-000000000000"

func TestOneProcessClaimsAGPU(t *testing.T) {
	d := newDir(t)
	for name, end := range map[string]func(*agent){"releases it": (*agent).quit, "crashes": (*agent).kill} {
		t.Run("the other one "+name, func(t *testing.T) {
			other := start(t, "offer", d)
			_, err := d.ClaimGPU(claimedGPU, "device-plugin")
			var by contract.AdvertisedError
			if !errors.As(err, &by) || by.By != "dra-plugin" || by.Device != claimedGPU {
				t.Fatalf("ClaimGPU() = %v, want that dra-plugin has it", err)
			}
			second, err := d.ClaimGPU("GPU-1", "device-plugin")
			must(t, err)
			must(t, second.Release())
			free := make(chan error, 1)
			go func() { free <- d.WaitGPU(t.Context(), claimedGPU) }()
			end(other)
			must(t, <-free)
			mine, err := d.ClaimGPU(claimedGPU, "device-plugin")
			must(t, err)
			must(t, mine.Release())
		})
	}
}

func TestClaimGPUWithoutRunRoot(t *testing.T) {
	d := contract.Dir{Root: filepath.Join(t.TempDir(), "none")}
	if _, err := d.ClaimGPU(claimedGPU, "device-plugin"); !errors.Is(err, contract.ErrNoRunRoot) {
		t.Errorf("ClaimGPU() without a run root = %v, want ErrNoRunRoot", err)
	}
}
