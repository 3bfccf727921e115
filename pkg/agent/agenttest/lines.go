package agenttest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Lines collects what a process prints, and wakes who waits for a line.
type Lines struct {
	mu      sync.Mutex
	data    bytes.Buffer
	changed chan struct{} // closed and replaced at every write
}

// NewLines returns Lines without content.
func NewLines() *Lines { return &Lines{changed: make(chan struct{})} }

// Write adds to the lines.
func (l *Lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.changed)
	l.changed = make(chan struct{})
	return l.data.Write(p)
}

// String returns all that was written.
func (l *Lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.data.String()
}

// Wait waits until one line has all parts.
func (l *Lines) Wait(ctx context.Context, parts ...string) error {
	for {
		l.mu.Lock()
		text, changed := l.data.String(), l.changed
		l.mu.Unlock()
		for line := range strings.Lines(text) {
			if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for a line with %q: %w", parts, context.Cause(ctx))
		case <-changed:
		}
	}
}
