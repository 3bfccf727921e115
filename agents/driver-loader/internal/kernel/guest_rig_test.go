package kernel_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/kernel"
	"outrigger.dev/agents/driver-loader/internal/module"
	"outrigger.dev/pkg/cause"
)

// guest skips a test outside of the guests of test/qemu: it loads modules.
func guest(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("/guest/args"); err != nil {
		t.Skip("this machine has no kernel to load modules into: the test runs in a guest of test/qemu")
	}
}

// installed returns a module that is installed in the guest.
func installed(t *testing.T, name string) *module.Module {
	t.Helper()
	path := ""
	err := filepath.WalkDir("/lib/modules", func(at string, _ fs.DirEntry, err error) error {
		if filepath.Base(at) == name+".ko" {
			path = at
		}
		return err
	})
	if err != nil || path == "" {
		t.Fatalf("the guest lacks %s.ko: %v", name, err)
	}
	m, err := module.Read(path)
	assert.NilError(t, err)
	return m
}

// unsigned returns a module without its signature.
func unsigned(t *testing.T, m *module.Module) *module.Module {
	t.Helper()
	size := len(m.Data) - len("~Module signature appended~\n") - 12
	// The size of the signature ends the trailer.
	trailer := m.Data[size+8 : size+12]
	size -= int(trailer[0])<<24 | int(trailer[1])<<16 | int(trailer[2])<<8 | int(trailer[3])
	cut, err := module.Parse(m.Name+".ko", m.Data[:size:size])
	assert.NilError(t, err)
	return cut
}

// load loads a module, and unloads it when the test ends.
func load(t *testing.T, m *module.Module, params ...string) error {
	t.Helper()
	err := kernel.Syscalls{}.Load(t.Context(), m, params)
	if err == nil {
		t.Cleanup(func() {
			if err := (kernel.Syscalls{}).Unload(m.Name); err != nil && codeOf(err) != cause.ModuleNotLoaded {
				t.Error(err)
			}
		})
	}
	return err
}

func codeOf(err error) cause.Code {
	var c cause.Cause
	errors.As(err, &c)
	return c.Code
}

// expect fails the test unless err is a cause with that code, whose text has all parts.
func expect(t *testing.T, err error, code cause.Code, parts ...string) {
	t.Helper()
	if codeOf(err) != code {
		t.Errorf("%v, want %s", err, code)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%v, want %q", err, part)
		}
	}
}
