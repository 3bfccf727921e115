package exposition

import (
	"cmp"

	"outrigger.dev/pkg/health"
)

// XIDClass is the class of an error that the driver reports.
type XIDClass string

// The classes of errors.
const (
	// XIDApplication is an error after which the program on the GPU has to be started again.
	XIDApplication XIDClass = "application"
	// XIDCritical is an error after which the GPU needs a reset, or the node a reboot.
	XIDCritical XIDClass = "critical"
	// XIDOther is any other error.
	XIDOther XIDClass = "other"
)

// KnownXIDs returns the codes that have a metric with the value 0 before the first error, so that
// the first error is an increase. Alerts watch these codes.
func KnownXIDs() []uint64 {
	return []uint64{13, 31, 43, 45, 48, 62, 63, 64, 74, 79, 92, 94, 95, 119, 120}
}

// ClassOf returns the class of a code. A code is critical if NVIDIA's catalogue asks for a reset of the
// GPU or a reboot of the node. Codes 43 and 45 follow from a program that ends, and 94 is a memory error
// that one program notices. xidRecoveryAction is not critical, because the driver sends it together with
// the code of the fault.
func ClassOf(code uint64) XIDClass {
	action, _ := health.LookUpXID(code)
	switch {
	case code == 43, code == 45:
		return XIDApplication
	case code == 94, code == xidRecoveryAction:
		return XIDOther
	case action == health.RestartApp:
		return XIDApplication
	case action == health.Reset, action == health.Reboot:
		return XIDCritical
	default:
		return XIDOther
	}
}

// xidRecoveryAction is the code of a change of the recovery action.
const xidRecoveryAction = 154

// meaning returns a short description of a code: the text of NVIDIA's exporter, or else the text of the
// catalogue.
func meaning(code uint64) string {
	if text, ok := meanings()[code]; ok {
		return text
	}
	_, text := health.LookUpXID(code)
	return cmp.Or(text, "Unknown Error")
}

// meanings returns the descriptions that NVIDIA's exporter has.
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
