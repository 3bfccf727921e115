// Package file is a source of GPUs that reads a snapshot file, the output of an agent's command
// snapshot. So an agent can run without access to the node of the snapshot. The agent treats a change
// of the file as a change of the node.
package file

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/hostfs"
)

// maxSnapshot is the largest size of a snapshot file. A snapshot of 16 GPUs with MIG devices has
// less than 1 MiB.
const maxSnapshot = 64 << 20

// Source reads the node from a file.
type Source struct {
	path string
	log  *slog.Logger

	mu sync.Mutex
	// watches holds the cancel function of each running Watch.
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
	data, err := hostfs.ReadFile(s.path, maxSnapshot)
	if err != nil {
		return nil, fmt.Errorf("read gpu snapshot: %w", err)
	}
	node, err := gpu.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("read gpu snapshot %s: %w", s.path, err)
	}
	return node, nil
}

// Watch delivers the changes of the node (gpu.Changes). If the file cannot be read, the last good
// snapshot stays in effect.
func (s *Source) Watch(ctx context.Context, deliver func(gpu.Event)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer s.begin(cancel)()
	var last *gpu.Node
	begun := false
	hostfs.Watch(ctx, s.log, func() {
		node, err := s.Snapshot(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.log.Warn("cannot read gpu snapshot, waiting for the file to change", "err", err)
		}
		if !begun {
			begun = true
			deliver(gpu.NodeEvent(gpu.EventTopologyChanged))
		} else if err == nil {
			for _, e := range gpu.Changes(last, node) {
				deliver(e)
			}
		}
		if err == nil {
			last = node
		}
	}, s.path)
	if errors.Is(context.Cause(ctx), gpu.ErrClosed) {
		return fmt.Errorf("watch gpu snapshot: %w", gpu.ErrClosed)
	}
	return nil
}

// begin records a Watch that cancel ends. The caller calls the result at the end of the Watch.
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
