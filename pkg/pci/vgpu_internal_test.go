package pci

import (
	"slices"
	"strings"
	"testing"
)

// space is a configuration space with capabilities, each at its place.
func space(status uint16, first byte, capabilities map[int][]byte) []byte {
	c := make([]byte, configSize)
	c[0], c[1] = 0xde, 0x10
	c[statusAt], c[statusAt+1] = byte(status), byte(status>>8)
	c[listAt] = first
	for at, content := range capabilities {
		copy(c[at:], content)
	}
	return c
}

// record is one of the vGPU capability.
func record(id byte, data string) []byte {
	return append([]byte{id, byte(recordHeader + len(data))}, data...)
}

// signed is the capability of a vGPU.
func signed(next byte, records ...[]byte) []byte {
	c := append([]byte{vendorSpecific, next, 0}, vgpuSignature...)
	c = append(c, slices.Concat(records...)...)
	c[2] = byte(len(c))
	return c
}

// driverData is that of the record of the host's driver.
func driverData(version, branch string) string {
	pad := func(s string) string { return s + strings.Repeat("\x00", driverTextSize-len(s)) }
	return pad(version) + pad(branch)
}

func TestVGPU(t *testing.T) {
	const list = statusHasList
	driver := record(driverRecord, driverData("550.54.10", "r550_00"))
	known := VGPU{Known: true}
	present := VGPU{Known: true, Present: true}
	full := VGPU{Known: true, Present: true, HostDriverVersion: "550.54.10", HostDriverBranch: "r550_00"}
	express := func(next byte) []byte { return []byte{0x10, next, 0x02, 0x00} }
	oneShort := signed(0, driver)
	oneShort[2]--
	for name, c := range map[string]struct {
		config []byte
		want   VGPU
	}{
		"nothing could be read":             {nil, VGPU{}},
		"less than a header":                {space(list, 0, nil)[:63], VGPU{}},
		"a header without capabilities":     {space(0, 0xd0, nil)[:headerSize], known},
		"a header with capabilities":        {space(list, 0x60, nil)[:headerSize], VGPU{}},
		"a header with an empty list":       {space(list, 0, nil)[:headerSize], known},
		"a device that answers ones":        {slices.Repeat([]byte{0xff}, configSize), VGPU{}},
		"a physical GPU":                    {space(list, 0x60, map[int][]byte{0x60: express(0)}), known},
		"a capability of another vendor":    {space(list, 0x60, map[int][]byte{0x60: {0x09, 0, 0x14, 0x01, 0x00}}), known},
		"a vGPU":                            {space(list, 0xd0, map[int][]byte{0xd0: signed(0x68, driver)}), full},
		"a vGPU behind other capabilities":  {space(list, 0x60, map[int][]byte{0x60: express(0x70), 0x70: {0x09, 0x80, 5, 'N', 'O'}, 0x80: signed(0, driver)}), full},
		"the low bits of a place are none":  {space(list, 0x63, map[int][]byte{0x60: signed(0, driver)}), full},
		"the whole space, and more of it":   {append(space(list, 0xe4, map[int][]byte{0xe4: signed(0, driver)}), make([]byte, 4096-configSize)...), full},
		"other records before":              {space(list, 0x60, map[int][]byte{0x60: signed(0, record(1, "x"), record(7, ""), driver)}), full},
		"no records":                        {space(list, 0x60, map[int][]byte{0x60: signed(0)}), present},
		"no record of the driver":           {space(list, 0x60, map[int][]byte{0x60: signed(0, record(1, driverData("1", "2")))}), present},
		"a record that is too short":        {space(list, 0x60, map[int][]byte{0x60: signed(0, record(driverRecord, "550.54.10"))}), present},
		"a record of no length":             {space(list, 0x60, map[int][]byte{0x60: signed(0, []byte{1, 0}, driver)}), present},
		"a record behind the capability":    {space(list, 0x60, map[int][]byte{0x60: oneShort}), present},
		"a capability behind the space":     {space(list, 0xf0, map[int][]byte{0xf0: signed(0, driver)}), present},
		"a capability without a signature":  {space(list, 0x60, map[int][]byte{0x60: {0x09, 0, 4, 'V', 'F'}}), known},
		"a version that is no text":         {space(list, 0x60, map[int][]byte{0x60: signed(0, record(driverRecord, driverData("a b", "\xc3\x9c")))}), present},
		"texts that fill their fields":      {space(list, 0x60, map[int][]byte{0x60: signed(0, record(driverRecord, "0123456789abcdefghij"))}), VGPU{true, true, "0123456789", "abcdefghij"}},
		"a list that goes in circles":       {space(list, 0x60, map[int][]byte{0x60: express(0x70), 0x70: express(0x60)}), VGPU{}},
		"a capability that is its own next": {space(list, 0x60, map[int][]byte{0x60: express(0x60)}), VGPU{}},
		"a list that leads into the header": {space(list, 0x60, map[int][]byte{0x60: express(0x10)}), VGPU{}},
		"a list that breaks off":            {space(list, 0x60, map[int][]byte{0x60: {0xff, 0xff, 0xff}}), VGPU{}},
		"a list that is cut off":            {space(list, 0x60, map[int][]byte{0x60: express(0x70)})[:0x70], VGPU{}},
		"a list behind what was read":       {space(list, 0xfc, map[int][]byte{0xfc: express(0)})[:0xfe], VGPU{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := vgpu(c.config); got != c.want {
				t.Errorf("vgpu() = %+v, want %+v", got, c.want)
			}
		})
	}
}

// TestVGPUFullList has a capability at each place, in turn.
func TestVGPUFullList(t *testing.T) {
	all := map[int][]byte{}
	for at := headerSize; at < configSize; at += capabilityBytes {
		all[at] = []byte{0x01, byte(at + capabilityBytes)} // the last one leads to 256, which is 0
	}
	if got, want := vgpu(space(statusHasList, headerSize, all)), (VGPU{Known: true}); got != want {
		t.Errorf("vgpu() = %+v, want %+v", got, want)
	}
}

func FuzzVGPU(f *testing.F) {
	f.Add(space(statusHasList, 0xd0, map[int][]byte{0xd0: signed(0x68, record(driverRecord, driverData("550.54.10", "r550_00")))}))
	f.Add(space(statusHasList, 0x60, map[int][]byte{0x60: {0x09, 0x60, 0xff, 'V', 'F', 1, 0}}))
	f.Add(space(0, 0, nil)[:headerSize])
	f.Fuzz(func(t *testing.T, config []byte) {
		v := vgpu(config)
		if v.Present && !v.Known || !v.Present && v.HostDriverVersion+v.HostDriverBranch != "" {
			t.Errorf("vgpu() = %+v contradicts itself", v)
		}
		for _, s := range []string{v.HostDriverVersion, v.HostDriverBranch} {
			if len(s) > driverTextSize || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
				t.Errorf("vgpu() gives %q", s)
			}
		}
		if v.Known && len(config) == headerSize && config[statusAt]&statusHasList != 0 && config[listAt] != 0 {
			t.Errorf("vgpu() = %+v from a header whose list is elsewhere", v)
		}
	})
}
