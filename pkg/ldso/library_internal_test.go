package ldso

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
)

// Package debug/elf has the right answer for the libraries of this machine.
func TestReadLibraryAgreesWithDebugELF(t *testing.T) {
	checked := 0
	for _, dir := range []string{"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib/i386-linux-gnu", "/usr/lib32", "/usr/lib64", "/usr/lib"} {
		files, err := filepath.Glob(filepath.Join(dir, "lib*.so*"))
		assert.NilError(t, err)
		for _, name := range files[:min(len(files), 300)] {
			f, err := os.Open(name)
			if err != nil {
				continue
			}
			want, isLibrary := bySections(f)
			got, ok := ReadLibrary(f)
			if got != want || ok != isLibrary {
				t.Errorf("ReadLibrary(%s) = %v, %v, want %v, %v", name, got, ok, want, isLibrary)
			}
			if want.Soname != "" {
				checked++
			}
			f.Close()
		}
	}
	if checked == 0 {
		t.Skip("this machine has no library with a SONAME")
	}
}

func bySections(f *os.File) (Library, bool) {
	e, err := elf.NewFile(f)
	if err != nil || e.Type != elf.ET_DYN {
		return Library{}, false
	}
	lib := Library{Machine: Machine(e.Machine), Class: Class(e.Class)}
	if names, err := e.DynString(elf.DT_SONAME); err == nil && len(names) > 0 {
		lib.Soname = names[0]
	}
	return lib, true
}

// FuzzReadLibrary checks that a damaged library is never a panic, and never costs
// more than its bounds.
func FuzzReadLibrary(f *testing.F) {
	const headerSize, segmentSize, dynamicSize = 64, 56, 16
	library := make([]byte, headerSize+2*segmentSize+2*dynamicSize)
	copy(library, []byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB)})
	put := binary.LittleEndian
	put.PutUint16(library[16:], uint16(elf.ET_DYN))
	put.PutUint16(library[18:], uint16(elf.EM_X86_64))
	put.PutUint64(library[32:], headerSize)
	put.PutUint16(library[54:], segmentSize)
	put.PutUint16(library[56:], 2)
	load, dynamic := library[headerSize:], library[headerSize+segmentSize:]
	put.PutUint32(load, uint32(elf.PT_LOAD))
	put.PutUint64(load[32:], uint64(len(library)+5))
	put.PutUint32(dynamic, uint32(elf.PT_DYNAMIC))
	put.PutUint64(dynamic[8:], headerSize+2*segmentSize)
	put.PutUint64(dynamic[32:], 2*dynamicSize)
	entries := library[headerSize+2*segmentSize:]
	put.PutUint64(entries, uint64(elf.DT_SONAME))
	put.PutUint64(entries[dynamicSize:], uint64(elf.DT_STRTAB))
	put.PutUint64(entries[dynamicSize+8:], uint64(len(library)))
	library = append(library, "x.so\x00"...)
	if got, ok := ReadLibrary(bytes.NewReader(library)); got.Soname != "x.so" || got.Machine != X8664 || !ok {
		f.Fatalf("ReadLibrary() = %v, %v, want x.so", got, ok)
	}
	f.Add(library)
	f.Add(library[:len(library)-1])
	f.Add(library[:headerSize])
	for i := range library {
		damaged := bytes.Clone(library)
		damaged[i] = 0xff
		f.Add(damaged)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if got, ok := ReadLibrary(bytes.NewReader(data)); len(got.Soname) > maxSoname || got.Soname != "" && !ok {
			t.Errorf("ReadLibrary() = %v, %v", got, ok)
		}
	})
}
