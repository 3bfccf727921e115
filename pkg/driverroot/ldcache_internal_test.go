package driverroot

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// FuzzParseCache checks that a damaged cache is an error and never a panic.
func FuzzParseCache(f *testing.F) {
	entry := append([]byte(newMagic), make([]byte, newHeaderSize-len(newMagic))...)
	binary.NativeEndian.PutUint32(entry[20:], 1)
	entry = binary.NativeEndian.AppendUint32(entry, 0x0303)
	entry = binary.NativeEndian.AppendUint32(entry, newHeaderSize+newEntrySize)
	entry = binary.NativeEndian.AppendUint32(entry, newHeaderSize+newEntrySize)
	entry = append(entry, make([]byte, 12)...)
	entry = append(entry, "/usr/lib64/libcuda.so.1\x00"...)
	f.Add(entry)
	f.Add(entry[:len(entry)-1])
	f.Add([]byte(oldMagic + "\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		libs, err := parseCache(data, 0x0300)
		if err != nil && libs != nil {
			t.Errorf("parseCache() = %q, %v, want no paths with an error", libs, err)
		}
		for _, l := range libs {
			if bytes.ContainsRune(l, 0) {
				t.Errorf("path %q contains a NUL", l)
			}
		}
	})
}
