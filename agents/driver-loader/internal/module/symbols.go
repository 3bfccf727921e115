package module

import (
	"bytes"
	"debug/elf"
	"errors"
	"maps"
	"slices"
	"strings"
)

// entrySize is the size of the kernel's struct modversion_info on 64-bit architectures. The struct has
// the version, in the size of a long, and a zero-terminated name.
const entrySize, longSize = 64, 8

// versions returns the symbols with versions. They are in the section __versions, and since Linux 6.13
// also in two other sections, for names of any length.
func versions(o *object) (map[string]uint32, error) {
	out := map[string]uint32{}
	table, err := o.section("__versions")
	if err != nil {
		return nil, err
	}
	if len(table)%entrySize != 0 {
		return nil, errors.New("its section __versions has an unknown form")
	}
	order := o.file.ByteOrder
	for ; len(table) > 0; table = table[entrySize:] {
		if name, _, ok := bytes.Cut(table[longSize:entrySize], []byte{0}); ok && len(name) > 0 {
			out[string(name)] = uint32(order.Uint64(table)) //nolint:gosec // A version is the lower half.
		}
	}
	crcs, err := o.section("__version_ext_crcs")
	if err != nil {
		return nil, err
	}
	names, err := o.section("__version_ext_names")
	if err != nil {
		return nil, err
	}
	for name := range bytes.SplitSeq(names, []byte{0}) {
		if len(name) == 0 {
			continue
		}
		if len(crcs) < 4 {
			return nil, errors.New("its section __version_ext_crcs is shorter than __version_ext_names")
		}
		out[string(name)] = order.Uint32(crcs)
		crcs = crcs[4:]
	}
	return out, nil
}

// readSymbols sets Undefined and Provides from the symbol table.
func (m *Module) readSymbols(o *object) error {
	symbols, err := o.symbols()
	if err != nil {
		return err
	}
	m.Provides = map[string]uint32{}
	undefined := map[string]bool{}
	for _, s := range symbols {
		name, exported := strings.CutPrefix(s.Name, "__ksymtab_")
		crcOf, versioned := strings.CutPrefix(s.Name, "__crc_")
		switch {
		case s.Name == "":
		case s.Section == elf.SHN_UNDEF:
			// .TOC. is a name for an address on PowerPC.
			if elf.ST_BIND(s.Info) == elf.STB_GLOBAL && s.Name != ".TOC." {
				undefined[s.Name] = true
			}
		case versioned:
			m.Provides[crcOf] = o.crc(s)
		case exported:
			if _, ok := m.Provides[name]; !ok {
				m.Provides[name] = 0
			}
		}
	}
	m.Undefined = slices.Sorted(maps.Keys(undefined))
	return nil
}

// crc returns the version in a symbol __crc_*: the value of the symbol, or since Linux 5.19 the number at
// its address. It returns 0 if it cannot be read.
func (o *object) crc(s elf.Symbol) uint32 {
	if s.Section == elf.SHN_ABS {
		return uint32(s.Value) //nolint:gosec // A version is the lower half.
	}
	if int(s.Section) >= len(o.file.Sections) {
		return 0
	}
	data, err := o.content(o.file.Sections[s.Section])
	if err != nil || uint64(len(data)) < 4 || s.Value > uint64(len(data))-4 {
		return 0
	}
	return o.file.ByteOrder.Uint32(data[s.Value:])
}
