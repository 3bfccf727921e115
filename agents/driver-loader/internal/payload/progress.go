package payload

import (
	"io"

	"outrigger.dev/agents/driver-loader/internal/progress"
	"outrigger.dev/pkg/pace"
)

// The steps of an import, in order.
const (
	// StepCopy reads and unpacks the source.
	StepCopy = "copy"
	// StepSync writes the files to the disk.
	StepSync = "sync"
)

// meter counts the bytes that an import reads.
type meter struct {
	progress.Progress
	report func(progress.Progress)
}

// read adds bytes, and reports the sum. The sum is limited to the size of the source, because the content
// of an archive is read again when it is copied to its place.
func (m *meter) read(n int) {
	m.Done = min(m.Done+n, m.Total)
	m.report(m.Progress)
}

// counted is a counting reader of the source. It fails after ctx ends.
type counted struct {
	io.Reader
	*meter
}

func (f filler) reader(r io.Reader) io.Reader { return counted{pace.Reader(f.ctx, r), f.meter} }

func (r counted) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.read(n)
	return n, err
}
