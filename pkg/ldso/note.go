package ldso

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
)

// Offsets and sizes of the sections in a 64-bit file.
const (
	fileHeader     = 64
	sectionHeader  = 64
	maxSections    = 512
	maxNames       = 64 << 10
	sectionNote    = 7
	flagCompressed = 0x800
)

// ReadNote returns the content of a section of notes with this name, of at most limit bytes, and
// its alignment. It returns nil if the library has no such section. The error means that the file
// is not a 64-bit library, or is truncated.
func ReadNote(r io.ReaderAt, name string, limit uint64) (data []byte, align uint64, err error) {
	head := make([]byte, fileHeader)
	if n, err := r.ReadAt(head, 0); n < len(head) {
		return nil, 0, err
	}
	if !bytes.HasPrefix(head, []byte(magic)) || Class(head[classAt]) != Class64 || head[orderAt] != littleOrder {
		return nil, 0, errors.New("it is not a 64-bit library")
	}
	get := binary.LittleEndian
	count, names := int(get.Uint16(head[60:])), int(get.Uint16(head[62:]))
	if get.Uint16(head[58:]) != sectionHeader || count > maxSections || names >= count {
		return nil, 0, nil
	}
	table := make([]byte, count*sectionHeader)
	if !readAt(r, table, get.Uint64(head[40:])) {
		return nil, 0, io.ErrUnexpectedEOF
	}
	text := section(table[names*sectionHeader:])
	all, err := text.content(r, maxNames)
	if err != nil {
		return nil, 0, err
	}
	for ; len(table) > 0; table = table[sectionHeader:] {
		s := section(table)
		if get.Uint32(s[4:]) != sectionNote || get.Uint64(s[8:])&flagCompressed != 0 || !isNameAt(all, get.Uint32(s), name) {
			continue
		}
		data, err := s.content(r, limit)
		return data, get.Uint64(s[48:]), err
	}
	return nil, 0, nil
}

// section is the header of a section.
type section []byte

// content returns the content of the section, nil if it is larger than limit.
func (s section) content(r io.ReaderAt, limit uint64) ([]byte, error) {
	at, size := binary.LittleEndian.Uint64(s[24:]), binary.LittleEndian.Uint64(s[32:])
	if size > limit {
		return nil, nil
	}
	data := make([]byte, size)
	if !readAt(r, data, at) {
		return nil, io.ErrUnexpectedEOF
	}
	return data, nil
}

// isNameAt reports whether a name is at this offset in the table of names.
func isNameAt(all []byte, at uint32, name string) bool {
	return uint64(at) < uint64(len(all)) && bytes.HasPrefix(all[at:], append([]byte(name), 0))
}
