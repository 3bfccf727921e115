package table

import (
	"fmt"
	"sync"
	"time"
)

// patience is how long a command may take before it prints its progress.
const patience = 2 * time.Second

// Progress prints the current step of a command on stderr, if the command takes longer than patience. On a terminal it
// rewrites one line at each step. Otherwise it prints one line, at most once in each interval of patience. Its methods are safe
// for concurrent use.
type Progress struct {
	out   Out
	timer *time.Timer

	mu sync.Mutex
	// step is the current step, and printed the last one that was printed.
	step, printed string
	shown, ended  bool
}

// NewProgress begins to measure the time. End must be called before anything else is printed to the same terminal.
func NewProgress(out Out) *Progress {
	p := &Progress{out: out}
	p.mu.Lock() // the timer needs itself
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(patience, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.ended {
			p.shown = true
			p.print()
			p.timer.Reset(patience)
		}
	})
	return p
}

// Step sets the current step, such as "read pods".
func (p *Progress) Step(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.step = fmt.Sprintf(format, args...)
	if p.shown && p.out.Terminal() {
		p.print()
	}
}

// print prints the current step. An error is ignored, because the command does not depend on its progress.
func (p *Progress) print() {
	if p.step == p.printed {
		return
	}
	p.printed = p.step
	if p.out.Terminal() {
		_, _ = fmt.Fprintf(p.out, "\r\x1b[K%s", cut(p.step+" …", p.out.Width-1))
	} else {
		_, _ = fmt.Fprintln(p.out, p.step)
	}
}

// End removes the progress from the terminal. Later steps are not printed.
func (p *Progress) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer.Stop()
	if p.shown && p.out.Terminal() {
		_, _ = fmt.Fprint(p.out, "\r\x1b[K")
	}
	p.shown, p.ended = false, true
}
