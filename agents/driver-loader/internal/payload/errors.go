package payload

import (
	"fmt"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/text"
)

// problem returns a Cause. It makes quoted text printable.
func problem(code cause.Code, subject, fix, format string, args ...any) cause.Cause {
	return cause.Cause{Code: code, Subject: text.Printable(subject), Text: text.Cut(text.Printable(fmt.Sprintf(format, args...)), 500), Fix: fix}
}

const fetchAgain = "copy it again, and compare its checksum with NVIDIA's"
