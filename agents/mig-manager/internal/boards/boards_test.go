package boards_test

import (
	"strings"
	"testing"

	"outrigger.dev/agents/mig-manager/internal/boards"
	"outrigger.dev/pkg/gpu"
)

// The names of the profiles and their largest number, as in the default config of the GPU
// operator and in NVIDIA's documentation, ordered by their number in NVML.
func TestProfilesAsDocumented(t *testing.T) {
	const (
		seven = "%1 x7, %3 x3, %4 x2, %5 x1, %6 x1, %1+me x1, %2 x4"
		four  = "%1 x4, %2 x2, %3 x1, "
	)
	want := map[string]string{
		"a100-40":      expand(seven, "1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"),
		"a100-80":      expand(seven, "1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"),
		"h100-80":      expand(seven, "1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"),
		"h100-94":      expand(seven, "1g.12gb", "1g.24gb", "2g.24gb", "3g.47gb", "4g.47gb", "7g.94gb"),
		"pg506-96":     expand(seven, "1g.12gb", "1g.24gb", "2g.24gb", "3g.48gb", "4g.48gb", "7g.96gb"),
		"h100-96":      expand(seven, "1g.12gb", "1g.24gb", "2g.24gb", "3g.48gb", "4g.48gb", "7g.96gb"),
		"gh200-96":     expand(seven, "1g.12gb", "1g.24gb", "2g.24gb", "3g.48gb", "4g.48gb", "7g.96gb"),
		"h20":          expand(seven, "1g.12gb", "1g.24gb", "2g.24gb", "3g.48gb", "4g.48gb", "7g.96gb"),
		"h200":         expand(seven, "1g.18gb", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb"),
		"gh200-144":    expand(seven, "1g.18gb", "1g.36gb", "2g.36gb", "3g.72gb", "4g.72gb", "7g.144gb"),
		"b200":         expand(seven, "1g.23gb", "1g.45gb", "2g.45gb", "3g.90gb", "4g.90gb", "7g.180gb"),
		"gb200":        expand(seven, "1g.23gb", "1g.47gb", "2g.47gb", "3g.93gb", "4g.93gb", "7g.186gb"),
		"gb200-189":    expand(seven, "1g.24gb", "1g.47gb", "2g.47gb", "3g.95gb", "4g.95gb", "7g.189gb"),
		"b300":         expand(seven, "1g.34gb", "1g.67gb", "2g.67gb", "3g.135gb", "4g.135gb", "7g.269gb"),
		"gb300":        expand(seven, "1g.35gb", "1g.70gb", "2g.70gb", "3g.139gb", "4g.139gb", "7g.278gb"),
		"a30":          expand(four, "1g.6gb", "2g.12gb", "4g.24gb") + "1g.6gb+me x1, 2g.12gb+me x1",
		"rtx-pro-6000": expand(four, "1g.24gb", "2g.48gb", "4g.96gb") + "1g.24gb+me x1, 1g.24gb+gfx x4, 2g.48gb+gfx x2, 4g.96gb+gfx x1, 1g.24gb-me x4, 2g.48gb-me x2, 1g.24gb+me.all x1, 2g.48gb+me.all x1",
	}
	for _, p := range boards.All() {
		var got []string
		for _, profile := range p.Board.Profiles {
			got = append(got, profile.Name.String()+" x"+string(rune('0'+profile.Max)))
		}
		if text := strings.Join(got, ", "); text != want[p.Name] {
			t.Errorf("%s has %s, want %s", p.Name, text, want[p.Name])
		}
		if p.Verified || p.Source == "" || len(p.DeviceIDs) == 0 {
			t.Errorf("%s: verified %t, source %q, devices %x", p.Name, p.Verified, p.Source, p.DeviceIDs)
		}
		delete(want, p.Name)
	}
	for name := range want {
		t.Errorf("there is no product %s", name)
	}
}

func expand(pattern string, names ...string) string {
	for n, name := range names {
		pattern = strings.ReplaceAll(pattern, "%"+string(rune('1'+n)), name)
	}
	return pattern
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
