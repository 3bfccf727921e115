package module

import (
	"bytes"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/pkg/text"
)

var (
	errCutOff = errors.New("the file is truncated: copy it again")
	errNoELF  = errors.New("it is not a kernel module: an ELF file is expected, which may be compressed with xz, zstd or gzip")
)

// Read reads and parses the file of a module.
func Read(path string) (*Module, error) {
	data, err := hostfs.ReadFile(path, maxSize)
	if err != nil {
		return nil, fmt.Errorf("read module %s: %w", path, err)
	}
	return Parse(path, data)
}

// Parse parses the file of a module. name is the name of the file. It is used in errors, and as the name
// of a module that does not state one. Parse retains data.
func Parse(name string, data []byte) (*Module, error) {
	m, err := parse(name, data)
	if err != nil {
		return nil, fmt.Errorf("read module %s: %w", text.Printable(name), err)
	}
	return m, nil
}

func parse(name string, data []byte) (*Module, error) {
	data, err := decompressed(data, maxSize)
	if err != nil {
		return nil, err
	}
	body, sig, err := cutSignature(data)
	if err != nil {
		return nil, err
	}
	o, err := newObject(body)
	if err != nil {
		return nil, err
	}
	if extra := int64(len(body)) - int64(o.end()); sig == nil && extra > 0 { //nolint:gosec // Both are below maxSize.
		return nil, fmt.Errorf("the %d bytes after the module are not a complete signature: copy the file again", extra)
	}
	m := &Module{Machine: o.file.Machine, Signature: sig, Data: data}
	if err := m.readInfo(o); err != nil {
		return nil, err
	}
	note, err := o.section(".note.gnu.build-id")
	if err != nil {
		return nil, err
	}
	m.BuildID = BuildID(note)
	if m.Name == "" {
		m.Name = nameOf(name)
	}
	if !moduleName.MatchString(m.Name) {
		return nil, fmt.Errorf("it has the name %q: letters, digits and _ are expected", text.Cut(m.Name, maxName))
	}
	if m.Needs, err = versions(o); err != nil {
		return nil, err
	}
	return m, m.readSymbols(o)
}

// maxName is the largest length of a module's name, in bytes: the kernel's MODULE_NAME_LEN on 64-bit
// architectures, without the terminating zero.
const maxName = 55

var moduleName = regexp.MustCompile(`^[A-Za-z0-9_]{1,55}$`)

// nameOf derives the name of a module from the name of its file, like kmod.
func nameOf(file string) string {
	name, _, _ := strings.Cut(filepath.Base(file), ".")
	return strings.ReplaceAll(name, "-", "_")
}

// readInfo reads the section .modinfo, which has zero-terminated entries "key=value".
func (m *Module) readInfo(o *object) error {
	info, err := o.section(".modinfo")
	if err != nil {
		return err
	}
	if info == nil {
		return errors.New("it is not a kernel module: it has no section .modinfo")
	}
	params := map[string]int{}
	param := func(value string) (*Param, string) {
		name, rest, _ := strings.Cut(value, ":")
		i, ok := params[name]
		if !ok {
			i = len(m.Params)
			params[name] = i
			m.Params = append(m.Params, Param{Name: name})
		}
		return &m.Params[i], rest
	}
	for entry := range bytes.SplitSeq(info, []byte{0}) {
		key, value, _ := strings.Cut(string(entry), "=")
		value = text.Printable(value)
		switch key {
		case "name":
			m.Name = value
		case "version":
			m.Version = value
		case "srcversion":
			m.SrcVersion = value
		case "vermagic":
			m.Vermagic = strings.TrimSpace(value)
		case "license":
			m.License = value
		case "depends":
			m.Depends = append(m.Depends, splitNames(value)...)
		case "parm":
			param(value)
		case "parmtype":
			p, kind := param(value)
			p.Type = kind
		}
	}
	return nil
}

// BuildID returns the build ID in an ELF note, which the kernel shows in notes/.note.gnu.build-id of a loaded module.
func BuildID(note []byte) string {
	// Three numbers of four bytes, and the name "GNU" with its terminating zero.
	const header = 16
	if len(note) < header {
		return ""
	}
	return hex.EncodeToString(note[header:])
}

// ReadBuildID returns the build ID of a module, without reading its code. It returns "" for a compressed file, and for a
// file that cannot be read.
func ReadBuildID(path string) string {
	f, err := elf.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close() //nolint:errcheck // the file was only read
	s := f.Section(".note.gnu.build-id")
	if s == nil {
		return ""
	}
	note, err := s.Data()
	if err != nil {
		return ""
	}
	return BuildID(note)
}

// splitNames splits a comma-separated list of module names, and converts the names to the kernel's form.
func splitNames(value string) []string {
	return strings.FieldsFunc(strings.ReplaceAll(value, "-", "_"), func(r rune) bool { return r == ',' })
}

// supported reports whether this package can read modules for an architecture. All are 64-bit.
func supported(m elf.Machine) bool {
	return m == elf.EM_X86_64 || m == elf.EM_AARCH64 || m == elf.EM_PPC64 || m == elf.EM_RISCV || m == elf.EM_S390
}
