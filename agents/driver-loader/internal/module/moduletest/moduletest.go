// Package moduletest makes files of kernel modules for tests. They have metadata, but no code.
package moduletest

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"strings"
)

// Module describes a module to make.
type Module struct {
	Name, Version, Vermagic string
	// License is the license of NVIDIA's open module by default.
	License string
	// BuildID is the build ID, or "".
	BuildID string
	Depends []string
	// Params are the names of the parameters, which are integers.
	Params []string
}

// Open returns the license of NVIDIA's open module with a name.
func Open(name string) string {
	if name == "nvidia_peermem" {
		return "Linux-OpenIB"
	}
	return "Dual MIT/GPL"
}

// Proprietary returns the license of NVIDIA's proprietary module with a name.
func Proprietary(name string) string {
	switch name {
	case "nvidia", "nvidia_modeset":
		return "NVIDIA"
	case "nvidia_drm":
		return "MIT"
	}
	return Open(name)
}

// Bytes returns the file of the module, for x86_64.
func (m Module) Bytes() []byte {
	info := []string{"license=" + cmp.Or(m.License, Open(m.Name)), "depends=" + strings.Join(m.Depends, ","), "name=" + m.Name, "version=" + m.Version, "vermagic=" + m.Vermagic}
	for _, p := range m.Params {
		info = append(info, "parmtype="+p+":int", "parm="+p+":A number")
	}
	note := []byte("\x04\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00GNU\x00" + m.BuildID)
	if m.BuildID == "" {
		note = nil
	}
	sections := []struct {
		name    string
		kind    elf.SectionType
		content []byte
		link    uint32
		entry   uint64
	}{
		{},
		{name: ".modinfo", kind: elf.SHT_PROGBITS, content: []byte(strings.Join(info, "\x00") + "\x00")},
		{name: ".note.gnu.build-id", kind: elf.SHT_NOTE, content: note},
		{name: ".symtab", kind: elf.SHT_SYMTAB, content: make([]byte, elf.Sym64Size), link: 4, entry: elf.Sym64Size},
		{name: ".strtab", kind: elf.SHT_STRTAB, content: []byte{0}},
		{name: ".shstrtab", kind: elf.SHT_STRTAB},
	}
	last := len(sections) - 1
	names := []byte{0}
	headers := make([]elf.Section64, len(sections))
	for i, s := range sections {
		if i > 0 {
			headers[i].Name = uint32(len(names))
			names = append(names, s.name+"\x00"...)
		}
	}
	sections[last].content = names
	const start = 64
	var body, out bytes.Buffer
	for i, s := range sections {
		h := &headers[i]
		h.Type, h.Link, h.Entsize = uint32(s.kind), s.link, s.entry
		h.Off, h.Size = uint64(start+body.Len()), uint64(len(s.content))
		body.Write(s.content)
	}
	header := elf.Header64{
		Type: uint16(elf.ET_REL), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT), Ehsize: start,
		Shoff: uint64(start + body.Len()), Shentsize: start, Shnum: uint16(len(sections)), Shstrndx: uint16(last),
	}
	copy(header.Ident[:], elf.ELFMAG)
	header.Ident[elf.EI_CLASS], header.Ident[elf.EI_DATA], header.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)
	// Writes to a buffer do not fail.
	_ = binary.Write(&out, binary.LittleEndian, header)
	out.Write(body.Bytes())
	_ = binary.Write(&out, binary.LittleEndian, headers)
	return out.Bytes()
}
