package module

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
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

// symbols returns the symbols of the module. Package elf would expand a compressed table to any size.
func (o *object) symbols() ([]elf.Symbol, error) {
	for _, s := range o.file.Sections {
		if s.Type != elf.SHT_SYMTAB && s.Type != elf.SHT_STRTAB {
			continue
		}
		if _, err := o.content(s); err != nil {
			return nil, err
		}
	}
	all, err := o.file.Symbols()
	switch {
	case o.file.SectionByType(elf.SHT_SYMTAB) == nil:
		return nil, errors.New("it is not a kernel module: it has no table of symbols")
	case err != nil && !errors.Is(err, elf.ErrNoSymbols):
		return nil, fmt.Errorf("it is not a valid ELF file: %w", err)
	}
	return all, nil
}
