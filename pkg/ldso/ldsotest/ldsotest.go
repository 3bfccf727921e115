// Package ldsotest makes libraries for tests, with the minimum content that ldconfig accepts.
package ldsotest

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
)

// Library returns a 64-bit library that only has a SONAME, or none if soname is "". It cannot be
// loaded.
func Library(machine elf.Machine, soname string) []byte {
	const ehsize, phentsize = 64, 56
	names := append([]byte{0}, append([]byte(soname), 0)...)
	const dynamicAt = ehsize + 2*phentsize
	dynamic := []elf.Dyn64{{Tag: int64(elf.DT_STRTAB)}, {Tag: int64(elf.DT_SONAME), Val: 1}, {Tag: int64(elf.DT_NULL)}}
	if soname == "" {
		dynamic[1] = dynamic[2]
	}
	namesAt := uint64(dynamicAt + 16*len(dynamic))
	dynamic[0].Val = namesAt
	var b bytes.Buffer
	for _, part := range []any{
		elf.Header64{
			Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
			Type:  uint16(elf.ET_DYN), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT),
			Phoff: ehsize, Ehsize: ehsize, Phentsize: phentsize, Phnum: 2,
		},
		elf.Prog64{Type: uint32(elf.PT_LOAD), Filesz: namesAt + uint64(len(names))},
		elf.Prog64{Type: uint32(elf.PT_DYNAMIC), Off: dynamicAt, Vaddr: dynamicAt, Filesz: 16 * uint64(len(dynamic))},
		dynamic, names,
	} {
		_ = binary.Write(&b, binary.LittleEndian, part)
	}
	return b.Bytes()
}
