package agenttest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Lines collects the output of a process and lets tests wait for a line.
type Lines struct {
	mu      sync.Mutex
	data    bytes.Buffer
	changed chan struct{} // closed and replaced at every write
}

// NewLines returns empty Lines.
func NewLines() *Lines { return &Lines{changed: make(chan struct{})} }

// Write appends to the lines.
func (l *Lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.changed)
	l.changed = make(chan struct{})
	return l.data.Write(p)
}

// String returns everything that was written.
func (l *Lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.data.String()
}

// Wait waits until one line contains all parts.
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
