package migconfig_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/mig-manager/internal/migconfig"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
)

// parts are the parts of a selection by the GPUs' indices.
type parts struct {
	Want                         map[gpu.UUID]string
	Unmatched, Incapable, Faulty []int
}

func partsOf(s migconfig.Selection) parts {
	indices := func(gpus []mig.GPU) (out []int) {
		for _, g := range gpus {
			out = append(out, g.Index)
		}
		return out
	}
	p := parts{Want: map[gpu.UUID]string{}, Unmatched: indices(s.Unmatched), Incapable: indices(s.Incapable), Faulty: indices(s.Faulty)}
	for id, want := range s.Want {
		p.Want[id] = "off"
		if want.Enabled {
			p.Want[id] = "on"
		}
		for profile := range want.Devices {
			p.Want[id] = profile.String()
		}
	}
	return p
}

func TestSelect(t *testing.T) {
	for name, tc := range map[string]struct {
		items string
		want  parts
	}{
		"all GPUs": {
			"  - {devices: all, mig-enabled: true, mig-devices: {}}\n",
			parts{Want: map[gpu.UUID]string{"GPU-0": "on", "GPU-1": "on", "GPU-2": "on"}, Incapable: []int{3}, Faulty: []int{4}},
		},
		"a product; a GPU that cannot be read may be of it": {
			"  - {devices: all, device-filter: [0x20B710DE, 0x20B210DE], mig-enabled: true, mig-devices: {1g.6gb: 4}}\n",
			parts{Want: map[gpu.UUID]string{"GPU-2": "1g.6gb"}, Unmatched: []int{0, 1, 3}, Faulty: []int{4}},
		},
		"a subsystem": {
			"  - {devices: all, device-filter: '0x20B010DE:0x144F10DE', mig-enabled: false}\n",
			parts{Want: map[gpu.UUID]string{"GPU-1": "off"}, Unmatched: []int{0, 2, 3}, Faulty: []int{4}},
		},
		"indices": {
			"  - {devices: [0, 2], mig-enabled: false}\n  - {devices: [3], mig-enabled: false}\n",
			parts{Want: map[gpu.UUID]string{"GPU-0": "off", "GPU-2": "off"}, Unmatched: []int{1, 4}, Incapable: []int{3}},
		},
		"indices of a product": {
			"  - {devices: [0, 2], device-filter: 0x20B010DE, mig-enabled: false}\n",
			parts{Want: map[gpu.UUID]string{"GPU-0": "off"}, Unmatched: []int{1, 2, 3, 4}},
		},
		"indices of a product that the node does not have": {
			"  - {devices: [0, 1], device-filter: 0x20B010DE, mig-enabled: false}\n  - {devices: [7], device-filter: 0x233010DE, mig-enabled: false}\n",
			parts{Want: map[gpu.UUID]string{"GPU-0": "off", "GPU-1": "off"}, Unmatched: []int{2, 3, 4}},
		},
		"two items that ask for the same": {
			"  - {devices: all, mig-enabled: false}\n  - {devices: [0], mig-enabled: false}\n",
			parts{Want: map[gpu.UUID]string{"GPU-0": "off", "GPU-1": "off", "GPU-2": "off"}, Incapable: []int{3}, Faulty: []int{4}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			gpus := node(t)
			if name == "indices of a product that the node does not have" {
				gpus = gpus[:4]
				tc.want.Unmatched = []int{2, 3}
			}
			s, err := read(t, tc.items).Select("x", gpus)
			assert.NilError(t, err)
			if diff := cmp.Diff(tc.want, partsOf(s)); diff != "" {
				t.Errorf("selection (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSelectRejects(t *testing.T) {
	for name, tc := range map[string]struct {
		items string
		want  string
		is    error
	}{
		"an index that the node does not have": {
			items: "  - {devices: [0, 5, 8], mig-enabled: false}\n",
			want: `config "x": c.yaml:4: mig-configs.x[0]: the node has no GPU 5, 8: it has GPUs 0 to 1 (0x20B010DE, NVIDIA A100), ` +
				`GPU 2 (0x20B710DE, NVIDIA A30), GPU 3 (0x27B810DE, NVIDIA L4), GPU 4 (cannot be read)`,
		},
		"items that overlap": {
			items: "  - {devices: all, mig-enabled: false}\n  - {devices: [1], mig-enabled: true, mig-devices: {}}\n",
			want: `config "x": GPU 1 is selected twice, and with different MIG devices: by c.yaml:4: mig-configs.x[0] and by ` +
				`c.yaml:5: mig-configs.x[1]: restrict one of them with devices or device-filter`,
		},
		"MIG of a GPU without it": {
			items: "  - {devices: [3], mig-enabled: true, mig-devices: {}}\n",
			want:  `config "x": GPU 3 (NVIDIA L4) has no MIG mode, and c.yaml:4: mig-configs.x[0] enables it: remove the GPU from devices`,
		},
		"other products": {
			items: "  - {devices: all, device-filter: 0x233010DE, mig-enabled: false}\n",
			want: `config "x" selects no GPU of the node, which has GPUs 0 to 1 (0x20B010DE, NVIDIA A100), GPU 2 (0x20B710DE, NVIDIA A30), ` +
				`GPU 3 (0x27B810DE, NVIDIA L4): add an item for it`,
			is: migconfig.ErrNoMatch,
		},
	} {
		t.Run(name, func(t *testing.T) {
			gpus := node(t)
			if tc.is != nil {
				gpus = gpus[:4]
			}
			_, err := read(t, tc.items).Select("x", gpus)
			assert.Error(t, err, tc.want)
			if tc.is != nil && !errors.Is(err, tc.is) {
				t.Errorf("error is not %v", tc.is)
			}
		})
	}
	_, err := read(t, "  - {devices: all, mig-enabled: false}\n").Select("y", nil)
	if want := `selected mig-config not present: "y": must be x`; !errors.Is(err, migconfig.ErrNoEntry) || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// A GPU is not divided by an index that named another GPU before the last boot.
func TestSelectAfterAReboot(t *testing.T) {
	data, err := os.ReadFile("testdata/index/mig-devices-0.yaml")
	assert.NilError(t, err)
	c, err := migconfig.Read("config.yaml", data)
	assert.NilError(t, err)
	at := func(index int, id gpu.UUID, earlier *gpu.Earlier) mig.GPU {
		return mig.GPU{Index: index, UUID: id, Capable: true, Earlier: earlier}
	}
	for name, tc := range map[string]struct {
		gpus []mig.GPU
		err  string
	}{
		"the same GPU":                        {[]mig.GPU{at(0, "GPU-a", nil), at(1, "GPU-b", nil)}, ""},
		"other indices have changed":          {[]mig.GPU{at(0, "GPU-a", nil), at(1, "GPU-b", &gpu.Earlier{UUID: "GPU-c"})}, ""},
		"another GPU has the index":           {[]mig.GPU{at(0, "GPU-a", &gpu.Earlier{UUID: "GPU-b", File: "/file"})}, "GPU 0 is GPU-a now; before, its index named GPU-b"},
		"the GPU has another index":           {[]mig.GPU{at(0, "GPU-a", nil), at(1, "GPU-b", &gpu.Earlier{Indices: []int{0}, UUID: "GPU-b"})}, "it selects index 0"},
		"the GPU has gone while the node ran": {[]mig.GPU{at(1, "GPU-b", nil)}, "the node has no GPU 0"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := c.Select("first", tc.gpus)
			if tc.err == "" && (err != nil || len(s.Want) != 1) || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("Select() = %v, %v, want an error with %q", s.Want, err, tc.err)
			}
		})
	}
}
