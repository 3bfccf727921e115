package migconfig_test

import (
	"errors"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/mig-manager/internal/boards"
	"outrigger.dev/agents/mig-manager/internal/migconfig"
	"outrigger.dev/agents/mig-manager/internal/plan"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
)

// of returns a GPU of a product.
func of(p boards.Product, device uint32) mig.GPU {
	return mig.GPU{
		UUID: "GPU-0", Name: p.Name, PCI: gpu.PCI{DeviceID: device}, MemoryBytes: p.MemoryBytes,
		Capable: true, NeedsReset: p.NeedsReset, Board: p.Board,
	}
}

// variant is a product that has the device id of another one, and other profiles.
const variant = "gb200-189"

// TestTheDefaultConfigOfTheOperator applies each entry to each board that it selects. The
// layout has exactly the devices that the config asks for.
func TestTheDefaultConfigOfTheOperator(t *testing.T) {
	c := defaultConfig(t)
	applied := map[string]int{}
	for _, name := range c.Names() {
		for _, p := range boards.All() {
			if p.Name == variant {
				continue
			}
			for _, device := range p.DeviceIDs {
				g := of(p, device)
				s, err := c.Select(name, []mig.GPU{g})
				if errors.Is(err, migconfig.ErrNoMatch) {
					continue
				}
				assert.NilError(t, err)
				want := s.Want[g.UUID]
				layout, err := plan.Target(g.Board, nil, want.Devices, nil)
				if err != nil {
					t.Errorf("%s on %s: %v", name, p.Name, err)
					continue
				}
				if got := layout.Devices(); !maps.Equal(got, want.Devices) {
					t.Errorf("%s on %s gives %v, want %v", name, p.Name, got, want.Devices)
				}
				applied[name]++
			}
		}
	}
	for _, name := range c.Names() {
		if applied[name] == 0 {
			t.Errorf("no board can have %s", name)
		}
	}
}

// TestGenerateIsTheDefaultConfig generates the configs of each board, which are those of the
// default config for it.
func TestGenerateIsTheDefaultConfig(t *testing.T) {
	c := defaultConfig(t)
	for _, p := range boards.All() {
		if p.Name == variant {
			continue
		}
		for _, device := range p.DeviceIDs {
			g := of(p, device)
			want, got := map[string]mig.Desired{}, map[string]mig.Desired{}
			for _, name := range c.Names() {
				if s, err := c.Select(name, []mig.GPU{g}); err == nil {
					want[name] = s.Want[g.UUID]
				}
			}
			if _, listed := want["all-balanced"]; !listed {
				t.Logf("the default config has no all-balanced for %s, device %x: its other configs are not for it either", p.Name, device)
				continue
			}
			generated := must[migconfig.Config](t)(migconfig.Generate([]mig.GPU{g}))
			for name, items := range generated.Entries {
				if len(items) != 1 || !items[0].All || len(items[0].Filters) > 0 {
					t.Errorf("%s of %s is not one item for all GPUs: %+v", name, p.Name, items)
				}
				got[name] = items[0].Desired
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("configs of %s, device %x (-default +generated):\n%s", p.Name, device, diff)
			}
		}
	}
}

func defaultConfig(t *testing.T) migconfig.Config {
	t.Helper()
	const path = "testdata/default-config.yaml"
	data, err := os.ReadFile(path)
	assert.NilError(t, err)
	c := must[migconfig.Config](t)(migconfig.Read(path, data))
	if n := len(c.Entries); n != 78 {
		t.Errorf("the default config has %d entries", n)
	}
	if !slices.Contains(c.Names(), "all-1g.24gb-me") {
		t.Error("the default config lacks the profiles without media engines")
	}
	return c
}
