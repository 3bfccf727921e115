package cdihook

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/container-toolkit/internal/ldcache"
	"outrigger.dev/agents/container-toolkit/internal/rootfs"
)

// withNote returns a library with a note of NVIDIA, as readelf -p shows it.
func withNote(text string) []byte {
	const name = "NVIDIA Corporation\x00"
	sections := "\x00.note.cuda.fwd_compatibility\x00.shstrtab\x00"
	note := binary.LittleEndian.AppendUint32(nil, uint32(len(name)))
	note = binary.LittleEndian.AppendUint32(note, uint32(len(text)))
	note = binary.LittleEndian.AppendUint32(note, 1)
	note = append(note, name...)
	note = append(note, make([]byte, -len(note)&3)...)
	note = append(note, text...)
	var b bytes.Buffer
	at := uint64(64)
	for _, part := range []any{
		elf.Header64{
			Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
			Type:  uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT),
			Shoff: at + uint64(len(note)+len(sections)), Ehsize: 64, Shentsize: 64, Shnum: 3, Shstrndx: 2,
		},
		note, []byte(sections),
		elf.Section64{},
		elf.Section64{Name: 1, Type: uint32(elf.SHT_NOTE), Off: at, Size: uint64(len(note)), Addralign: 4},
		elf.Section64{Name: 30, Type: uint32(elf.SHT_STRTAB), Off: at + uint64(len(note)), Size: uint64(len(sections)), Addralign: 1},
	} {
		_ = binary.Write(&b, binary.LittleEndian, part)
	}
	return b.Bytes()
}

func openImage(t testing.TB, files map[string]string) (*rootfs.Root, string) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		p := filepath.Join(dir, name)
		assert.NilError(t, os.MkdirAll(filepath.Dir(p), 0o755))
		assert.NilError(t, os.WriteFile(p, []byte(content), 0o644))
	}
	root, err := rootfs.Open(dir)
	assert.NilError(t, err)
	t.Cleanup(func() { root.Close() })
	return root, dir
}

func TestCompat(t *testing.T) {
	note := string(withNote(`{"Format":1,"CUDA Version":"13.0","Driver":[535,550,570],"Device":[80]}`))
	const lib = "usr/local/cuda/compat/libcuda.so."
	for name, c := range map[string]struct {
		compat Compat
		files  map[string]string
		use    bool
		warn   string
	}{
		"an image without the libraries": {compat: Compat{Driver: "550.54.14"}},
		"a later major version":          {compat: Compat{Driver: "550.54.14"}, files: map[string]string{lib + "575.57.08": "\x7fELF"}, use: true, warn: "not used"},
		"the same major version":         {compat: Compat{Driver: "575.10"}, files: map[string]string{lib + "575.57.08": ""}, warn: "EOF"},
		"an earlier major version":       {compat: Compat{Driver: "580.95.05"}, files: map[string]string{lib + "575.57.08": ""}, warn: "EOF"},
		"numbers, not text":              {compat: Compat{Driver: "1000.1"}, files: map[string]string{lib + "575.57.08": ""}, warn: "EOF"},
		"no version of the host":         {files: map[string]string{lib + "575.57.08": ""}},
		"a version that is none":         {compat: Compat{Driver: "unknown"}, files: map[string]string{lib + "575.57.08": ""}, warn: "EOF"},
		"two libraries": {
			compat: Compat{Driver: "550.54.14"}, files: map[string]string{lib + "575.57.08": "", lib + "580.1.2": ""},
			warn: "several versions in /usr/local/cuda/compat: libcuda.so.575.57.08, libcuda.so.580.1.2",
		},
		"a note that names the driver":              {compat: Compat{Driver: "550.54.14"}, files: map[string]string{lib + "580.1.2": note}, use: true},
		"a note that does not name the driver":      {compat: Compat{Driver: "560.1"}, files: map[string]string{lib + "580.1.2": note}},
		"a note, but the host's driver is later":    {compat: Compat{Driver: "570.9.9"}, files: map[string]string{lib + "570.1.2": note}},
		"a note, the host's driver is a bit before": {compat: Compat{Driver: "570.1.1"}, files: map[string]string{lib + "570.1.2": note}, use: true},
		"a note with a later CUDA":                  {compat: Compat{CUDA: "12.8"}, files: map[string]string{lib + "580.1.2": note}, use: true},
		"a note with the same CUDA":                 {compat: Compat{CUDA: "13"}, files: map[string]string{lib + "580.1.2": note}},
		"CUDA without a note":                       {compat: Compat{Driver: "550.1", CUDA: "12.8"}, files: map[string]string{lib + "580.1.2": ""}, warn: "EOF"},
		"a note that is no JSON":                    {compat: Compat{Driver: "550.1"}, files: map[string]string{lib + "580.1.2": string(withNote("{"))}, use: true, warn: "not used"},
		"another folder":                            {compat: Compat{Driver: "550.1", Folder: "/opt/compat"}, files: map[string]string{"opt/compat/libcuda.so.580.1.2": note}, use: true},
	} {
		t.Run(name, func(t *testing.T) {
			root, dir := openImage(t, c.files)
			assert.NilError(t, root.WriteFile(ldcache.CompatConf, []byte("/before\n"), 0o644))
			var warnings []string
			assert.NilError(t, c.compat.enable(root, func(w string) { warnings = append(warnings, w) }))
			got, err := os.ReadFile(filepath.Join(dir, ldcache.CompatConf))
			want := ""
			switch {
			case c.use && c.compat.Folder != "":
				want = c.compat.Folder + "\n"
			case c.use:
				want = defaultCompat + "\n"
			case !c.compat.wanted():
				want = "/before\n"
			}
			if string(got) != want || (want == "") != errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s = %q, %v, want %q", ldcache.CompatConf, got, err, want)
			}
			if all := strings.Join(warnings, "\n"); (all != "") != (c.warn != "") || !strings.Contains(all, c.warn) {
				t.Errorf("warnings = %q, want %q", all, c.warn)
			}
		})
	}
}

// FuzzReadNote checks that no library of an image makes the hook panic.
func FuzzReadNote(f *testing.F) {
	library := withNote(`{"CUDA Version":"13.0","Driver":[535]}`)
	f.Add(library)
	for i := range library {
		damaged := bytes.Clone(library)
		damaged[i] ^= 0xff
		f.Add(damaged)
	}
	f.Fuzz(func(_ *testing.T, data []byte) {
		n, err := readCompatNote(bytes.NewReader(data))
		if err == nil {
			Compat{Driver: "550.1", CUDA: "12.8"}.later("580.1.2", n)
		}
	})
}

func TestWithoutModification(t *testing.T) {
	for in, want := range map[string]string{
		"Mobile: 0\nModifyDeviceFiles: 1\nDeviceFileMode: 438\n": "Mobile: 0\nModifyDeviceFiles: 0\nDeviceFileMode: 438\n",
		"ModifyDeviceFiles: 1":    "ModifyDeviceFiles: 0",
		"ModifyDeviceFiles: 0\n":  "ModifyDeviceFiles: 0\n",
		"XModifyDeviceFiles: 1\n": "XModifyDeviceFiles: 1\n",
	} {
		if got := WithoutModification(in); got != want {
			t.Errorf("WithoutModification(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestEnvironment(t *testing.T) {
	for name, c := range map[string]struct {
		in   []string
		keep int
		more bool
	}{
		"that of CDI specs":      {in: []string{"NVIDIA_CTK_DEBUG=false"}, keep: 1},
		"none":                   {},
		"that of a container":    {in: []string{"NVIDIA_CTK_DEBUG=true", "LD_PRELOAD=/proc/self/cwd/poc.so"}, keep: 1, more: true},
		"of the Go runtime":      {in: []string{"GODEBUG=inittrace=1"}, more: true},
		"a value that is not ok": {in: []string{"NVIDIA_CTK_DEBUG=/tmp"}, more: true},
	} {
		t.Run(name, func(t *testing.T) {
			if keep, more := environment(c.in); len(keep) != c.keep || more != c.more {
				t.Errorf("environment() = %q, %v", keep, more)
			}
		})
	}
}
