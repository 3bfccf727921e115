package smi

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
	"unsafe"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"
)

// sample is a node with a whole GPU that a process uses, a GPU in MIG mode, and one that
// does not answer.
func sample() node {
	pci := pciInfo{pciDeviceID: 0x233010de}
	copy(pci.id[:], "00000000:18:00.0")
	whole := device{
		gpu: gpu{index: 0, uuid: "GPU-8bbb9494-5201-4aac-b5ab-c80aa4f35eb4", name: "NVIDIA H100 80GB HBM3"},
		pci: some(pci), minor: some[uint32](0), architecture: some[uint32](9), serial: some("1650322000001"),
		persistence: some[uint32](1), temperature: some[uint32](32), performance: some[uint32](0),
		power: some[uint32](69250), powerLimit: some[uint32](700000),
		memory:      some(memory{total: 81559 << 20, reserved: 551 << 20, used: 1025 << 20, free: 79983 << 20}),
		utilization: some(utilization{gpu: 100, memory: 3}), eccErrors: some[uint64](0), computeMode: some[uint32](3),
		migMode: some[uint32](0), migPending: some[uint32](1), linkGeneration: some[uint32](5), linkWidth: some[uint32](16),
		graphicsClock: some[uint32](1980), smClock: some[uint32](1980), memoryClock: some[uint32](2619), videoClock: some[uint32](1545),
		processes: []process{{processInfo{4021, 1024 << 20, noInstance, noInstance}, "/usr/bin/a-program-with-a-very-long-name", "C"}},
	}
	divided := device{
		gpu:     gpu{index: 1, uuid: "GPU-2a2a2a2a-5201-4aac-b5ab-c80aa4f35eb4", name: "NVIDIA A100-SXM4-80GB with a name too long"},
		migMode: some[uint32](1), migPending: some[uint32](1),
		parts: []part{{
			migDevice:   migDevice{index: 0, uuid: "MIG-6f6f6f6f-5201-4aac-b5ab-c80aa4f35eb4"},
			gpuInstance: some[uint32](2), computeInstance: some[uint32](0),
			memory:     some(memory{total: 40448 << 20, used: 44 << 20, free: 40404 << 20}),
			attributes: some(attributes{sms: 60, copies: 4, decoders: 4, jpegs: 4}),
		}},
		processes: []process{{processInfo{77, 44 << 20, 2, 0}, "python", "M+C"}},
	}
	return node{
		attached: 3,
		time:     time.Date(2026, 11, 2, 9, 30, 0, 0, time.UTC), driver: "570.86.15", cuda: "12.8",
		devices: []device{whole, divided, {gpu: gpu{index: 2, err: errNoAnswer}}},
	}
}

var errNoAnswer = &nvmlError{"nvmlDeviceGetHandleByIndex_v2", 15, "GPU is lost"}

func TestTable(t *testing.T) {
	idle := sample()
	idle.devices = idle.devices[:1]
	idle.devices[0].processes = nil
	empty := sample()
	empty.devices = empty.devices[1:2]
	empty.devices[0].parts = nil
	for file, n := range map[string]node{"table.golden": sample(), "table-idle.golden": idle, "table-no-mig-device.golden": empty} {
		var out bytes.Buffer
		assert.NilError(t, n.writeTable(&out))
		golden.Assert(t, out.String(), file)
		for _, line := range strings.Split(strings.TrimSpace(out.String()), "\n")[1:] {
			if width := utf8.RuneCountInString(line); width != 0 && width != tableWidth+2 {
				t.Errorf("%s: a line is %d wide, want %d: %s", file, width, tableWidth+2, line)
			}
		}
	}
}

func TestLog(t *testing.T) {
	var out bytes.Buffer
	assert.NilError(t, sample().writeLog(&out))
	golden.Assert(t, out.String(), "log.golden")
}

// TestLicences prints the licences of a guest's virtual GPUs, one of which has two products.
func TestLicences(t *testing.T) {
	n := sample()
	vgpu := n.devices[0]
	vgpu.name, vgpu.processes = "NVIDIA H100-80C", nil
	of := func(features ...licence) device {
		all := licences{supported: 1, count: uint32(len(features))}
		copy(all.features[:], features)
		d := vgpu
		d.licences = some(all)
		return d
	}
	feature := func(licensed, enabled uint32, e expiry) licence {
		f := licence{licensed: licensed, enabled: enabled, expiry: e}
		copy(f.product[:], "NVIDIA Virtual Compute Server")
		return f
	}
	n.devices = []device{
		of(feature(0, 1, expiry{})), of(feature(1, 1, expiry{year: 2026, month: 1, day: 31, hour: 9, minute: 5, sec: 7, status: 2})),
		of(feature(1, 1, expiry{status: 4}), feature(1, 0, expiry{}), feature(1, 1, expiry{status: 3})), of(feature(1, 1, expiry{status: 1})),
	}
	var out bytes.Buffer
	assert.NilError(t, n.writeLog(&out))
	var sections []string
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "GPU ") || strings.Contains(line, "Licens") || strings.HasPrefix(line, "        Product Name") {
			sections = append(sections, line)
		}
	}
	golden.Assert(t, strings.Join(sections, ""), "licences.golden")
}

// The sizes are those of the structs in nvml.h, which the library fills in.
func TestSizesOfLicences(t *testing.T) {
	if got := [2]uintptr{unsafe.Sizeof(expiry{}), unsafe.Sizeof(licences{})}; got != [2]uintptr{16, 8 + 3*(8+2*128+4+16)} {
		t.Error(got)
	}
}
