package driverroot

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"io"
)

// Bounds of what is read of a library. The driver's have some ten segments and
// forty dynamic entries.
const (
	maxSegments = 64
	maxDynamic  = 4 << 10
	maxSoname   = 256
)

// Sizes of the structures of a 64-bit ELF file.
const (
	headerSize  = 64
	segmentSize = 56
	dynamicSize = 16
)

// readSoname returns the SONAME of a library, "" if it has none, and whether the
// file is a library for the machine. It reads what the dynamic loader reads, some
// 2 KiB: package debug/elf reads the section headers and all of the string table,
// which for the libraries of a driver is 10 MB.
func readSoname(r io.ReaderAt, machine elf.Machine) (string, bool) {
	head := make([]byte, headerSize)
	if _, err := r.ReadAt(head, 0); err != nil ||
		!bytes.HasPrefix(head, []byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB)}) ||
		elf.Type(binary.LittleEndian.Uint16(head[16:])) != elf.ET_DYN ||
		elf.Machine(binary.LittleEndian.Uint16(head[18:])) != machine {
		return "", false
	}
	s := segments{
		table: make([]byte, min(int(binary.LittleEndian.Uint16(head[56:])), maxSegments)*segmentSize),
	}
	if binary.LittleEndian.Uint16(head[54:]) != segmentSize || !readAt(r, s.table, binary.LittleEndian.Uint64(head[32:])) {
		return "", true
	}
	at, ok := s.soname(r)
	if !ok {
		return "", true
	}
	name := make([]byte, maxSoname)
	n, _ := r.ReadAt(name, at)
	text, _, ok := bytes.Cut(name[:n], []byte{0})
	if !ok {
		return "", true
	}
	return string(text), true
}

// readAt fills b from the offset at.
func readAt(r io.ReaderAt, b []byte, at uint64) bool {
	if at > 1<<62 {
		return false
	}
	n, _ := r.ReadAt(b, int64(at))
	return n == len(b)
}

// segments is the table of the parts of a library that the loader maps or reads.
type segments struct{ table []byte }

// soname returns where in the file the SONAME begins.
func (s segments) soname(r io.ReaderAt) (int64, bool) {
	offset, _, size, ok := s.find(elf.PT_DYNAMIC, 0)
	if !ok {
		return 0, false
	}
	entries := make([]byte, min(size, maxDynamic)/dynamicSize*dynamicSize)
	if !readAt(r, entries, offset) {
		return 0, false
	}
	var name, names uint64
	found := false
	for ; len(entries) > 0; entries = entries[dynamicSize:] {
		tag, value := binary.LittleEndian.Uint64(entries), binary.LittleEndian.Uint64(entries[8:])
		if tag == uint64(elf.DT_SONAME) {
			name, found = value, true
		}
		if tag == uint64(elf.DT_STRTAB) {
			names = value
		}
	}
	offset, address, size, ok := s.find(elf.PT_LOAD, names)
	if !found || !ok || name >= size-(names-address) {
		return 0, false
	}
	return int64(offset + names - address + name), true
}

// find returns the place of the first segment of a kind: of PT_DYNAMIC, of which
// there is one, or of one that holds the address.
func (s segments) find(kind elf.ProgType, holds uint64) (offset, address, size uint64, ok bool) {
	for t := s.table; len(t) > 0; t = t[segmentSize:] {
		offset, address, size = binary.LittleEndian.Uint64(t[8:]), binary.LittleEndian.Uint64(t[16:]), binary.LittleEndian.Uint64(t[32:])
		if elf.ProgType(binary.LittleEndian.Uint32(t)) != kind || offset > 1<<61 || size > 1<<61 {
			continue
		}
		if kind == elf.PT_DYNAMIC || holds >= address && holds-address < size {
			return offset, address, size, true
		}
	}
	return 0, 0, 0, false
}
