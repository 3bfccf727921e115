package contract_test

import (
	"errors"
	"path/filepath"
	"testing"

	"outrigger.dev/pkg/contract"
)

const offered = "GPU-00000000-0000-4000-8000-000000000000"

func TestOneProcessOffersAGPU(t *testing.T) {
	d := newDir(t)
	for name, end := range map[string]func(*agent){"gives it back": (*agent).quit, "crashes": (*agent).kill} {
		t.Run("the other one "+name, func(t *testing.T) {
			other := start(t, "offer", d)
			_, err := d.Offer(offered, "device-plugin")
			var by contract.OfferedError
			if !errors.As(err, &by) || by.By != "dra-plugin" || by.Device != offered {
				t.Fatalf("Offer() = %v, want that dra-plugin has it", err)
			}
			second, err := d.Offer("GPU-1", "device-plugin")
			must(t, err)
			must(t, second.Release())
			free := make(chan error, 1)
			go func() { free <- d.WaitOffer(t.Context(), offered) }()
			end(other)
			must(t, <-free)
			mine, err := d.Offer(offered, "device-plugin")
			must(t, err)
			must(t, mine.Release())
		})
	}
}

func TestOfferAlone(t *testing.T) {
	d := contract.Dir{Root: filepath.Join(t.TempDir(), "none")}
	if _, err := d.Offer(offered, "device-plugin"); !errors.Is(err, contract.ErrNoRunRoot) {
		t.Errorf("Offer() without a run root = %v, want ErrNoRunRoot", err)
	}
}
