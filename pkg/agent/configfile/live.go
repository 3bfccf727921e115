package configfile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/pkg/pace"
)

// labelPatience is how long a start waits for the node's label. A node that
// comes up while the API server is away has to work all the same.
const labelPatience = 15 * time.Second

// settle is how long changes of the files are collected: who edits one in place
// empties it first, and an empty file is a config too.
const settle = 100 * time.Millisecond

// Configured is what takes a config while it runs. It must not block.
type Configured interface {
	Configure(config.Config)
	// Refuse tells why a newer config cannot be used: the last one stands.
	Refuse(error)
}

// Labels tells the labels of the own Node, at first and when they change.
type Labels interface {
	WatchLabels(ctx context.Context, deliver func(map[string]string)) error
}

// Live keeps the config up to date with its file and with the node's label.
type Live struct {
	settings Settings
	to       Configured
	log      *slog.Logger

	changed chan struct{}
	label   atomic.Pointer[string]
	// last is the config that holds.
	last config.Config
	// refused is the refusal that was told last.
	refused string
}

// NewLive returns what passes each config after that of s on to to.
func NewLive(s Settings, to Configured, log *slog.Logger) *Live {
	w := &Live{settings: s, to: to, log: log, changed: make(chan struct{}, 1), last: s.Config}
	w.label.Store(&s.label)
	return w
}

// firstLabel returns the value of a label of the node, empty for a node without
// it, or if the API server does not answer soon.
func firstLabel(parent context.Context, l Labels, key string, log *slog.Logger) (string, error) {
	ctx, cancel := context.WithTimeout(parent, labelPatience)
	defer cancel()
	value, known := "", false
	_ = l.WatchLabels(ctx, func(all map[string]string) { // it returns nil
		value, known = all[key], true
		cancel()
	})
	if !known && !errors.Is(context.Cause(ctx), context.Canceled) {
		log.Warn("cannot read the node's label, starting as if it were not set", "label", key)
	}
	return value, parent.Err()
}

// Run follows the file and the label until ctx ends. It returns an error when
// the config has changed in a way that takes a new process.
func (w *Live) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	if w.settings.File.Dir != "" {
		g.Go(func() error { return w.settings.labels.WatchLabels(ctx, w.labelled) })
	}
	if dir := w.settings.File.folder(); dir != "" {
		g.Go(func() error { return w.watch(ctx, dir) })
	}
	g.Go(func() error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-w.changed:
				if err := w.take(); err != nil {
					return err
				}
			}
		}
	})
	return g.Wait()
}

func (w *Live) watch(ctx context.Context, dir string) error {
	err := hostfs.Watch(ctx, func([]hostfs.Change) error {
		if pace.Pause(ctx, settle) {
			pace.Signal(w.changed)
		}
		return nil
	}, dir)
	if err != nil && ctx.Err() == nil {
		w.log.Warn("the config is not watched: send SIGHUP after a change", "folder", dir, "err", err)
	}
	return nil
}

func (w *Live) labelled(all map[string]string) {
	value := all[w.settings.File.Label]
	if was := w.label.Swap(&value); *was != value {
		pace.Signal(w.changed)
	}
}

// Reload has the file read again. It does not block.
func (w *Live) Reload() { pace.Signal(w.changed) }

// take reads the config and passes it on if it is another one. One that cannot
// be used is told, and the last one stands.
func (w *Live) take() error {
	next, err := w.settings.load(*w.label.Load())
	if err != nil {
		if w.refused != err.Error() {
			w.refused = err.Error()
			w.to.Refuse(err)
		}
		return nil
	}
	if w.refused == "" && reflect.DeepEqual(w.last, next) {
		return nil
	}
	restart := slices.DeleteFunc(config.NeedsRestart(w.last, next), func(flag string) bool {
		return !slices.Contains(w.settings.flags, flag)
	})
	if len(restart) > 0 {
		return fmt.Errorf("take the changed config: %s cannot change in a running process: it ends, to be started again with it", strings.Join(restart, ", "))
	}
	w.last, w.refused = next, ""
	w.to.Configure(next)
	return nil
}
