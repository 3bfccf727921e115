package exposition

// XIDClass is the class of an error that the driver reports.
type XIDClass string

// The classes of errors.
const (
	// XIDApplication is an error that a program causes.
	XIDApplication XIDClass = "application"
	// XIDCritical is an error after which the GPU needs attention.
	XIDCritical XIDClass = "critical"
	// XIDOther is any other error.
	XIDOther XIDClass = "other"
)

// KnownXIDs returns the codes that have a metric with the value 0 before the first error, so that
// the first error is an increase. Alerts watch these codes.
func KnownXIDs() []uint64 {
	return []uint64{13, 31, 43, 45, 48, 62, 63, 64, 74, 79, 92, 94, 95, 119, 120}
}

// ClassOf returns the class of a code (NVIDIA's XID catalogue).
func ClassOf(code uint64) XIDClass {
	switch code {
	case 13, 31, 43, 45:
		return XIDApplication
	case 48, 62, 64, 74, 79, 95, 119, 120:
		return XIDCritical
	default:
		return XIDOther
	}
}

// meaning returns a short description of a code (NVIDIA's XID catalogue).
func meaning(code uint64) string {
	if text, ok := meanings()[code]; ok {
		return text
	}
	return "Unknown Error"
}

// meanings returns the descriptions of all known codes.
func meanings() map[uint64]string {
	return map[uint64]string{
		0:   "No Error",
		8:   "GPU stopped processing",
		13:  "Graphics Engine Exception",
		31:  "GPU memory page fault",
		32:  "Invalid or corrupted push buffer stream",
		38:  "Driver firmware error",
		43:  "GPU stopped processing",
		44:  "Graphics Engine fault during context switch",
		45:  "Preemptive cleanup, due to previous errors",
		48:  "Double Bit ECC Error",
		56:  "Display Engine error",
		61:  "Internal micro-controller breakpoint or warning",
		62:  "Internal micro-controller halt",
		63:  "ECC page retirement or row remapping recording event",
		64:  "ECC page retirement or row remapper recording failure",
		68:  "NVDEC0 Exception",
		69:  "Graphics Engine class error",
		74:  "NVLINK Error",
		79:  "GPU has fallen off the bus",
		92:  "High single-bit ECC error rate",
		94:  "Contained ECC error",
		95:  "Uncontained ECC error",
		109: "Context Switch Timeout Error",
		110: "Security Fault Error",
		119: "GSP RPC Timeout",
		120: "GSP Error",
		121: "C2C Link Error",
		136: "Link training failed",
		137: "NVLink FLA privilege error",
		140: "Unrecovered ECC Error",
		143: "GPU Initialization Failure",
		154: "GPU recovery action changed",
	}
}
