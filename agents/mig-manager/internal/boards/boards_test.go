package boards_test

import (
	"testing"

	"outrigger.dev/agents/mig-manager/internal/boards"
	"outrigger.dev/pkg/gpu"
)

// A test in internal/app writes the profiles of each board into docs/mig-manager-reference.md, and a
// test in internal/migconfig compares them with the default config of the GPU operator.
func TestProductsNameTheirSource(t *testing.T) {
	for _, p := range boards.All() {
		if p.Verified || p.Source == "" || len(p.DeviceIDs) == 0 || len(p.Board.Profiles) == 0 {
			t.Errorf("%s: verified %t, source %q, devices %x, %d profiles", p.Name, p.Verified, p.Source, p.DeviceIDs, len(p.Board.Profiles))
		}
	}
}

func TestFind(t *testing.T) {
	const gib = 1 << 30
	for name, c := range map[string]struct {
		device uint32
		memory uint64
		want   string
	}{
		"an A100":                             {0x20b010de, 40 * gib, "a100-40"},
		"an A100 whose memory is not known":   {0x20b210de, 0, "a100-80"},
		"a GB200 with less memory":            {0x294110de, 185 * gib, "gb200"},
		"a GB200 with more memory":            {0x294110de, 189 * gib, "gb200-189"},
		"a GB200 whose memory is not known":   {0x294110de, 0, "gb200"},
		"an H100 whose memory makes no sense": {0x233010de, 40 * gib, ""},
		"a GPU that cannot be divided":        {0x27b810de, 24 * gib, ""},
		"another vendor's device":             {0x20b01002, 40 * gib, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p, ok := boards.Find(gpu.PCI{DeviceID: c.device}, c.memory)
			if p.Name != c.want || ok != (c.want != "") {
				t.Errorf("Find() = %q, %t, want %q", p.Name, ok, c.want)
			}
		})
	}
	if p, ok := boards.Named("h200"); !ok || p.Name != "h200" {
		t.Errorf("Named(h200) = %q, %t", p.Name, ok)
	}
	if _, ok := boards.Named("h201"); ok {
		t.Error("found a product that does not exist")
	}
}

// What a caller changes is not what the next one gets.
func TestProductsAreCopies(t *testing.T) {
	p, _ := boards.Named("a30")
	p.Board.Profiles[0].Placements[0].Start = 9
	p.Board.Profiles[0].Compute[0].Max = 9
	p.DeviceIDs[0] = 9
	if again, _ := boards.Named("a30"); again.Board.Profiles[0].Placements[0].Start != 0 ||
		again.Board.Profiles[0].Compute[0].Max != 1 || again.DeviceIDs[0] != 0x20b710de {
		t.Errorf("Named() = %+v after a change of what it returned before", again)
	}
}
