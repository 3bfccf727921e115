package contract_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/pkg/pace"
)

const claimedGPU = "GPU-00000000-0000-4000-8000-000000000000"

// claim claims GPUs, and fails the test if one is denied.
func claim(t *testing.T, c *contract.Claims, devices ...string) {
	t.Helper()
	for device, err := range c.Claim(devices) {
		t.Fatalf("claim %s: %v", device, err)
	}
}

// outdated has a signal when another call of Claim may have another result.
func outdated(t *testing.T, c *contract.Claims) <-chan struct{} {
	t.Helper()
	changed := make(chan struct{}, 1)
	go c.Watch(t.Context(), func() { pace.Signal(changed) })
	return changed
}

func TestOneProcessClaimsAGPU(t *testing.T) {
	d := newDir(t)
	for name, end := range map[string]func(*agent){"releases it": (*agent).quit, "crashes": (*agent).kill} {
		t.Run("the other one "+name, func(t *testing.T) {
			other := start(t, "offer", d)
			mine := d.NewClaims("device-plugin")
			denied := mine.Claim([]string{"GPU-1", claimedGPU})
			var by contract.AdvertisedError
			if !errors.As(denied[claimedGPU], &by) || by.By != "dra-plugin" || by.Device != claimedGPU || len(denied) != 1 {
				t.Fatalf("Claim() = %v, want that dra-plugin has one", denied)
			}
			changed := outdated(t, mine)
			end(other)
			inTime(t, "Watch", func() { <-changed })
			claim(t, mine, "GPU-1", claimedGPU)
			mine.Release()
		})
	}
}

func TestAnyReleasedGPUCausesASignal(t *testing.T) {
	d := newDir(t)
	first, second := d.NewClaims("device-plugin"), d.NewClaims("dra-plugin")
	changed := outdated(t, second)
	claim(t, first, "GPU-1", "GPU-2")
	for _, left := range [][]string{{"GPU-1"}, nil} {
		second.Claim([]string{"GPU-1", "GPU-2"})
		claim(t, first, left...)
		inTime(t, "Watch", func() { <-changed })
		if denied := second.Claim([]string{"GPU-1", "GPU-2"}); len(denied) != len(left) {
			t.Errorf("Claim() = %v, want %v denied", denied, left)
		}
	}
}

func TestClaimsWithoutRunRoot(t *testing.T) {
	c := contract.Dir{Root: filepath.Join(t.TempDir(), "none")}.NewClaims("device-plugin")
	if err := c.Claim([]string{claimedGPU})[claimedGPU]; !errors.Is(err, contract.ErrNoRunRoot) {
		t.Errorf("Claim() without a run root = %v, want ErrNoRunRoot", err)
	}
}

func TestClaimsRemoveLeftovers(t *testing.T) {
	d := newDir(t)
	claims := d.NewClaims("device-plugin")
	claim(t, claims, "GPU-1", "GPU-2")
	claims.Release()
	leases := filepath.Join(d.Root, "leases")
	for _, name := range []string{".offer.GPU-1.tmp-1", ".offer.GPU-2.tmp-2"} {
		must(t, os.WriteFile(filepath.Join(leases, name), nil, 0o600))
		old := time.Now().Add(-time.Hour)
		must(t, os.Chtimes(filepath.Join(leases, name), old, old))
	}
	claim(t, claims, "GPU-1", "GPU-2")
	defer claims.Release()
	left, err := filepath.Glob(filepath.Join(leases, "*.tmp-*"))
	must(t, err)
	hidden, err := filepath.Glob(filepath.Join(leases, ".*.tmp-*"))
	must(t, err)
	if left = append(left, hidden...); len(left) > 0 {
		t.Errorf("killed processes have left %q, want nothing", left)
	}
}

// TestALostClaimIsClaimedAgain: another program removes, truncates or replaces the file of
// a claim, and nobody else may advertise the GPU meanwhile.
func TestALostClaimIsClaimedAgain(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, path string){
		"removed":        func(t *testing.T, path string) { must(t, os.Remove(path)) },
		"truncated":      func(t *testing.T, path string) { must(t, os.Truncate(path, 0)) },
		"replaced":       func(t *testing.T, path string) { must(t, hostfs.WriteFile(path, []byte("A=1\n"), 0o644)) },
		"without leases": func(t *testing.T, path string) { must(t, os.RemoveAll(filepath.Dir(path))) },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDir(t)
			mine, other := d.NewClaims("device-plugin"), d.NewClaims("dra-plugin")
			claim(t, mine, claimedGPU, "GPU-1")
			changed := outdated(t, mine)
			damage(t, filepath.Join(d.Root, "leases", "offer."+claimedGPU))
			inTime(t, "Watch", func() { <-changed })
			claim(t, mine, claimedGPU, "GPU-1")
			if denied := other.Claim([]string{claimedGPU, "GPU-1"}); len(denied) != 2 {
				t.Errorf("Claim() of another process = %v, want both denied", denied)
			}
			mine.Release()
			claim(t, other, claimedGPU, "GPU-1")
			other.Release()
		})
	}
}

// TestADamagedClaim belongs to nobody, unless its process lives.
func TestADamagedClaim(t *testing.T) {
	for name, content := range map[string]string{"truncated": "", "overwritten": "A=1\n", "no text": "\x00\x01"} {
		t.Run(name, func(t *testing.T) {
			d := newDir(t)
			path := filepath.Join(d.Root, "leases", "offer."+claimedGPU)
			other := start(t, "offer", d)
			must(t, os.WriteFile(path, []byte(content), 0o644))
			mine := d.NewClaims("device-plugin")
			var by contract.AdvertisedError
			if denied := mine.Claim([]string{claimedGPU}); !errors.As(denied[claimedGPU], &by) || by.By != "another process" {
				t.Fatalf("Claim() = %v, want that another process has it", denied)
			}
			changed := outdated(t, mine)
			other.kill()
			inTime(t, "Watch", func() { <-changed })
			claim(t, mine, claimedGPU)
			mine.Release()
		})
	}
}

// TestALostClaimThatAnotherProcessHas is given up: the other process advertises the GPU.
func TestALostClaimThatAnotherProcessHas(t *testing.T) {
	d := newDir(t)
	mine := d.NewClaims("device-plugin")
	claim(t, mine, claimedGPU)
	must(t, os.Remove(filepath.Join(d.Root, "leases", "offer."+claimedGPU)))
	other := start(t, "offer", d)
	if err := mine.Claim([]string{claimedGPU})[claimedGPU]; err == nil || !strings.Contains(err.Error(), "advertised by dra-plugin") {
		t.Errorf("Claim() = %v, want that dra-plugin has the GPU", err)
	}
	other.quit()
	claim(t, mine, claimedGPU)
	mine.Release()
}
