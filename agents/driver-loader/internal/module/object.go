package module

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"iter"
)

// object is a relocatable 64-bit ELF file in memory.
type object struct {
	file *elf.File
	data []byte
}

func newObject(data []byte) (*object, error) {
	if !bytes.HasPrefix(data, []byte(elf.ELFMAG)) {
		return nil, errNoELF
	}
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		// The table of sections is at the end of the file.
		return nil, fmt.Errorf("it is not a valid ELF file (%w): it may be truncated: copy it again", err)
	}
	if f.Type != elf.ET_REL {
		return nil, fmt.Errorf("it is not a kernel module: it is an ELF file of type %s, not of ET_REL", f.Type)
	}
	if f.Class != elf.ELFCLASS64 || !supported(f.Machine) {
		return nil, fmt.Errorf("it is for the processor %s, %s, which is not supported", f.Machine, f.Class)
	}
	for _, s := range f.Sections {
		if s.Type == elf.SHT_NOBITS || s.Type == elf.SHT_NULL {
			continue
		}
		if end := s.Offset + s.FileSize; end < s.Offset || end > uint64(len(data)) {
			return nil, errCutOff
		}
	}
	return &object{file: f, data: data}, nil
}

// end returns the offset of the first byte after the ELF file.
func (o *object) end() uint64 {
	order := o.file.ByteOrder
	// e_shoff, e_shentsize and e_shnum of the header. NewFile has checked that the table is in the file.
	end := order.Uint64(o.data[0x28:]) + uint64(order.Uint16(o.data[0x3a:]))*uint64(len(o.file.Sections))
	for _, s := range o.file.Sections {
		if s.Type != elf.SHT_NOBITS && s.Type != elf.SHT_NULL {
			end = max(end, s.Offset+s.FileSize)
		}
	}
	return end
}

// section returns the content of a section, or nil if it does not exist. The caller must not change it.
func (o *object) section(name string) ([]byte, error) {
	s := o.file.Section(name)
	if s == nil {
		return nil, nil
	}
	return o.content(s)
}

func (o *object) content(s *elf.Section) ([]byte, error) {
	if s.Type == elf.SHT_NOBITS {
		return nil, nil
	}
	if s.Flags&elf.SHF_COMPRESSED != 0 {
		return nil, fmt.Errorf("its section %q is compressed, and the kernel does not support that", s.Name)
	}
	return o.data[s.Offset : s.Offset+s.FileSize], nil
}

// symbol is an entry of the symbol table.
type symbol struct {
	name    string
	bind    elf.SymBind
	section elf.SectionIndex
	value   uint64
}

const symbolSize = 24

// symbols returns the named symbols. It parses the table itself, because a module with debug information
// has hundreds of thousands of symbols, and only a few are needed.
func (o *object) symbols() (iter.Seq[symbol], error) {
	table := o.file.SectionByType(elf.SHT_SYMTAB)
	if table == nil {
		return nil, errors.New("it is not a kernel module: it has no table of symbols")
	}
	if int(table.Link) >= len(o.file.Sections) {
		return nil, errors.New("it is not a valid ELF file: its symbols have no names")
	}
	entries, err := o.content(table)
	if err != nil {
		return nil, err
	}
	names, err := o.content(o.file.Sections[table.Link])
	if err != nil {
		return nil, err
	}
	order := o.file.ByteOrder
	return func(yield func(symbol) bool) {
		for ; len(entries) >= symbolSize; entries = entries[symbolSize:] {
			name := cString(names, uint64(order.Uint32(entries)))
			if name == "" {
				continue
			}
			if !yield(symbol{
				name: name, bind: elf.ST_BIND(entries[4]),
				section: elf.SectionIndex(order.Uint16(entries[6:])), value: order.Uint64(entries[8:]),
			}) {
				return
			}
		}
	}, nil
}

// cString returns the zero-terminated string at an offset, or "" if it is not terminated.
func cString(data []byte, offset uint64) string {
	if offset >= uint64(len(data)) {
		return ""
	}
	value, _, ok := bytes.Cut(data[offset:], []byte{0})
	if !ok {
		return ""
	}
	return string(value)
}
