package pci

import (
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// VGPU is what the configuration space says about a virtual GPU.
type VGPU struct {
	// Known is false if the list of capabilities cannot be read to its end: without
	// CAP_SYS_ADMIN the kernel returns only the first 64 bytes.
	Known, Present bool
	// HostDriverVersion and HostDriverBranch are those of the hypervisor's vGPU
	// manager, such as "460.16" and "r460_00"; "" if it does not report them.
	HostDriverVersion, HostDriverBranch string
}

// The configuration space, as the PCI Local Bus Specification 3.0 has it in
// chapter 6 and appendices D and H.
const (
	configSize = 256
	// headerSize is what an unprivileged reader gets. The capabilities follow it.
	headerSize      = 64
	statusAt        = 0x06
	statusHasList   = 1 << 4
	listAt          = 0x34
	vendorSpecific  = 0x09
	capabilityBytes = 4 // each one begins at a multiple of it
)

// The vendor-specific capability of a vGPU has, behind id, next and length, a
// signature, and then records of an id, a length that counts itself and the id,
// and data. GPU feature discovery (internal/vgpu) reads it so.
const (
	vgpuSignature   = "VF"
	vgpuSignatureAt = 3
	vgpuRecordsAt   = 5
	recordHeader    = 2
	driverRecord    = 0
	driverTextSize  = 10
)

// readConfig returns the configuration space in a device's folder, as much of
// it as this process may read.
func readConfig(dir string) []byte {
	f, err := os.Open(filepath.Join(dir, "config"))
	if err != nil {
		return nil
	}
	defer f.Close()
	buf := make([]byte, configSize)
	n, _ := io.ReadFull(f, buf) // that it is shorter shows
	return buf[:n]
}

// vgpu finds the capability of a vGPU in a configuration space. It checks everything,
// because a hypervisor wrote it.
func vgpu(config []byte) VGPU {
	config = config[:min(len(config), configSize)]
	if len(config) < headerSize {
		return VGPU{}
	}
	status := binary.LittleEndian.Uint16(config[statusAt:])
	switch {
	case status == 0xffff: // a device that does not answer reads as ones
		return VGPU{}
	case status&statusHasList == 0:
		return VGPU{Known: true}
	}
	// A list cannot have more entries than there is room for capabilities.
	at := int(config[listAt])
	for range (configSize-headerSize)/capabilityBytes + 1 {
		if at == 0 {
			return VGPU{Known: true}
		}
		at &^= capabilityBytes - 1
		if at < headerSize || at+recordHeader >= len(config) || config[at] == 0xff {
			return VGPU{}
		}
		if c, ok := vgpuCapability(config[at:]); ok {
			return c
		}
		at = int(config[at+1])
	}
	return VGPU{} // the list is a circle
}

// vgpuCapability reads the capability at the begin of config, if it is that of
// a vGPU.
func vgpuCapability(config []byte) (VGPU, bool) {
	capability := config[:min(len(config), int(config[2]))]
	if len(capability) < vgpuRecordsAt || capability[0] != vendorSpecific ||
		string(capability[vgpuSignatureAt:vgpuRecordsAt]) != vgpuSignature {
		return VGPU{}, false
	}
	out := VGPU{Known: true, Present: true}
	records := capability[vgpuRecordsAt:]
	for len(records) >= recordHeader {
		size := int(records[1])
		if size < recordHeader || size > len(records) {
			break
		}
		if data := records[recordHeader:size]; records[0] == driverRecord && len(data) >= 2*driverTextSize {
			out.HostDriverVersion = plainText(data[:driverTextSize])
			out.HostDriverBranch = plainText(data[driverTextSize : 2*driverTextSize])
			break
		}
		records = records[size:]
	}
	return out, true
}

// plainText returns a field that is filled with zeros behind its end; "" if it is
// not plain text.
func plainText(field []byte) string {
	s, _, _ := strings.Cut(string(field), "\x00")
	for _, c := range []byte(s) {
		if c <= ' ' || c > '~' {
			return ""
		}
	}
	return s
}
