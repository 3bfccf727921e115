package payload

import (
	"context"
	"io"

	"outrigger.dev/agents/driver-loader/internal/progress"
)

// The steps of an import, in their order.
const (
	// StepCopy: the source is read and unpacked.
	StepCopy = "copy"
	// StepSync: what was written goes to the disk.
	StepSync = "sync"
)

// meter counts the bytes that an import reads.
type meter struct {
	progress.Progress
	report func(progress.Progress)
}

// read adds bytes, and reports the sum. What an archive had in it is read again where it is copied to
// its place.
func (m *meter) read(n int) {
	m.Done = min(m.Done+n, m.Total)
	m.report(m.Progress)
}

// counted is a reader of the source, which ends with the import's context.
type counted struct {
	withContext
	*meter
}

func (f filler) reader(r io.Reader) io.Reader { return counted{withContext{f.ctx, r}, f.meter} }

func (r counted) Read(p []byte) (int, error) {
	n, err := r.withContext.Read(p)
	r.read(n)
	return n, err
}

// withContext is a reader that ends with ctx.
type withContext struct {
	ctx context.Context //nolint:containedctx // it has the life of one copy
	io.Reader
}

func (r withContext) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}
