package gpu

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"outrigger.dev/pkg/hostfs"
)

// FileSource reads the node from a file, as the snapshot sub-command of an
// agent prints it. An agent so runs on a node of which only the snapshot is at
// hand. A change of the file is a change of the node.
type FileSource struct {
	path string
	log  *slog.Logger

	mu sync.Mutex
	// watches holds what ends each Watch that is under way.
	watches map[*context.CancelCauseFunc]struct{}
}

var _ Source = (*FileSource)(nil)

// NewFileSource returns a source that reads path when it is asked.
func NewFileSource(path string, log *slog.Logger) *FileSource {
	return &FileSource{path: path, log: log, watches: map[*context.CancelCauseFunc]struct{}{}}
}

// Snapshot reads the file.
func (f *FileSource) Snapshot(ctx context.Context) (*Node, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(f.path)
	if err != nil {
		return nil, fmt.Errorf("read gpu snapshot: %w", err)
	}
	node, err := Decode(data)
	if err != nil {
		return nil, fmt.Errorf("read gpu snapshot %s: %w", f.path, err)
	}
	return node, nil
}

// Watch delivers the Changes of the node. A file that cannot be read changes
// nothing: the last good one stands.
func (f *FileSource) Watch(ctx context.Context, deliver func(Event)) error {
	w, err := hostfs.NewWatcher(f.path)
	if err != nil {
		return fmt.Errorf("watch gpu snapshot: %w", err)
	}
	defer w.Close() //nolint:errcheck // nothing was written through it
	ctx, cancel := context.WithCancelCause(ctx)
	defer f.begin(cancel)()
	last, err := f.Snapshot(ctx)
	if err != nil && ctx.Err() == nil {
		f.log.Warn("gpu snapshot is not usable", "err", err)
	}
	deliver(nodeEvent(EventTopologyChanged))
	for {
		_, err := w.Next(ctx)
		if errors.Is(context.Cause(ctx), ErrClosed) {
			return fmt.Errorf("watch gpu snapshot: %w", ErrClosed)
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("watch gpu snapshot: %w", err)
		}
		node, err := f.Snapshot(ctx)
		if err != nil {
			f.log.Warn("gpu snapshot is not usable, the last good one stands", "err", err)
			continue
		}
		for _, e := range Changes(last, node) {
			deliver(e)
		}
		last = node
	}
}

// begin notes a Watch that cancel ends, and returns what to call at its end.
func (f *FileSource) begin(cancel context.CancelCauseFunc) func() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watches[&cancel] = struct{}{}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.watches, &cancel)
		cancel(nil)
	}
}

// Close ends the watches.
func (f *FileSource) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for cancel := range f.watches {
		(*cancel)(ErrClosed)
	}
	return nil
}
