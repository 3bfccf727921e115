// Package kmod makes and reads kernel modules without code. They are ELF files that only have the
// metadata of a module. The simulated kernel loads them.
package kmod

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"outrigger.dev/sim/internal/arch"
)

// Module has the metadata in the section .modinfo of a module.
type Module struct {
	Name, Version, SrcVersion, License string
	// Vermagic begins with the kernel release that the module was built for.
	Vermagic string
	// Depends has the modules that must be loaded first.
	Depends []string
	// Params maps the names of parameters to their types.
	Params map[string]string
	// Fails is the error of the initialization, or 0.
	Fails syscall.Errno
}

// Stack returns the modules of a driver for a kernel release, in load order. They have the licenses of NVIDIA's open
// modules.
func Stack(version, release string) []Module {
	modules := []Module{
		{Name: "nvidia", Params: map[string]string{"NVreg_EnableGpuFirmware": "int", "NVreg_RegistryDwords": "charp", "sim_init_errno": "int"}},
		{Name: "nvidia_uvm", Depends: []string{"nvidia"}, Params: map[string]string{"uvm_debug_prints": "int"}},
		{Name: "nvidia_modeset", Depends: []string{"nvidia"}},
		{Name: "nvidia_drm", Depends: []string{"nvidia_modeset"}, Params: map[string]string{"modeset": "bool"}},
		{Name: "nvidia_peermem", Depends: []string{"nvidia"}, License: "Linux-OpenIB"},
	}
	for i := range modules {
		m := &modules[i]
		m.Version, m.License, m.Vermagic = version, cmp.Or(m.License, "Dual MIT/GPL"), release+" SMP preempt mod_unload"
		m.SrcVersion = fmt.Sprintf("%024X", crc32.ChecksumIEEE([]byte(m.Name+version)))
	}
	return modules
}

// Taint returns the flags that the kernel shows for an unsigned module that is not a part of the kernel. "P" stands for a
// license that is not compatible with the kernel's.
func (m Module) Taint() string {
	if strings.Contains(m.License, "GPL") {
		return "OE"
	}
	return "POE"
}

// The sections of a module file, in order.
const (
	names      = "\x00.modinfo\x00.symtab\x00.strtab\x00.shstrtab\x00"
	headerSize = 64
	entrySize  = 64
	symbolSize = 24
	alignment  = 8
)

// File returns the content of the module file.
func (m Module) File() ([]byte, error) {
	info := []byte(m.modinfo())
	var b bytes.Buffer
	at := uint64(headerSize)
	sections := []elf.Section64{{}}
	add := func(name string, kind elf.SectionType, data []byte, more elf.Section64) {
		for at%alignment != 0 {
			b.WriteByte(0)
			at++
		}
		more.Name, more.Type, more.Off = uint32(strings.Index(names, name)), uint32(kind), at //nolint:gosec // a few bytes
		more.Size, more.Addralign = uint64(len(data)), alignment
		sections = append(sections, more)
		b.Write(data)
		at += uint64(len(data))
	}
	const strtab, shstrtab = 3, 4
	add(".modinfo", elf.SHT_PROGBITS, info, elf.Section64{Flags: uint64(elf.SHF_ALLOC)})
	add(".symtab", elf.SHT_SYMTAB, make([]byte, symbolSize), elf.Section64{Link: strtab, Info: 1, Entsize: symbolSize})
	add(".strtab", elf.SHT_STRTAB, []byte{0}, elf.Section64{})
	add(".shstrtab", elf.SHT_STRTAB, []byte(names), elf.Section64{})
	for at%alignment != 0 {
		b.WriteByte(0)
		at++
	}
	header := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_REL), Machine: uint16(arch.Machine), Version: uint32(elf.EV_CURRENT),
		Shoff: at, Ehsize: headerSize, Shentsize: entrySize, Shnum: uint16(len(sections)), Shstrndx: shstrtab, //nolint:gosec // five
	}
	var out bytes.Buffer
	for _, part := range []any{header, b.Bytes(), sections} {
		if err := binary.Write(&out, binary.LittleEndian, part); err != nil {
			return nil, fmt.Errorf("write module %s: %w", m.Name, err)
		}
	}
	return out.Bytes(), nil
}

func (m Module) modinfo() string {
	lines := []string{
		"name=" + m.Name, "version=" + m.Version, "srcversion=" + m.SrcVersion, "license=" + m.License,
		"vermagic=" + m.Vermagic, "depends=" + strings.Join(m.Depends, ","),
	}
	if m.Fails != 0 {
		lines = append(lines, "sim_init_errno="+strconv.Itoa(int(m.Fails)))
	}
	for _, name := range slices.Sorted(maps.Keys(m.Params)) {
		lines = append(lines, "parmtype="+name+":"+m.Params[name])
	}
	return strings.Join(lines, "\x00") + "\x00"
}

// Parse parses the content of a module file. It also accepts compiled modules.
func Parse(file []byte) (Module, error) {
	f, err := elf.NewFile(bytes.NewReader(file))
	if err != nil {
		return Module{}, fmt.Errorf("read module: %w", err)
	}
	section := f.Section(".modinfo")
	if section == nil {
		return Module{}, errors.New("read module: it has no section .modinfo")
	}
	data, err := section.Data()
	if err != nil {
		return Module{}, fmt.Errorf("read module: %w", err)
	}
	m := Module{Params: map[string]string{}}
	for line := range strings.SplitSeq(string(data), "\x00") {
		if err := m.set(line); err != nil {
			return Module{}, err
		}
	}
	return m, nil
}

// set stores a line of .modinfo.
func (m *Module) set(line string) error {
	key, value, _ := strings.Cut(line, "=")
	switch key {
	case "name":
		m.Name = value
	case "version":
		m.Version = value
	case "srcversion":
		m.SrcVersion = value
	case "license":
		m.License = value
	case "vermagic":
		m.Vermagic = value
	case "depends":
		m.Depends = strings.FieldsFunc(value, func(r rune) bool { return r == ',' })
	case "parmtype":
		name, kind, _ := strings.Cut(value, ":")
		m.Params[name] = kind
	case "sim_init_errno":
		n, err := strconv.Atoi(value)
		if err != nil {
			return fmt.Errorf("read module: sim_init_errno: %w", err)
		}
		m.Fails = syscall.Errno(n)
	}
	return nil
}
