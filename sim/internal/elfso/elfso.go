// Package elfso makes small ELF shared objects. They stand for the libraries of a driver that no
// program calls on a simulated node. The loader opens them, ldconfig lists them, and their SONAME
// is correct, but they define no symbols.
package elfso

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"

	"outrigger.dev/sim/internal/arch"
)

const (
	headerSize  = 64
	progSize    = 56
	sectionSize = 64
	symbolSize  = 24
	pageSize    = 0x1000
	// names is the section name table. The following offsets point into it.
	names       = "\x00.hash\x00.dynsym\x00.dynstr\x00.dynamic\x00.shstrtab\x00"
	nameHash    = 1
	nameDynsym  = 7
	nameDynstr  = 15
	nameDynamic = 23
	nameNames   = 32
)

// layout has the offsets of the parts of an object. The object is mapped as a whole, so an offset
// is also an address.
type layout struct {
	hash, dynsym, dynstr, dynamic, names, sections, end uint64
	dynstrSize, dynamicSize                             uint64
}

// New returns a shared object for this architecture that has the given SONAME and defines no
// symbol.
func New(soname string) ([]byte, error) {
	dynstr := "\x00" + soname + "\x00"
	var l layout
	l.hash = headerSize + 3*progSize
	l.dynsym = l.hash + 16
	l.dynstr = l.dynsym + symbolSize
	l.dynstrSize = uint64(len(dynstr))
	l.dynamic = align(l.dynstr+l.dynstrSize, 8)
	dynamic := l.dynamicEntries()
	l.dynamicSize = uint64(binary.Size(dynamic))
	l.names = l.dynamic + l.dynamicSize
	l.sections = align(l.names+uint64(len(names)), 8)
	l.end = l.sections + 6*sectionSize

	var b bytes.Buffer
	for _, part := range []struct {
		at   uint64
		data any
	}{
		{0, l.header()},
		{headerSize, l.programs()},
		{l.hash, []uint32{1, 1, 0, 0}}, // one bucket, one symbol: the null symbol
		{l.dynsym, elf.Sym64{}},
		{l.dynstr, []byte(dynstr)},
		{l.dynamic, dynamic},
		{l.names, []byte(names)},
		{l.sections, l.sectionHeaders()},
	} {
		b.Write(make([]byte, part.at-uint64(b.Len())))
		if err := binary.Write(&b, binary.LittleEndian, part.data); err != nil {
			return nil, fmt.Errorf("write shared object %s: %w", soname, err)
		}
	}
	return b.Bytes(), nil
}

func align(n, to uint64) uint64 { return (n + to - 1) / to * to }

func (l layout) header() elf.Header64 {
	h := elf.Header64{
		Type:      uint16(elf.ET_DYN),
		Machine:   uint16(arch.Machine),
		Version:   uint32(elf.EV_CURRENT),
		Phoff:     headerSize,
		Shoff:     l.sections,
		Ehsize:    headerSize,
		Phentsize: progSize,
		Phnum:     3,
		Shentsize: sectionSize,
		Shnum:     6,
		Shstrndx:  5,
	}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS] = byte(elf.ELFCLASS64)
	h.Ident[elf.EI_DATA] = byte(elf.ELFDATA2LSB)
	h.Ident[elf.EI_VERSION] = byte(elf.EV_CURRENT)
	return h
}

// programs maps the object writable, because the loader relocates the dynamic section in place.
// Without PT_GNU_STACK, the loader would make the stack executable.
func (l layout) programs() []elf.Prog64 {
	rw := uint32(elf.PF_R | elf.PF_W)
	return []elf.Prog64{
		{Type: uint32(elf.PT_LOAD), Flags: rw, Filesz: l.end, Memsz: l.end, Align: pageSize},
		{Type: uint32(elf.PT_DYNAMIC), Flags: rw, Off: l.dynamic, Vaddr: l.dynamic, Paddr: l.dynamic, Filesz: l.dynamicSize, Memsz: l.dynamicSize, Align: 8},
		{Type: uint32(elf.PT_GNU_STACK), Flags: rw, Align: 16},
	}
}

func (l layout) dynamicEntries() []elf.Dyn64 {
	return []elf.Dyn64{
		{Tag: int64(elf.DT_SONAME), Val: 1},
		{Tag: int64(elf.DT_HASH), Val: l.hash},
		{Tag: int64(elf.DT_STRTAB), Val: l.dynstr},
		{Tag: int64(elf.DT_SYMTAB), Val: l.dynsym},
		{Tag: int64(elf.DT_STRSZ), Val: l.dynstrSize},
		{Tag: int64(elf.DT_SYMENT), Val: symbolSize},
		{Tag: int64(elf.DT_NULL)},
	}
}

func (l layout) sectionHeaders() []elf.Section64 {
	alloc := uint64(elf.SHF_ALLOC)
	return []elf.Section64{
		{},
		{Name: nameHash, Type: uint32(elf.SHT_HASH), Flags: alloc, Addr: l.hash, Off: l.hash, Size: 16, Link: 2, Addralign: 8, Entsize: 4},
		{Name: nameDynsym, Type: uint32(elf.SHT_DYNSYM), Flags: alloc, Addr: l.dynsym, Off: l.dynsym, Size: symbolSize, Link: 3, Info: 1, Addralign: 8, Entsize: symbolSize},
		{Name: nameDynstr, Type: uint32(elf.SHT_STRTAB), Flags: alloc, Addr: l.dynstr, Off: l.dynstr, Size: l.dynstrSize, Addralign: 1},
		{Name: nameDynamic, Type: uint32(elf.SHT_DYNAMIC), Flags: alloc | uint64(elf.SHF_WRITE), Addr: l.dynamic, Off: l.dynamic, Size: l.dynamicSize, Link: 3, Addralign: 8, Entsize: 16},
		{Name: nameNames, Type: uint32(elf.SHT_STRTAB), Off: l.names, Size: uint64(len(names)), Addralign: 1},
	}
}
