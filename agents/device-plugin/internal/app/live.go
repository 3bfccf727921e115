package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"outrigger.dev/agents/device-plugin/internal/config"
	"outrigger.dev/agents/device-plugin/internal/health"
)

// labelPatience is how long a start waits for the node's label. A node that
// comes up while the API server is away has to work all the same.
const labelPatience = 15 * time.Second

// configured is what takes a config while it runs.
type configured interface {
	Configure(config.Config, health.Rules)
	Refuse(error)
}

// labels tells the labels of the own Node, at first and when they change.
type labels interface {
	WatchLabels(ctx context.Context, deliver func(map[string]string)) error
}

// live keeps the config up to date with its file and with the node's label.
type live struct {
	settings settings
	// labels is nil where the label is not to be had.
	labels labels
	to     configured
	log    *slog.Logger

	changed chan struct{}
	label   atomic.Pointer[string]
	// last is the config that holds.
	last config.Config
	// refused is the refusal that was told last.
	refused string
}

func newLive(s settings, l labels, to configured, log *slog.Logger) *live {
	w := &live{settings: s, to: to, log: log, changed: make(chan struct{}, 1), last: s.config}
	if s.file.dir != "" {
		w.labels = l
	}
	w.label.Store(&s.file.value)
	return w
}

// firstLabel returns the value of a label of the own Node, empty for a node
// without it. It waits for the API server, but not for long.
func firstLabel(ctx context.Context, l labels, key string, log *slog.Logger) string {
	ctx, cancel := context.WithTimeout(ctx, labelPatience)
	defer cancel()
	value, known := "", false
	_ = l.WatchLabels(ctx, func(all map[string]string) { // it returns nil
		value, known = all[key], true
		cancel()
	})
	if !known && !errors.Is(context.Cause(ctx), context.Canceled) {
		log.Warn("the node's label is not known yet, starting as if there were none", "label", key)
	}
	return value
}

// run follows the file and the label until ctx ends. It returns an error when
// the config has changed in a way that takes a new process.
func (w *live) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	if w.labels != nil {
		g.Go(func() error { return w.labels.WatchLabels(ctx, w.labelled) })
	}
	if dir := w.settings.file.folder(); dir != "" {
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

func (w *live) watch(ctx context.Context, dir string) error {
	err := watch(ctx, func() { signal(w.changed) }, dir)
	if err != nil && ctx.Err() == nil {
		w.log.Warn("the config is not watched: send SIGHUP after a change", "folder", dir, "err", err)
	}
	return nil
}

func (w *live) labelled(all map[string]string) {
	value := all[w.settings.file.label]
	if was := w.label.Swap(&value); *was != value {
		signal(w.changed)
	}
}

// reload has the file read again.
func (w *live) reload() { signal(w.changed) }

// take reads the config and passes it on if it is another one. One that cannot
// be used is told, and the last one stands.
func (w *live) take() error {
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
	if flags := config.NeedsRestart(w.last, next); len(flags) > 0 {
		return fmt.Errorf("take the changed config: %s cannot change in a running process: it ends, to be started again with it", strings.Join(flags, ", "))
	}
	w.last, w.refused = next, ""
	w.to.Configure(next, w.settings.rules(next, w.log))
	return nil
}

// rules returns which XIDs count with a config, and for how long.
func (s settings) rules(c config.Config, log *slog.Logger) health.Rules {
	rules, unknown := health.ParseRules(c.HealthChecks.Disable, c.HealthChecks.Enable)
	if len(unknown) > 0 {
		log.Warn("not an XID in the lists of health checks, ignored", "items", unknown)
	}
	rules.Quiet = s.quiet
	return rules
}

// folder returns the folder whose changes may be changes of the config: that of
// the file, because a mounted one is exchanged and not written to.
func (f configFile) folder() string {
	switch {
	case f.dir != "":
		return f.dir
	case f.path != "":
		return filepath.Dir(f.path)
	default:
		return ""
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
