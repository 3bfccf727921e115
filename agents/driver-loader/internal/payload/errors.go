package payload

import (
	"fmt"

	"outrigger.dev/agents/driver-loader/internal/cause"
	"outrigger.dev/pkg/text"
)

// The codes of what can be wrong with a payload.
const (
	// Missing is a folder or file that has no driver in it.
	Missing cause.Code = "PayloadMissing"
	// Truncated is an archive that ends too early.
	Truncated cause.Code = "PayloadTruncated"
	// Corrupt is content that differs from its digest, or that is no archive.
	Corrupt cause.Code = "PayloadCorrupt"
	// Hostile is an archive that leaves its folder or has no bounds.
	Hostile cause.Code = "PayloadRejected"
	// WrongMachine is a driver for other processors.
	WrongMachine cause.Code = "WrongArchitecture"
)

// problem returns a Cause. The text may quote what others wrote.
func problem(code cause.Code, subject, fix, format string, args ...any) cause.Cause {
	return cause.Cause{Code: code, Subject: text.Printable(subject), Text: text.Cut(text.Printable(fmt.Sprintf(format, args...)), 500), Fix: fix}
}

const fetchAgain = "copy it again, and compare its checksum with NVIDIA's"
