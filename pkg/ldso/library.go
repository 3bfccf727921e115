package ldso

import (
	"bytes"
	"encoding/binary"
	"io"
)

// Bounds of the parts of a library that are read. The driver's libraries have some ten segments and
// forty dynamic entries.
const (
	maxSegments = 64
	maxDynamic  = 4 << 10
	maxSoname   = 256
)

// Machine is the processor of a library, as ELF files number it. Package debug/elf also has these
// numbers, but it would add decompressors and DWARF to each program that a container waits for, and
// to the time of its start.
type Machine uint16

// Class is the size of a library's addresses, as ELF files number it.
type Class uint8

// The machines and classes of entries in glibc's cache.
const (
	I386    Machine = 3
	ARM     Machine = 40
	X8664   Machine = 62
	AArch64 Machine = 183

	Class32 Class = 1
	Class64 Class = 2
)

// More numbers of ELF files.
const (
	magic         = "\x7fELF"
	classAt       = 4
	orderAt       = 5
	littleOrder   = 1
	sharedLibrary = 3
	segmentLoad   = 1
	segmentLinks  = 2
	tagNames      = 5
	tagSoname     = 14
)

// Library holds the properties of a library that the loader needs.
type Library struct {
	Machine Machine
	Class   Class
	// Soname is the name under which programs ask for the library; "" if it has none.
	Soname string
}

// Flags of an entry: the C library, and the architecture (glibc's ldconfig.h).
const (
	flagLibc6   = 0x0003
	flagX8664   = 0x0300
	flagX32     = 0x0800
	flagAArch64 = 0x0a00
	flagArmHF   = 0x0900
)

// ArchMask selects the architecture in the flags of an entry.
const ArchMask = 0xff00

// Flags returns the flags of the library in the cache, and false for an architecture that NVIDIA's
// driver does not support.
func (l Library) Flags() (int32, bool) {
	switch {
	case l.Machine == X8664 && l.Class == Class64:
		return flagLibc6 | flagX8664, true
	case l.Machine == X8664:
		return flagLibc6 | flagX32, true
	case l.Machine == I386:
		return flagLibc6, true
	case l.Machine == AArch64 && l.Class == Class64:
		return flagLibc6 | flagAArch64, true
	case l.Machine == ARM:
		return flagLibc6 | flagArmHF, true
	}
	return 0, false
}

// layout has the offsets and sizes in a file of a class.
type layout struct {
	class                          Class
	header, segment, dynamic, word int
	// Offsets in the header.
	table, entrySize, entries int
	// Offsets in a segment.
	offset, address, size int
}

func layoutOf(class Class) (layout, bool) {
	switch class {
	case Class64:
		return layout{
			class: class, header: 64, segment: 56, dynamic: 16, word: 8,
			table: 32, entrySize: 54, entries: 56, offset: 8, address: 16, size: 32,
		}, true
	case Class32:
		return layout{
			class: class, header: 52, segment: 32, dynamic: 8, word: 4,
			table: 28, entrySize: 42, entries: 44, offset: 4, address: 8, size: 16,
		}, true
	default:
		return layout{}, false
	}
}

// readWord reads an address or an offset.
func (l layout) readWord(b []byte, offset int) uint64 {
	if l.word == 4 {
		return uint64(binary.LittleEndian.Uint32(b[offset:]))
	}
	return binary.LittleEndian.Uint64(b[offset:])
}

// ReadLibrary returns the properties of a file, and false if the file is not a shared library. It
// reads the same parts as the dynamic loader, some 2 KiB. Package debug/elf would read the section
// headers and the whole string table, 10 MB for the libraries of a driver.
func ReadLibrary(r io.ReaderAt) (Library, bool) {
	head := make([]byte, 64)
	n, _ := r.ReadAt(head, 0)
	if n < 52 || !bytes.HasPrefix(head, []byte(magic)) || head[orderAt] != littleOrder {
		return Library{}, false
	}
	l, ok := layoutOf(Class(head[classAt]))
	if !ok || n < l.header || binary.LittleEndian.Uint16(head[16:]) != sharedLibrary {
		return Library{}, false
	}
	lib := Library{Machine: Machine(binary.LittleEndian.Uint16(head[18:])), Class: l.class}
	s := segments{layout: l, table: make([]byte, min(int(binary.LittleEndian.Uint16(head[l.entries:])), maxSegments)*l.segment)}
	if int(binary.LittleEndian.Uint16(head[l.entrySize:])) != l.segment || !readAt(r, s.table, l.readWord(head, l.table)) {
		return lib, true
	}
	at, ok := s.soname(r)
	if !ok {
		return lib, true
	}
	name := make([]byte, maxSoname)
	n, _ = r.ReadAt(name, at)
	if text, _, ok := bytes.Cut(name[:n], []byte{0}); ok {
		lib.Soname = string(text)
	}
	return lib, true
}

// readAt fills b with the bytes from offset at.
func readAt(r io.ReaderAt, b []byte, at uint64) bool {
	if at > 1<<62 {
		return false
	}
	n, _ := r.ReadAt(b, int64(at))
	return n == len(b)
}

// segments is the table of the parts of a library that the loader maps or reads.
type segments struct {
	layout
	table []byte
}

// soname returns the offset of the SONAME in the file.
func (s segments) soname(r io.ReaderAt) (int64, bool) {
	offset, _, size, ok := s.find(segmentLinks, 0)
	if !ok {
		return 0, false
	}
	entries := make([]byte, int(min(size, maxDynamic))/s.dynamic*s.dynamic)
	if !readAt(r, entries, offset) {
		return 0, false
	}
	var name, names uint64
	found := false
	for ; len(entries) > 0; entries = entries[s.dynamic:] {
		tag, value := s.readWord(entries, 0), s.readWord(entries, s.word)
		if tag == tagSoname {
			name, found = value, true
		}
		if tag == tagNames {
			names = value
		}
	}
	offset, address, size, ok := s.find(segmentLoad, names)
	if !found || !ok || name >= size-(names-address) {
		return 0, false
	}
	return int64(offset + names - address + name), true
}

// find returns the place of the first segment of a kind: the segment of PT_DYNAMIC, which exists
// once, or the segment that contains the address.
func (s segments) find(kind uint32, holds uint64) (offset, address, size uint64, ok bool) {
	for t := s.table; len(t) > 0; t = t[s.segment:] {
		offset, address, size = s.readWord(t, s.offset), s.readWord(t, s.address), s.readWord(t, s.size)
		if binary.LittleEndian.Uint32(t) != kind || offset > 1<<61 || size > 1<<61 {
			continue
		}
		if kind == segmentLinks || holds >= address && holds-address < size {
			return offset, address, size, true
		}
	}
	return 0, 0, 0, false
}
