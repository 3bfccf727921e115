package migconfig_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/mig-manager/internal/migconfig"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
)

func TestRead(t *testing.T) {
	const file = `
version: v1
mig-configs:
  some:
  - devices: all
    device-filter: ["0x20B010DE", 0x20b210de:0x144e10DE]
    mig-enabled: true
    mig-devices:
      "1c.3g.20gb": 2
      1g.5gb+me: 1
      2g.10gb: 0
  - devices: [3, 1]
    device-filter: "0x20B710DE"
    mig-enabled: false
    mig-devices: {}
  none:
  - {devices: all, mig-enabled: yes, mig-devices: {}}
`
	c, err := migconfig.Read("c.yaml", []byte(file))
	assert.NilError(t, err)
	want := migconfig.Config{Entries: map[string][]migconfig.Item{
		"some": {
			{
				All: true, Filters: []migconfig.Filter{{Device: 0x20b010de}, {Device: 0x20b210de, Subsystem: 0x144e10de}},
				Desired: mig.Desired{Enabled: true, Devices: map[gpu.Profile]int{
					{ComputeSlices: 1, GPUSlices: 3, GB: 20}: 2, {ComputeSlices: 1, GPUSlices: 1, GB: 5, Attribute: "+me"}: 1,
				}},
				At: "c.yaml:5: mig-configs.some[0]",
			},
			{GPUs: []int{3, 1}, Filters: []migconfig.Filter{{Device: 0x20b710de}}, At: "c.yaml:12: mig-configs.some[1]"},
		},
		"none": {{All: true, Desired: mig.Desired{Enabled: true}, At: "c.yaml:17: mig-configs.none[0]"}},
	}}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
}

func TestReadRejects(t *testing.T) {
	const head = "version: v1\nmig-configs:\n  x:\n  - "
	for name, tc := range map[string]struct{ data, want string }{
		"an empty file": {"", "c.yaml:1: version: is missing: must be v1\nc.yaml:1: mig-configs: is missing: must be at least one config by its name"},
		"another version": {
			"version: v2\nmig-configs: {}\n",
			"c.yaml:1: version: invalid value \"v2\": must be v1\nc.yaml:2: mig-configs: is missing: must be at least one config by its name",
		},
		"configs that are a list":   {"version: v1\nmig-configs: [x]\n", `c.yaml:2: mig-configs: invalid value (a list): must be a mapping`},
		"an entry without items":    {"version: v1\nmig-configs: {x: []}\n", "c.yaml:2: mig-configs.x: is missing: must be a list of at least one item with devices and mig-enabled"},
		"an entry that is one item": {"version: v1\nmig-configs: {x: {devices: all}}\n", "c.yaml:2: mig-configs.x: invalid value (a mapping): must be a list"},
		"all errors at once": {
			"version: v1\nmig-config: {}\nmig-configs:\n  x:\n  - device: all\n    mig-enabled: 1\n    mig-devices: {1g5gb: 1, 1g.5gb: -1, 2g.10gb: many}\n",
			"c.yaml:2: mig-config: unknown key: did you mean mig-configs?\n" +
				"c.yaml:5: mig-configs.x[0].device: unknown key: did you mean devices?\n" +
				"c.yaml:5: mig-configs.x[0].devices: is missing: must be all, or a list of GPU indices such as [0, 2]\n" +
				"c.yaml:6: mig-configs.x[0].mig-enabled: invalid value \"1\": must be true or false\n" +
				"c.yaml:7: mig-configs.x[0].mig-devices.1g5gb: \"1g5gb\" is not a MIG profile like 1g.5gb, 1c.3g.20gb or 1g.10gb+me\n" +
				"c.yaml:7: mig-configs.x[0].mig-devices.1g.5gb: invalid value \"-1\": must be an integer from 0 to 64\n" +
				"c.yaml:7: mig-configs.x[0].mig-devices.2g.10gb: invalid value \"many\": must be an integer from 0 to 64",
		},
		"no mode":                  {head + "devices: all\n", "c.yaml:4: mig-configs.x[0].mig-enabled: is missing: must be true or false"},
		"no devices of the mode":   {head + "{devices: all, mig-enabled: true}\n", "c.yaml:4: mig-configs.x[0].mig-devices: is missing: must be a mapping from MIG profiles to their number; {} for none, as mig-enabled is true"},
		"devices without the mode": {head + "{devices: all, mig-enabled: false, mig-devices: {1g.5gb: 1}}\n", "c.yaml:4: mig-configs.x[0].mig-devices: mig-enabled is false: remove mig-devices, or set mig-enabled to true"},
		"only zeros":               {head + "{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 0}}\n", "c.yaml:4: mig-configs.x[0].mig-devices: all numbers are 0: set at least one to 1 or more, or write {} for no MIG devices"},
		"some GPUs":                {head + "{devices: some, mig-enabled: false}\n", `c.yaml:4: mig-configs.x[0].devices: invalid value "some": must be all, or a list of GPU indices such as [0, 2]`},
		"one index":                {head + "{devices: 0, mig-enabled: false}\n", `c.yaml:4: mig-configs.x[0].devices: invalid value "0": must be all, or a list of GPU indices such as [0, 2]`},
		"no index":                 {head + "{devices: [], mig-enabled: false}\n", `c.yaml:4: mig-configs.x[0].devices: the list is empty: must be all, or a list of GPU indices such as [0, 2]`},
		"an index twice":           {head + "{devices: [1, 0, 1], mig-enabled: false}\n", `c.yaml:4: mig-configs.x[0].devices[2]: GPU 1 is in the list twice`},
		"a negative index":         {head + "{devices: [-1], mig-enabled: false}\n", `c.yaml:4: mig-configs.x[0].devices[0]: invalid value "-1": must be an integer from 0 to 255`},
		"more compute than GPU":    {head + "{devices: all, mig-enabled: true, mig-devices: {3c.2g.10gb: 1}}\n", `c.yaml:4: mig-configs.x[0].mig-devices.3c.2g.10gb: "3c.2g.10gb" is not a MIG profile: it has more compute slices than GPU slices`},
		"a filter without a vendor": {
			head + "{devices: all, device-filter: 0x20B0, mig-enabled: false}\n",
			`c.yaml:4: mig-configs.x[0].device-filter: invalid device filter "0x20B0": must be the PCI device and vendor, such as 0x233010DE, or with the subsystem, such as 0x233010DE:0x16C110DE`,
		},
		"a filter with the vendor first": {
			head + "{devices: all, device-filter: [0x10de20B0], mig-enabled: false}\n",
			`c.yaml:4: mig-configs.x[0].device-filter[0]: invalid device filter "0x10de20B0": it has the vendor first: must be 0x20B010DE`,
		},
		"a filter of another vendor": {
			head + "{devices: all, device-filter: 0x20B01002, mig-enabled: false}\n",
			`c.yaml:4: mig-configs.x[0].device-filter: invalid device filter "0x20B01002": it does not end with NVIDIA's vendor 10DE: must be the PCI device and vendor, such as 0x233010DE, or with the subsystem, such as 0x233010DE:0x16C110DE`,
		},
		"a name that changes the terminal": {
			"version: v1\nmig-configs:\n  \"a\\n\\e[31mb\": []\n  \"\": []\n",
			`c.yaml:3: mig-configs."a\n\x1b[31mb": is not a valid config name: must be printable characters` + "\n" +
				`c.yaml:4: mig-configs.: is not a valid config name: must be printable characters`,
		},
		"an empty filter in a list": {
			head + "{devices: all, device-filter: [''], mig-enabled: false}\n",
			`c.yaml:4: mig-configs.x[0].device-filter[0]: invalid device filter "": must be the PCI device and vendor, such as 0x233010DE, or with the subsystem, such as 0x233010DE:0x16C110DE`,
		},
		"a filter that is a mapping": {
			head + "{devices: all, device-filter: {a: b}, mig-enabled: false}\n", `c.yaml:4: mig-configs.x[0].device-filter: invalid value (a mapping): must be a text`,
		},
		"an item that is a word": {head + "all\n", `c.yaml:4: mig-configs.x[0]: invalid value "all": must be a mapping with the keys devices, device-filter, mig-enabled, mig-devices`},
		"a text":                 {"version v1\n", `c.yaml:1: invalid value "version v1": must be a mapping with the keys version, mig-configs`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := migconfig.Read("c.yaml", []byte(tc.data))
			if err == nil {
				t.Fatal("no error")
			}
			if diff := cmp.Diff(tc.want, err.Error()); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnEmptyFilterSelectsAllProducts(t *testing.T) {
	for name, filter := range map[string]string{"text": `""`, "list": "[]", "null": "null"} {
		t.Run(name, func(t *testing.T) {
			c, err := migconfig.Read("c.yaml", []byte("version: v1\nmig-configs: {x: [{devices: all, device-filter: "+filter+", mig-enabled: false}]}\n"))
			if err != nil || len(c.Entries["x"]) != 1 || len(c.Entries["x"][0].Filters) > 0 {
				t.Errorf("Read() = %+v, %v, want an item without filters", c, err)
			}
		})
	}
}

func TestMerge(t *testing.T) {
	off, on := []migconfig.Item{{All: true}}, []migconfig.Item{{All: true, Desired: mig.Desired{Enabled: true}}}
	generated := migconfig.Config{Entries: map[string][]migconfig.Item{"a": off, "b": off}}
	got := generated.Merge(migconfig.Config{Entries: map[string][]migconfig.Item{"b": on, "c": on}})
	if diff := cmp.Diff(map[string][]migconfig.Item{"a": off, "b": on, "c": on}, got.Entries); diff != "" {
		t.Errorf("merged (-want +got):\n%s", diff)
	}
	if len(generated.Entries) != 2 || generated.Entries["b"][0].Enabled {
		t.Error("Merge changed its receiver")
	}
}
