package ldso

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// Generator is the name of this program in the caches that Encode makes. ldconfig -p prints it.
const Generator = "outrigger container-toolkit"

// Encode returns a cache of the libraries in the format that every glibc since 2.2 reads. If
// entries are equal for the loader, the first one in the list counts. The same entries always give
// the same bytes.
func Encode(entries []Entry) ([]byte, error) {
	entries = slices.Clone(entries)
	sortEntries(entries)
	fixed, texts := newHeaderSize+len(entries)*newEntrySize, 0
	for _, entry := range entries {
		texts += len(entry.Path) + len(entry.Name) + 2
	}
	e := encoder{b: make([]byte, fixed, fixed+texts)}
	for _, entry := range entries {
		if entry.Folder != "" {
			e.folders = append(e.folders, entry.Folder)
		}
	}
	slices.Sort(e.folders)
	e.folders = slices.Compact(e.folders)
	copy(e.b, newMagic)
	put := binary.NativeEndian
	put.PutUint32(e.b[20:], uint32(len(entries)))
	e.b[28] = littleEndian
	start := len(e.b)
	for i, entry := range entries {
		name, path := e.addStrings(entry)
		b := e.b[newHeaderSize+i*newEntrySize:]
		put.PutUint32(b, uint32(entry.Flags))
		put.PutUint32(b[4:], name)
		put.PutUint32(b[8:], path)
		put.PutUint32(b[12:], entry.OSVersion)
		put.PutUint64(b[16:], e.hwcap(entry))
	}
	offsets := make([]uint32, len(e.folders))
	for i, folder := range e.folders {
		offsets[i] = e.addString(folder)
	}
	put.PutUint32(e.b[24:], uint32(len(e.b)-start))
	e.extension(offsets)
	if len(entries) > maxEntries || len(e.folders) > maxHwcaps || len(e.b) > MaxCache {
		return nil, fmt.Errorf("make ld.so.cache: %d libraries are too many", len(entries))
	}
	return e.b, nil
}

type encoder struct {
	b       []byte
	folders []string
}

// addString adds a string and returns its offset.
func (e *encoder) addString(s string) uint32 {
	at := len(e.b)
	e.b = append(append(e.b, s...), 0)
	return uint32(at)
}

// addStrings adds the strings of an entry. The name is usually the end of the path.
func (e *encoder) addStrings(entry Entry) (name, path uint32) {
	path = e.addString(entry.Path)
	if strings.HasSuffix(entry.Path, "/"+entry.Name) {
		return path + uint32(len(entry.Path)-len(entry.Name)), path
	}
	return e.addString(entry.Name), path
}

func (e *encoder) hwcap(entry Entry) uint64 {
	if entry.Folder == "" {
		return entry.Hwcap
	}
	index, _ := slices.BinarySearch(e.folders, entry.Folder)
	return extension | entry.Hwcap&levelMask | uint64(index)
}

// extension adds the names of the folders, and the generator of the cache.
func (e *encoder) extension(folders []uint32) {
	e.b = append(e.b, make([]byte, -len(e.b)&3)...)
	put := binary.NativeEndian
	put.PutUint32(e.b[32:], uint32(len(e.b)))
	sections := uint32(1)
	if len(folders) > 0 {
		sections = 2
	}
	at := uint32(len(e.b)) + extensionHeaderSize + sections*extensionSectionSize
	e.words(extensionMagic, sections)
	size := uint32(4 * len(folders))
	e.words(sectionGenerator, 0, at+size, uint32(len(Generator)))
	if len(folders) > 0 {
		e.words(sectionHwcaps, 0, at, size)
	}
	e.words(folders...)
	e.b = append(e.b, Generator...)
}

func (e *encoder) words(words ...uint32) {
	for _, w := range words {
		e.b = binary.NativeEndian.AppendUint32(e.b, w)
	}
}
