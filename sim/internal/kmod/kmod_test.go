package kmod

import (
	"bytes"
	"debug/elf"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/sim/internal/arch"
)

func TestAModuleSaysWhatItIs(t *testing.T) {
	for _, m := range Stack("580.95.05", "6.1.0-1-amd64") {
		m.Fails = syscall.EIO
		file, err := m.File()
		assert.NilError(t, err)
		got, err := Parse(file)
		assert.NilError(t, err)
		if m.Params == nil {
			m.Params = map[string]string{}
		}
		if diff := cmp.Diff(m, got, cmp.Comparer(func(a, b []string) bool { return cmp.Equal(append([]string{}, a...), append([]string{}, b...)) })); diff != "" {
			t.Error(diff)
		}
		f, err := elf.NewFile(bytes.NewReader(file))
		if err != nil || f.Type != elf.ET_REL || f.Machine != arch.Machine || f.Section(".symtab") == nil {
			t.Errorf("%+v, %v", f, err)
		}
		again, err := m.File()
		if err != nil || !bytes.Equal(file, again) {
			t.Errorf("%s: two files differ: %v", m.Name, err)
		}
	}
}

func TestAFileThatIsNoModuleIsRejected(t *testing.T) {
	library := func() []byte {
		m := Stack("1", "r")[0]
		file, err := m.File()
		assert.NilError(t, err)
		return bytes.ReplaceAll(file, []byte(".modinfo"), []byte(".no-info"))
	}
	for name, file := range map[string][]byte{"empty": nil, "text": []byte("#!/bin/sh\n"), "without .modinfo": library()} {
		if m, err := Parse(file); err == nil {
			t.Errorf("%s: %+v", name, m)
		}
	}
}
