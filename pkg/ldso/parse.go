package ldso

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"strings"
)

// Parse returns the libraries of a cache in their order. It omits entries that a loader cannot use,
// such as entries with a relative path.
func Parse(data []byte) ([]Entry, error) {
	data, err := newFormat(data)
	if err != nil {
		return nil, fmt.Errorf("parse ld.so.cache: %w", err)
	}
	// All strings are parts of this one copy.
	c := cache{bytes: data, text: string(data)}
	folders := c.folders()
	n := int(binary.NativeEndian.Uint32(data[20:]))
	out := make([]Entry, 0, n)
	for i := range n {
		b := data[newHeaderSize+i*newEntrySize:]
		e := Entry{
			Flags:     int32(binary.NativeEndian.Uint32(b)),
			OSVersion: binary.NativeEndian.Uint32(b[12:]),
			Hwcap:     binary.NativeEndian.Uint64(b[16:]),
		}
		var known, named bool
		e.Name, known = c.stringAt(binary.NativeEndian.Uint32(b[4:]))
		e.Path, named = c.stringAt(binary.NativeEndian.Uint32(b[8:]))
		if !known || !named {
			return nil, fmt.Errorf("parse ld.so.cache: entry %d points beyond the end of the file", i)
		}
		if e.resolve(folders) && e.usable() {
			out = append(out, e)
		}
	}
	return out, nil
}

// newFormat returns the part in the new format. It checks that header and entries are complete.
func newFormat(data []byte) ([]byte, error) {
	if len(data) > MaxCache {
		return nil, fmt.Errorf("it is larger than %d MiB", MaxCache>>20)
	}
	if bytes.HasPrefix(data, []byte(oldMagic)) {
		if len(data) < oldHeaderSize {
			return nil, errors.New("header is cut short")
		}
		n := uint64(binary.NativeEndian.Uint32(data[12:]))
		skip := (oldHeaderSize + n*oldEntrySize + 7) &^ 7
		if skip > uint64(len(data)) {
			return nil, fmt.Errorf("%d old entries in %d bytes", n, len(data))
		}
		data = data[skip:]
	}
	if !bytes.HasPrefix(data, []byte(newMagic)) || len(data) < newHeaderSize {
		return nil, errors.New("unknown format")
	}
	n := uint64(binary.NativeEndian.Uint32(data[20:]))
	if n > maxEntries || newHeaderSize+n*newEntrySize > uint64(len(data)) {
		return nil, fmt.Errorf("%d entries in %d bytes", n, len(data))
	}
	return data, nil
}

type cache struct {
	bytes []byte
	text  string
}

// stringAt returns the string at an offset.
func (c cache) stringAt(offset uint32) (string, bool) {
	if uint64(offset) >= uint64(len(c.text)) {
		return "", false
	}
	s, _, ok := strings.Cut(c.text[offset:min(len(c.text), int(offset)+maxPath)], "\x00")
	return s, ok
}

// folders returns the names of the folders of glibc-hwcaps. Like the loader, it returns none if the
// extension is damaged.
func (c cache) folders() []string {
	for section := range c.sections() {
		if binary.NativeEndian.Uint32(section) != sectionHwcaps {
			continue
		}
		offset, size := binary.NativeEndian.Uint32(section[8:]), binary.NativeEndian.Uint32(section[12:])
		if uint64(offset)+uint64(size) > uint64(len(c.bytes)) || size/4 > maxHwcaps {
			return nil
		}
		var out []string
		for at := c.bytes[offset : offset+size]; len(at) >= 4; at = at[4:] {
			name, _ := c.stringAt(binary.NativeEndian.Uint32(at))
			out = append(out, name)
		}
		return out
	}
	return nil
}

// sections yields the parts of the extension.
func (c cache) sections() func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		start := uint64(binary.NativeEndian.Uint32(c.bytes[32:]))
		if start == 0 || start+extensionHeaderSize > uint64(len(c.bytes)) {
			return
		}
		b := c.bytes[start:]
		if binary.NativeEndian.Uint32(b) != extensionMagic {
			return
		}
		count := binary.NativeEndian.Uint32(b[4:])
		b = b[extensionHeaderSize:]
		for ; count > 0 && len(b) >= extensionSectionSize; count-- {
			if !yield(b[:extensionSectionSize]) {
				return
			}
			b = b[extensionSectionSize:]
		}
	}
}

// resolve sets the folder of an entry whose hwcap refers to one.
func (e *Entry) resolve(folders []string) bool {
	if e.Hwcap&extension == 0 {
		return true
	}
	index := uint32(e.Hwcap)
	if uint64(index) >= uint64(len(folders)) || folders[index] == "" || strings.Contains(folders[index], "/") {
		return false
	}
	e.Folder, e.Hwcap = folders[index], e.Hwcap&levelMask
	return true
}

func (e *Entry) usable() bool {
	return path.IsAbs(e.Path) && e.Name != "" && !strings.Contains(e.Name, "/")
}
