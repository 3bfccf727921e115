package pci

import (
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// VGPU holds the properties of a virtual GPU in the configuration space.
type VGPU struct {
	// Known is false if the list of capabilities cannot be read to its end. Without CAP_SYS_ADMIN
	// the kernel returns only the first 64 bytes.
	Known, Present bool
	// HostDriverVersion and HostDriverBranch describe the hypervisor's vGPU manager, such as
	// "460.16" and "r460_00"; "" if the hypervisor does not report them.
	HostDriverVersion, HostDriverBranch string
}

// The layout of the configuration space (PCI Local Bus Specification 3.0, chapter 6 and appendices
// D and H).
const (
	configSize = 256
	// headerSize is the number of bytes that an unprivileged reader gets. The capabilities follow
	// the header.
	headerSize      = 64
	statusAt        = 0x06
	statusHasList   = 1 << 4
	listAt          = 0x34
	vendorSpecific  = 0x09
	capabilityBytes = 4 // each capability begins at a multiple of this number
)

// The vendor-specific capability of a vGPU begins with ID, next and length. A signature and records
// follow. A record has an ID, a length that includes the ID and the length itself, and data. GPU
// feature discovery (internal/vgpu) reads the same layout.
const (
	vgpuSignature   = "VF"
	vgpuSignatureAt = 3
	vgpuRecordsAt   = 5
	recordHeader    = 2
	driverRecord    = 0
	driverTextSize  = 10
)

// readConfig returns the configuration space in a device's folder, or the part that this process
// may read.
func readConfig(dir string) []byte {
	f, err := os.Open(filepath.Join(dir, "config"))
	if err != nil {
		return nil
	}
	defer f.Close()
	buf := make([]byte, configSize)
	n, _ := io.ReadFull(f, buf) // the length of the result shows a short read
	return buf[:n]
}

// vgpu finds the capability of a vGPU in a configuration space. It validates everything, because a
// hypervisor wrote it.
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

// vgpuCapability reads the capability at the beginning of config, if it is the capability of a
// vGPU.
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

// plainText returns a field without the zeros that fill it, "" if it is not plain text.
func plainText(field []byte) string {
	s, _, _ := strings.Cut(string(field), "\x00")
	for _, c := range []byte(s) {
		if c <= ' ' || c > '~' {
			return ""
		}
	}
	return s
}
