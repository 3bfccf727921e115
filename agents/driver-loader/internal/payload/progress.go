package payload

import (
	"context"
	"fmt"
	"io"
	"time"
)

// Step is a step of an import.
type Step string

// The steps, in their order.
const (
	// StepCopy: the source is read and unpacked.
	StepCopy Step = "copy"
	// StepSync: what was written goes to the disk.
	StepSync Step = "sync"
)

// Progress is where an import is.
type Progress struct {
	Step Step
	// Done and Total are bytes of the source. Total is the most that there can be.
	Done, Total int64
	// Elapsed is the time since the import began.
	Elapsed time.Duration
}

// String is the progress in a few words: "copy 412/1398 MiB, 12s".
func (p Progress) String() string {
	text := string(p.Step)
	if p.Step == StepCopy {
		text += fmt.Sprintf(" %d/%d MiB", p.Done>>20, p.Total>>20)
	}
	return text + ", " + p.Elapsed.Round(time.Second).String()
}

// meter counts what an import reads.
type meter struct {
	Progress
	report func(Progress)
	began  time.Time
}

func newMeter(total int64, report func(Progress)) *meter {
	if report == nil {
		report = func(Progress) {}
	}
	m := &meter{Progress: Progress{Total: total}, report: report, began: time.Now()}
	m.step(StepCopy)
	return m
}

func (m *meter) step(s Step) {
	m.Step = s
	m.tell()
}

func (m *meter) tell() {
	m.Elapsed = time.Since(m.began)
	m.report(m.Progress)
}

// counted is a reader of the source, which ends with the import's context.
type counted struct {
	withContext
	*meter
}

func (f filler) reader(r io.Reader) io.Reader { return counted{withContext{f.ctx, r}, f.progress} }

func (r counted) Read(p []byte) (int, error) {
	n, err := r.withContext.Read(p)
	// What an archive had in it is read again where it is copied to its place.
	r.Done = min(r.Done+int64(n), r.Total)
	r.tell()
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
