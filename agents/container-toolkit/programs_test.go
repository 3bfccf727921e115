package main

import (
	"debug/buildinfo"
	"debug/elf"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/container-toolkit/internal/gpus"
)

// maxProgram is the size of a program in bytes. The agent copies the tools to each node, and
// containers wait for their start.
const maxProgram = 12_000_000

// The programs in bin, as make build makes them, are small; the tools need no libc, no
// loader and no other file of the host.
func TestProgramsAreSmallAndStatic(t *testing.T) {
	bin := os.Getenv("OUTRIGGER_BIN")
	if bin == "" {
		bin = "../../bin"
	}
	tools, err := filepath.Glob("tools/*")
	if err != nil || len(tools) == 0 {
		t.Fatal(tools, err)
	}
	for _, name := range append(tools, gpus.Program) {
		name = filepath.Base(name)
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(bin, name)
			info, err := os.Stat(path)
			if err != nil {
				t.Skipf("bin/%s is missing: build it with `make build`, or point OUTRIGGER_BIN to it", name)
			}
			if info.Size() > maxProgram {
				t.Errorf("%s has %d bytes, at most %d are allowed: go tool nm -size -sort=size shows what is in it", path, info.Size(), maxProgram)
			}
			if name != gpus.Program {
				checkStatic(t, path)
			}
		})
	}
}

func checkStatic(t *testing.T, path string) {
	t.Helper()
	f, err := elf.Open(path)
	assert.NilError(t, err)
	defer f.Close()
	if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC }) {
		t.Errorf("%s is linked dynamically", path)
	}
	info, err := buildinfo.ReadFile(path)
	assert.NilError(t, err)
	for _, s := range info.Settings {
		if s.Key == "CGO_ENABLED" && s.Value != "0" {
			t.Errorf("%s is built with cgo", path)
		}
	}
}
