package smi

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unsafe" // cgo passes results as unsafe.Pointer
)

// capabilities has the letters of topo -p2p, in the order of nvmlGpuP2PCapsIndex_t: read, write, NVLink, atomics, PCIe.
const capabilities = "rwnap"

const statusLegend = `
Legend:

  X    = Self
  OK   = Status Ok
  CNS  = Chipset not supported
  GNS  = GPU not supported
  TNS  = Topology not supported
  NS   = Not supported
  U    = Unknown
`

// writeP2P prints the matrix of nvidia-smi topo -p2p.
func (q query) writeP2P(lib *library, out io.Writer) error {
	readers, faults := q.readers(lib)
	if faults != nil && len(readers) == 0 {
		return faults
	}
	var b strings.Builder
	b.WriteString(" \t")
	for _, r := range readers {
		fmt.Fprintf(&b, "GPU%d\t", r.gpu.index)
	}
	b.WriteString("\n")
	for _, r := range readers {
		fmt.Fprintf(&b, " GPU%d\t", r.gpu.index)
		for _, other := range readers {
			b.WriteString(q.status(r, other) + "\t")
		}
		b.WriteString("\n")
	}
	b.WriteString(statusLegend)
	_, err := io.WriteString(out, b.String())
	return errors.Join(faults, err)
}

// status returns the word for the status of a capability of two GPUs.
func (q query) status(a, b *reader) string {
	if a.handle == b.handle {
		return "X"
	}
	var status uint32
	index := uint32(strings.Index(capabilities, q.capability)) //nolint:gosec // checked by topology
	if a.lib.pairValueAt(a.handle, b.handle, "nvmlDeviceGetP2PStatus", index, unsafe.Pointer(&status)) != nil {
		return "U"
	}
	// nvmlGpuP2PStatus_t. The legend has no word for "disabled by regkey", 4.
	words := []string{"OK", "CNS", "GNS", "TNS", "U", "NS"}
	if int(status) >= len(words) {
		return "U"
	}
	return words[status]
}
