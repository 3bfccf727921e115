package ldso_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"outrigger.dev/pkg/ldso"
)

func entries() []ldso.Entry {
	return []ldso.Entry{
		{Name: "libcuda.so.1", Path: "/usr/lib/x86_64-linux-gnu/libcuda.so.1", Flags: 0x303},
		{Name: "libcuda.so.1", Path: "/usr/local/cuda/compat/libcuda.so.1", Flags: 0x303},
		{Name: "libcuda.so.1", Path: "/usr/lib/i386-linux-gnu/libcuda.so.1", Flags: 0x3},
		{Name: "libx.so.9", Path: "/lib/libx.so.9", Flags: 0x303},
		{Name: "libx.so.10", Path: "/lib/libx.so.10.1", Flags: 0x303},
		{Name: "libx.so.10", Path: "/lib/glibc-hwcaps/x86-64-v3/libx.so.10.1", Flags: 0x303, Folder: "x86-64-v3", Hwcap: 3 << 32},
		{Name: "libx.so.10", Path: "/lib/glibc-hwcaps/x86-64-v2/libx.so.10.1", Flags: 0x303, Folder: "x86-64-v2"},
	}
}

func encode(t *testing.T, entries []ldso.Entry) []byte {
	t.Helper()
	data, err := ldso.Encode(entries)
	assert.NilError(t, err)
	return data
}

// The loader takes the first of equal entries, and the best folder of glibc-hwcaps.
func TestEncodeOrdersAsTheLoaderSearches(t *testing.T) {
	in := entries()
	want := []ldso.Entry{in[6], in[5], in[4], in[3], in[0], in[1], in[2]}
	got, err := ldso.Parse(encode(t, in))
	assert.NilError(t, err)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("Parse(Encode()) differs (-want +got):\n%s", d)
	}
	again := encode(t, got)
	if !bytes.Equal(again, encode(t, in)) {
		t.Error("encoding the parsed entries gives other bytes")
	}
}

func TestLdconfigReadsWhatEncodeWrites(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cache")
	assert.NilError(t, os.WriteFile(file, encode(t, entries()), 0o600))
	out, err := exec.CommandContext(t.Context(), "/sbin/ldconfig", "-p", "-C", file).CombinedOutput()
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("this machine has no ldconfig")
	}
	assert.NilError(t, err, "ldconfig -p\n%s", out)
	golden.Assert(t, strings.ReplaceAll(string(out), file, "CACHE"), "ldconfig-p.txt")
}

// The cache of this machine, written by its ldconfig, is the same after it was parsed
// and encoded: entry by entry.
func TestTheCacheOfThisMachineStaysTheSame(t *testing.T) {
	data, err := os.ReadFile("/etc/ld.so.cache")
	if err != nil {
		t.Skip("this machine has no /etc/ld.so.cache")
	}
	want, err := ldso.Parse(data)
	if err != nil || len(want) == 0 {
		t.Fatalf("Parse() = %d entries, %v", len(want), err)
	}
	got, err := ldso.Parse(encode(t, want))
	assert.NilError(t, err)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("entries differ (-want +got):\n%s", d)
	}
}

func TestCompare(t *testing.T) {
	for name, c := range map[string]struct {
		a, b string
		want int
	}{
		"numbers by value":               {"libx.so.10", "libx.so.9", 1},
		"a number comes after a letter":  {"lib1.so", "liba.so", 1},
		"a letter comes before a number": {"liba.so", "lib1.so", -1},
		"a longer name comes later":      {"libx.so.1", "libx.so", 1},
		"a shorter name comes first":     {"libx.so", "libx.so.1", -1},
		"equal names":                    {"libx.so.1", "libx.so.1", 0},
		"equal numbers":                  {"libx.so.01", "libx.so.1", 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ldso.Compare(c.a, c.b); got != c.want {
				t.Errorf("Compare(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
			}
		})
	}
}

// FuzzParse checks that a damaged cache is an error and never a panic, and that what is
// read can be written.
func FuzzParse(f *testing.F) {
	data, err := ldso.Encode(entries())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add(data[:len(data)/2])
	f.Add(append([]byte("ld.so-1.7.0\x00\x00\x00\x00\x00"), data...))
	f.Add([]byte("ld.so-1.7.0\x00\xff\xff\xff\xff"))
	for i := range 48 {
		damaged := bytes.Clone(data)
		damaged[i] = 0xff
		f.Add(damaged)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := ldso.Parse(data)
		if err != nil {
			if got != nil {
				t.Errorf("Parse() = %v with an error", got)
			}
			return
		}
		out, err := ldso.Encode(got)
		if err != nil {
			return
		}
		if again, err := ldso.Parse(out); err != nil || len(again) != len(got) {
			t.Errorf("%d entries were written, %d read again: %v", len(got), len(again), err)
		}
	})
}
