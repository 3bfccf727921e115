package index_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/pkg/gpu"
)

// slices returns the names of the devices in ResourceSlices: "0=a 0.7=x", with the alias of a MIG device
// after a "/". The minor of a GPU is its place on the bus.
func (h *host) slices(instances ...uint32) string {
	n := h.node()
	for i := range n.GPUs {
		g := &n.GPUs[i]
		_, _ = fmt.Sscanf(g.PCI.BusID, "0000:%x", &g.Minor)
		g.Minor -= 0x10
		for j := 0; g.MIG != nil && j < len(g.MIG.Devices); j++ {
			g.MIG.Devices[j].GPUInstance = instances[j]
		}
	}
	h.agent().Apply(n)
	var out []string
	for _, g := range n.GPUs {
		number := g.Minor
		if g.Alias != nil {
			number = *g.Alias
		}
		out = append(out, fmt.Sprintf("%d=%s", number, strings.TrimPrefix(string(g.UUID), "GPU-")))
		for j := 0; g.MIG != nil && j < len(g.MIG.Devices); j++ {
			d, alias := g.MIG.Devices[j], ""
			if d.Alias != nil {
				alias = fmt.Sprintf("/%d", *d.Alias)
			}
			out = append(out, fmt.Sprintf("%d.%d%s=%s", number, d.GPUInstance, alias, strings.TrimPrefix(string(d.UUID), "MIG-")))
		}
	}
	return strings.Join(out, " ")
}

// A name in ResourceSlices is the name of one GPU, over a change of minors and over a reboot.
func TestNamesInResourceSlices(t *testing.T) {
	for name, c := range map[string]struct{ first, then, want string }{
		"nothing changes":                      {"abc", "abc", "0=a 1=b 2=c"},
		"a GPU leaves":                         {"abc", "-bc", "1=b 2=c"},
		"a GPU replaces another":               {"abc", "xbc", "3=x 1=b 2=c"},
		"two GPUs swap their minors":           {"abc", "bac", "1=b 0=a 2=c"},
		"a GPU has the minor of one that left": {"abc", "bc-", "1=b 2=c"},
		"a GPU is added":                       {"ab-", "abc", "0=a 1=b 2=c"},
		"a GPU is lost":                        {"abc", "aBc", "0=a 1= 2=c"},
		"all are replaced":                     {"ab", "xyz", "3=x 4=y 2=z"},
	} {
		for _, reboot := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, reboot %v", name, reboot), func(t *testing.T) {
				h := newHost(t, c.first)
				h.slices()
				if h.list(c.then); reboot {
					h.boot("two", c.then)
				}
				sorted := func(names string) map[string]bool {
					out := map[string]bool{}
					for name := range strings.FieldsSeq(names) {
						out[name] = true
					}
					return out
				}
				if got, want := sorted(h.slices()), sorted(c.want); !maps.Equal(got, want) {
					t.Errorf("names: %s", cmp.Diff(want, got))
				}
			})
		}
	}
}

// A new MIG device has its usual name when no container has the device that had the name before.
func TestNamesOfMIGDevicesInResourceSlices(t *testing.T) {
	h := newHost(t, "a")
	step := func(what, devices, want string, instances ...uint32) {
		t.Helper()
		h.list("a")
		h.divide("a", devices)
		if got := h.slices(instances...); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	step("at first", "xy", "0=a 0.7=x 0.8=y", 7, 8)
	step("x is destroyed", "y", "0=a 0.8=y", 8)
	step("its instance is created again", "yz", "0=a 0.8=y 0.7/2=z", 8, 7)
	h.agent().Release(h.node(), func(gpu.UUID) bool { return false })
	step("z keeps its name", "yz", "0=a 0.8=y 0.7/2=z", 8, 7)
	h.boot("two", "a")
	step("after a reboot", "yzv", "0=a 0.8=y 0.7/2=z 0.9=v", 8, 7, 9)
	step("a device comes after z", "yvw", "0=a 0.8=y 0.9=v 0.7=w", 8, 9, 7)
}
