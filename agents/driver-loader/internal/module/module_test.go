package module_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/module"
)

// sample returns the decompressed module of testdata.
func sample(t testing.TB) []byte {
	t.Helper()
	m, err := module.Read("testdata/sample.ko.xz")
	assert.NilError(t, err)
	return slices.Clone(m.Data)
}

// signed appends a signature of testdata, as sign-file does.
func signed(t testing.TB, data []byte, signature string) []byte {
	t.Helper()
	sig, err := os.ReadFile(filepath.Join("testdata", signature))
	assert.NilError(t, err)
	return appendSignature(data, sig, 2)
}

func appendSignature(data, sig []byte, form byte) []byte {
	trailer := binary.BigEndian.AppendUint32([]byte{0, 0, form, 0, 0, 0, 0, 0}, uint32(len(sig)))
	return slices.Concat(data, sig, trailer, []byte("~Module signature appended~\n"))
}

func TestModuleSaysWhatItIs(t *testing.T) {
	m, err := module.Read("testdata/sample.ko.xz")
	assert.NilError(t, err)
	for name, tc := range map[string]struct{ got, want string }{
		"name":       {m.Name, "sample"},
		"version":    {m.Version, "1.2.3"},
		"srcversion": {m.SrcVersion, "492C46C9748A69C29458BDF"},
		"vermagic":   {m.Vermagic, "6.1.0-56-cloud-amd64 SMP preempt mod_unload modversions"},
		"license":    {m.License, "GPL"},
		"depends":    {strings.Join(m.Depends, "|"), ""},
		"undefined":  {strings.Join(m.Undefined[:4], " "), "__fentry__ __x86_return_thunk _printk param_array_ops"},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: %q, want %q", name, tc.got, tc.want)
		}
	}
	if m.Machine != elf.EM_X86_64 || m.Signature != nil {
		t.Errorf("machine %s, signature %v", m.Machine, m.Signature)
	}
	// The versions of Debian's Module.symvers.
	if m.Needs["_printk"] != 0x92997ed8 || m.Needs["module_layout"] == 0 || len(m.Needs) != len(m.Undefined)+1 {
		t.Errorf("needs %x", m.Needs)
	}
	if len(m.Provides) != 1 || m.Provides["sample_answer"] == 0 {
		t.Errorf("provides %x", m.Provides)
	}
	if !slices.Contains(m.Params, module.Param{Name: "truth", Type: "bool"}) ||
		!slices.Contains(m.Params, module.Param{Name: "list", Type: "array of int"}) || len(m.Params) != 15 {
		t.Errorf("parameters %+v", m.Params)
	}
}

func TestModuleIsReadInEachCompressedForm(t *testing.T) {
	plain := sample(t)
	for name, pack := range map[string]func(io.Writer) (io.WriteCloser, error){
		"gzip": func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil },
		"zstd": func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) },
		"xz":   func(w io.Writer) (io.WriteCloser, error) { return xz.NewWriter(w) },
	} {
		t.Run(name, func(t *testing.T) {
			packed := compress(t, plain, pack)
			m, err := module.Parse("other.ko", packed)
			assert.NilError(t, err)
			if !bytes.Equal(m.Data, plain) || m.Name != "sample" {
				t.Errorf("%s, %d bytes, want %d", m.Name, len(m.Data), len(plain))
			}
			for _, cut := range []int{8, len(packed) / 2, len(packed) - 1} {
				if _, err := module.Parse("a.ko", packed[:cut]); err == nil {
					t.Errorf("%d of %d bytes: no error", cut, len(packed))
				}
			}
		})
	}
}

func compress(t *testing.T, data []byte, pack func(io.Writer) (io.WriteCloser, error)) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := pack(&out)
	assert.NilError(t, err)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	assert.NilError(t, w.Close())
	return out.Bytes()
}

func TestSignatureTellsWhoSigned(t *testing.T) {
	for name, tc := range map[string]struct {
		file string
		want module.Signature
	}{
		"by issuer and serial number": {"issuer.p7s", module.Signature{Signer: "Sample signing key", KeyID: "0badcafe"}},
		"by the key's identifier":     {"key.p7s", module.Signature{ByKey: true, KeyID: "43044b8487970fb575b9353bd2f5fc2bdd9b2d2a"}},
	} {
		t.Run(name, func(t *testing.T) {
			data := signed(t, sample(t), tc.file)
			m, err := module.Parse("sample.ko", data)
			assert.NilError(t, err)
			if m.Signature == nil || *m.Signature != tc.want {
				t.Errorf("%+v, want %+v", m.Signature, tc.want)
			}
			if sha256.Sum256(m.Data) != sha256.Sum256(data) {
				t.Error("the data lacks the signature")
			}
		})
	}
}

// compressed returns a module whose section of a type claims to be compressed.
func compressed(t *testing.T, data []byte, of elf.SectionType) []byte {
	t.Helper()
	f, err := elf.NewFile(bytes.NewReader(data))
	assert.NilError(t, err)
	i := slices.IndexFunc(f.Sections, func(s *elf.Section) bool { return s.Type == of && s.Name != ".shstrtab" })
	header := int(binary.LittleEndian.Uint64(data[0x28:])) + i*64
	out := slices.Clone(data)
	out[header+9] |= byte(elf.SHF_COMPRESSED >> 8)
	return out
}

func TestBrokenFileIsRejectedWithTheCause(t *testing.T) {
	plain := sample(t)
	long := slices.Clone(signed(t, plain, "key.p7s"))
	binary.BigEndian.PutUint32(long[len(long)-32:], 1<<30)
	wide := slices.Clone(plain)
	wide[elf.EI_CLASS] = 1
	arm := slices.Clone(plain)
	binary.LittleEndian.PutUint16(arm[0x12:], uint16(elf.EM_68K))
	program := slices.Clone(plain)
	binary.LittleEndian.PutUint16(program[0x10:], uint16(elf.ET_EXEC))
	whole := signed(t, plain, "key.p7s")
	for name, tc := range map[string]struct {
		data []byte
		want string
	}{
		"empty":                      {nil, "not a kernel module"},
		"a text":                     {[]byte("#!/bin/sh\n"), "not a kernel module"},
		"a program":                  {program, "ET_EXEC"},
		"half":                       {plain[:len(plain)/2], "truncated"},
		"without the last byte":      {plain[:len(plain)-1], "truncated"},
		"the head alone":             {plain[:64], "truncated"},
		"compressed symbols":         {compressed(t, plain, elf.SHT_SYMTAB), `section ".symtab" is compressed`},
		"compressed names":           {compressed(t, plain, elf.SHT_STRTAB), `section ".strtab" is compressed`},
		"another processor":          {arm, "EM_68K"},
		"32 bits":                    {wide, "ELFCLASS32"},
		"half of the signature":      {whole[:len(plain)+100], "the 100 bytes after the module"},
		"without the mark's end":     {whole[:len(whole)-1], "bytes after the module"},
		"bytes after the signature":  {append(slices.Clone(whole), 0), "bytes after the module"},
		"a signature longer than it": {long, "longer than the file"},
		"the mark alone":             {[]byte("~Module signature appended~\n"), "truncated"},
		"an old signature":           {appendSignature(plain, []byte("x"), 1), "the format 1"},
		"a signature of noise":       {appendSignature(plain, []byte("noise"), 2), "parse its signature"},
		"no name":                    {bytes.Replace(plain, []byte("\x00name=sample\x00"), []byte("\x00name=a/b..\x20\x00"), 1), "it has the name"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := module.Parse("dir/sample.ko", tc.data)
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "dir/sample.ko") {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}

func TestNameIsThatOfTheFileWhereTheModuleHasNone(t *testing.T) {
	data := bytes.Replace(sample(t), []byte("\x00name=sample\x00"), []byte("\x00nome=sample\x00"), 1)
	m, err := module.Parse("/lib/nvidia-uvm.ko.zst", data)
	if err != nil || m.Name != "nvidia_uvm" {
		t.Errorf("%v, %v", m, err)
	}
}

func TestReadRejectsWhatIsNoFile(t *testing.T) {
	if _, err := module.Read(t.TempDir()); err == nil {
		t.Error("a folder was read")
	}
	if _, err := module.Read("testdata/none.ko"); err == nil || !strings.Contains(err.Error(), "none.ko") {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	plain := sample(f)
	packed, err := os.ReadFile("testdata/sample.ko.xz")
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range [][]byte{plain, packed, signed(f, plain, "key.p7s"), signed(f, plain, "issuer.p7s"), plain[:100]} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := module.Parse("fuzz.ko", data)
		if err != nil {
			return
		}
		if m.Name == "" || strings.ContainsAny(m.Name, "/.\n") || len(m.Data) == 0 {
			t.Errorf("the module %q of %d bytes was accepted", m.Name, len(m.Data))
		}
		if !slices.IsSorted(m.Undefined) {
			t.Error("undefined symbols are not in order")
		}
	})
}
