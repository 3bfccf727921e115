// Package progress reports the progress of work that takes minutes: imports and builds of drivers.
package progress

import (
	"fmt"
	"log/slog"
	"time"
)

// Progress is the progress of an import or a build.
type Progress struct {
	// Step is the current step.
	Step string
	// Done and Total measure the step. Total is an estimate until the end, or 0 if it is not known.
	Done, Total int
	// Bytes is set if Done and Total are in bytes.
	Bytes bool
	// Note describes the current item, such as a package that is fetched.
	Note string
	// Elapsed is the time since the work began.
	Elapsed time.Duration
}

// String formats the progress: "compile 12/80, 35s".
func (p Progress) String() string {
	text := p.Step
	switch {
	case p.Bytes:
		text += fmt.Sprintf(" %d/%d MiB", p.Done>>20, p.Total>>20)
	case p.Total > 0:
		text += fmt.Sprintf(" %d/%d", p.Done, p.Total)
	}
	if p.Note != "" {
		text += " " + p.Note
	}
	return text + ", " + p.Elapsed.Round(time.Second).String()
}

// Since returns a function that sets the Elapsed time of a Progress, counted from the parameter now, and
// then calls report. report may be nil.
func Since(now time.Time, report func(Progress)) func(Progress) {
	return func(p Progress) {
		if p.Elapsed = time.Since(now); report != nil {
			report(p)
		}
	}
}

// Log returns a function that logs each step, and each tenth of a step.
func Log(log *slog.Logger, message string) func(Progress) {
	last := Progress{}
	return func(p Progress) {
		if p.Step == last.Step && p.Note == last.Note && (p.Done == last.Done || p.Done < p.Total && p.Done-last.Done < max(p.Total/10, 1)) {
			return
		}
		last = p
		log.Info(message, "progress", p.String()) //nolint:sloglint // callers give constants
	}
}
