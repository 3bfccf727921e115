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
	// Elapsed is the time since the work began. Left is the estimated time until the end of the work,
	// or 0 if it is not known.
	Elapsed, Left time.Duration
}

// String formats the progress: "compile 12/80, 35s, about 3m left".
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
	text += ", " + p.Elapsed.Round(time.Second).String()
	if p.Left > 0 {
		text += ", about " + rounded(p.Left) + " left"
	}
	return text
}

// rounded formats an estimated duration: in minutes from 2 minutes on, else in steps of 10 seconds.
func rounded(d time.Duration) string {
	const minutes = 2 * time.Minute
	if d >= minutes {
		return fmt.Sprintf("%.0fm", d.Minutes())
	}
	return max(d.Round(10*time.Second), 10*time.Second).String() //nolint:mnd // an estimate
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

// Log returns a function that logs each step, and each tenth of a step. Steps may alternate. A time that is
// shorter than before begins other work.
func Log(log *slog.Logger, message string) func(Progress) {
	logged := map[string]Progress{}
	var elapsed time.Duration
	return func(p Progress) {
		if p.Elapsed < elapsed {
			clear(logged)
		}
		elapsed = p.Elapsed
		last, begun := logged[p.Step]
		if begun && p.Note == last.Note && (p.Done == last.Done || p.Done < p.Total && p.Done-last.Done < max(p.Total/10, 1)) {
			return
		}
		logged[p.Step] = p
		log.Info(message, "progress", p.String()) //nolint:sloglint // callers give constants
	}
}
