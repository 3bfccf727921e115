// Package file is a source of GPUs that reads a snapshot file, as the snapshot
// command of an agent prints it. With it an agent runs for a node of which only
// the snapshot is at hand. A change of the file is a change of the node.
package file

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/hostfs"
)

// Source reads the node from a file.
type Source struct {
	path string
	log  *slog.Logger

	mu sync.Mutex
	// watches holds what ends each Watch that is running.
	watches map[*context.CancelCauseFunc]struct{}
}

var _ gpu.Source = (*Source)(nil)

// New returns a source that reads path at each Snapshot.
func New(path string, log *slog.Logger) *Source {
	return &Source{path: path, log: log, watches: map[*context.CancelCauseFunc]struct{}{}}
}

// Snapshot reads the file.
func (s *Source) Snapshot(ctx context.Context) (*gpu.Node, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(s.path)
	if err != nil {
		return nil, fmt.Errorf("read gpu snapshot: %w", err)
	}
	node, err := gpu.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("read gpu snapshot %s: %w", s.path, err)
	}
	return node, nil
}

// Watch delivers the gpu.Changes of the node. A file that cannot be read changes
// nothing: the last good snapshot remains in force.
func (s *Source) Watch(ctx context.Context, deliver func(gpu.Event)) error {
	w, err := hostfs.NewWatcher(s.path)
	if err != nil {
		return fmt.Errorf("watch gpu snapshot: %w", err)
	}
	defer w.Close() //nolint:errcheck // nothing was written through it
	ctx, cancel := context.WithCancelCause(ctx)
	defer s.begin(cancel)()
	last, err := s.Snapshot(ctx)
	if err != nil && ctx.Err() == nil {
		s.log.Warn("cannot read gpu snapshot, waiting for the file to change", "err", err)
	}
	deliver(gpu.NodeEvent(gpu.EventTopologyChanged))
	for {
		_, err := w.Next(ctx)
		if errors.Is(context.Cause(ctx), gpu.ErrClosed) {
			return fmt.Errorf("watch gpu snapshot: %w", gpu.ErrClosed)
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("watch gpu snapshot: %w", err)
		}
		node, err := s.Snapshot(ctx)
		if err != nil {
			s.log.Warn("cannot read gpu snapshot, keeping the last good one", "err", err)
			continue
		}
		for _, e := range gpu.Changes(last, node) {
			deliver(e)
		}
		last = node
	}
}

// begin records a Watch that cancel ends, and returns the function to call at its
// end.
func (s *Source) begin(cancel context.CancelCauseFunc) func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watches[&cancel] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watches, &cancel)
		cancel(nil)
	}
}

// Close ends the running watches.
func (s *Source) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for cancel := range s.watches {
		(*cancel)(gpu.ErrClosed)
	}
	return nil
}
