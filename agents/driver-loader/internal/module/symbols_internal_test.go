package module

import (
	"debug/elf"
	"encoding/binary"
	"maps"
	"testing"
)

// objectOf returns an object with these sections.
func objectOf(sections map[string]string) *object {
	o := &object{file: &elf.File{FileHeader: elf.FileHeader{ByteOrder: binary.LittleEndian}}}
	for name, content := range sections {
		o.file.Sections = append(o.file.Sections, &elf.Section{SectionHeader: elf.SectionHeader{
			Name: name, Type: elf.SHT_PROGBITS, Offset: uint64(len(o.data)), FileSize: uint64(len(content)),
		}})
		o.data = append(o.data, content...)
	}
	return o
}

func TestVersionsOfLongNames(t *testing.T) {
	for name, tc := range map[string]struct {
		crcs, names string
		want        map[string]uint32
		fails       bool
	}{
		"two names":            {"\x01\x00\x00\x00\x02\x00\x00\x80", "first\x00second\x00", map[string]uint32{"first": 1, "second": 0x80000002}, false},
		"none":                 {"", "", map[string]uint32{}, false},
		"a name without a crc": {"\x01\x00\x00\x00\x02", "first\x00second\x00", nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := versions(objectOf(map[string]string{"__version_ext_crcs": tc.crcs, "__version_ext_names": tc.names}))
			if (err != nil) != tc.fails || !maps.Equal(got, tc.want) {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
	if _, err := versions(objectOf(map[string]string{"__versions": "short"})); err == nil {
		t.Error("a table with half an entry was read")
	}
}

func TestVersionOfAnExportedSymbol(t *testing.T) {
	o := objectOf(map[string]string{"__kcrctab": "\x00\x00\x00\x00\x78\x56\x34\x12"})
	for name, tc := range map[string]struct {
		symbol elf.Symbol
		want   uint32
	}{
		"in a section, as since Linux 5.19": {elf.Symbol{Section: 0, Value: 4}, 0x12345678},
		"as the value, as before":           {elf.Symbol{Section: elf.SHN_ABS, Value: 0x12345678}, 0x12345678},
		"at the section's end":              {elf.Symbol{Section: 0, Value: 5}, 0},
		"outside of the section":            {elf.Symbol{Section: 0, Value: 1 << 63}, 0},
		"in no section":                     {elf.Symbol{Section: 9, Value: 0}, 0},
	} {
		if got := o.crc(tc.symbol); got != tc.want {
			t.Errorf("%s: %#x", name, got)
		}
	}
}
