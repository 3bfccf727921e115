package migconfig_test

import (
	"errors"
	"testing"

	"gotest.tools/v3/golden"

	"outrigger.dev/agents/mig-manager/internal/migconfig"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
)

func TestGenerate(t *testing.T) {
	gpus := node(t)
	for name, some := range map[string][]mig.GPU{
		"one product":      gpus[:2],
		"mixed":            gpus,
		"without profiles": {{Capable: true}, {Fault: &gpu.Fault{}}},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := migconfig.Generate(some)
			if none := name == "without profiles"; none != errors.Is(err, migconfig.ErrNoProfiles) || err != nil && !none {
				t.Errorf("error %v", err)
			}
			text := must[[]byte](t)(c.YAML())
			golden.Assert(t, string(text), "generate "+name+".golden")
			readsBack(t, c, text)
			readsBack(t, c, must[[]byte](t)(c.JSON()))
			for _, entry := range c.Names() {
				if _, err := c.Select(entry, some); err != nil {
					t.Errorf("%s cannot be applied to the node: %v", entry, err)
				}
			}
		})
	}
}

// Of two boards with the same PCI device, NVML names the profiles differently.
func TestGenerateForVariantsOfABoard(t *testing.T) {
	small, large := board(t, 7, 8, "1g.23gb", "7g.186gb"), board(t, 7, 8, "1g.24gb", "7g.189gb")
	pci := func(subsystem uint32) gpu.PCI { return gpu.PCI{DeviceID: 0x294110de, SubsystemID: subsystem} }
	for name, gpus := range map[string][]mig.GPU{
		"by the subsystem": {{PCI: pci(1), Capable: true, Board: small}, {Index: 1, PCI: pci(2), Capable: true, Board: large}},
		"by the index":     {{PCI: pci(1), Capable: true, Board: small}, {Index: 1, PCI: pci(1), Capable: true, Board: large}},
	} {
		t.Run(name, func(t *testing.T) {
			c := must[migconfig.Config](t)(migconfig.Generate(gpus))
			golden.Assert(t, string(must[[]byte](t)(c.YAML())), "generate "+name+".golden")
		})
	}
}

func TestExport(t *testing.T) {
	layout := func(profiles ...string) mig.State {
		s := mig.State{Enabled: true}
		for _, text := range profiles {
			p := must[gpu.Profile](t)(gpu.ParseProfile(text))
			whole := p
			whole.ComputeSlices = p.GPUSlices
			s.Layout = append(s.Layout, mig.Instance{Profile: whole, Compute: []mig.Compute{{Slices: p.ComputeSlices}}})
		}
		return s
	}
	for name, states := range map[string][]mig.State{
		"all off":            {{}, {}, {}},
		"by products":        {layout("1g.5gb", "1c.3g.20gb"), layout("1c.3g.20gb", "1g.5gb"), layout("1g.6gb")},
		"by indices":         {layout("1g.5gb"), layout(), layout("1g.6gb", "1g.6gb")},
		"one of each is off": {{}, layout("1g.5gb"), {}},
	} {
		t.Run(name, func(t *testing.T) {
			gpus := node(t)[:3]
			for i := range gpus {
				gpus[i].State = states[i]
			}
			c := migconfig.Export("current", gpus)
			text := must[[]byte](t)(c.YAML())
			golden.Assert(t, string(text), "export "+name+".golden")
			readsBack(t, c, text)
			s := must[migconfig.Selection](t)(c.Select("current", gpus))
			if len(s.Want) != len(gpus) {
				t.Errorf("the exported config selects %d of %d GPUs", len(s.Want), len(gpus))
			}
		})
	}
	lost := migconfig.Export("current", node(t)).Entries["current"]
	if len(lost) != 1 || lost[0].All || len(lost[0].GPUs) != 4 {
		t.Errorf("a GPU that cannot be read is in the export: %+v", lost)
	}
}

// readsBack reads what was written, and compares it.
func readsBack(t *testing.T, c migconfig.Config, text []byte) {
	t.Helper()
	got := must[migconfig.Config](t)(migconfig.Read("c.yaml", text))
	if a, b := string(must[[]byte](t)(c.JSON())), string(must[[]byte](t)(got.JSON())); a != b {
		t.Errorf("wrote\n%s\nand read\n%s", a, b)
	}
}
