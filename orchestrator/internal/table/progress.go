package table

import (
	"fmt"
	"sync"
	"time"
)

// patience is how long a command may take before it prints its progress.
const patience = 2 * time.Second

// Progress says on stderr what a command does, if the command takes longer than patience. On a terminal it rewrites one
// line. Otherwise it prints one line for each step. Its methods are safe for concurrent use.
type Progress struct {
	out   Out
	timer *time.Timer

	mu sync.Mutex
	// step is the current step, and shown says that steps are printed.
	step  string
	shown bool
}

// NewProgress begins to measure the time. End must be called before anything else is printed to the same terminal.
func NewProgress(out Out) *Progress {
	p := &Progress{out: out}
	p.timer = time.AfterFunc(patience, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.shown = true
		p.print()
	})
	return p
}

// Step sets the current step, such as "reads pods".
func (p *Progress) Step(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	step := fmt.Sprintf(format, args...)
	if step == p.step {
		return
	}
	p.step = step
	if p.shown {
		p.print()
	}
}

// print prints the current step. An error is ignored, because the command does not depend on its progress.
func (p *Progress) print() {
	switch {
	case p.step == "":
	case p.out.Terminal():
		_, _ = fmt.Fprintf(p.out, "\r\x1b[K%s", cut(p.step+" …", p.out.Width-1))
	default:
		_, _ = fmt.Fprintln(p.out, p.step)
	}
}

// End removes the progress from the terminal.
func (p *Progress) End() {
	p.timer.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown && p.out.Terminal() {
		_, _ = fmt.Fprint(p.out, "\r\x1b[K")
	}
	p.shown, p.step = false, ""
}
