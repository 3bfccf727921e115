package driverroot

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
)

// Package debug/elf has the right answer for the libraries of this machine.
func TestReadSonameAgreesWithDebugELF(t *testing.T) {
	checked := 0
	for _, dir := range append(LoaderDirs(), "/usr/lib") {
		files, err := filepath.Glob(filepath.Join(dir, "lib*.so*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files[:min(len(files), 300)] {
			f, err := os.Open(name)
			if err != nil {
				continue
			}
			want, isLibrary := bySections(f)
			got, ok := readSoname(f, thisArch().machine)
			if got != want || ok != isLibrary {
				t.Errorf("readSoname(%s) = %q, %v, want %q, %v", name, got, ok, want, isLibrary)
			}
			if want != "" {
				checked++
			}
			f.Close()
		}
	}
	if checked == 0 {
		t.Skip("there is no library with a SONAME on this machine")
	}
}

func bySections(f *os.File) (string, bool) {
	e, err := elf.NewFile(f)
	if err != nil || e.Machine != thisArch().machine || e.Type != elf.ET_DYN {
		return "", false
	}
	names, err := e.DynString(elf.DT_SONAME)
	if err != nil || len(names) == 0 {
		return "", true
	}
	return names[0], true
}

// FuzzReadSoname checks that a damaged library is never a panic, and never costs
// more than its bounds.
func FuzzReadSoname(f *testing.F) {
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
	if got, ok := readSoname(bytes.NewReader(library), elf.EM_X86_64); got != "x.so" || !ok {
		f.Fatalf("readSoname() = %q, %v, want x.so", got, ok)
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
		if got, ok := readSoname(bytes.NewReader(data), elf.EM_X86_64); len(got) > maxSoname || got != "" && !ok {
			t.Errorf("readSoname() = %q, %v", got, ok)
		}
	})
}
