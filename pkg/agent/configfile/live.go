// Package configfile keeps the config of an agent up to date with a config file,
// which a label of the Node may select. It does not interpret the file: the agent
// provides the type of its config and the function that parses the file.
package configfile

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"reflect" // DeepEqual: the values have slices, maps or pointers
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/reconcile"
)

// labelPatience is the time that Load waits for the Node's labels before it uses the last known
// value, so that a node can restart without an API server.
const labelPatience = 5 * time.Second

// settle is the pause between a change of a file and reading it. An editor that writes in place
// truncates the file first, and an empty file is a valid config.
const settle = 100 * time.Millisecond

// Labels is the source of the labels of the agent's Node.
type Labels interface {
	// WatchLabels calls deliver with the labels, once when they are known and again
	// after each change, until ctx ends. Outside of a cluster it returns at once.
	WatchLabels(ctx context.Context, deliver func(map[string]string)) error
}

// Spec describes a config of type T.
type Spec[T any] struct {
	// Parse returns the config for the content of the file. name is the path of the
	// file, for errors. Without a config file, name and data are empty.
	Parse func(name string, data []byte) (T, error)
	// NeedsRestart returns the settings that differ between two configs and that a running process
	// cannot change. If it is nil, a running process can change all settings.
	NeedsRestart func(old, changed T) []string
	// Labels is used only with --config-dir.
	Labels Labels
	// Patience is the time that Load waits for the labels before it uses the last known value.
	// Default: 5 s.
	Patience time.Duration
	// RunRoot is the folder of the node contract. Load stores the last known value below it.
	RunRoot string
	Log     *slog.Logger
}

// Follower receives the changes of the config while the agent runs. Its functions
// must not block.
type Follower[T any] struct {
	// Configure is called with each valid config that differs from the last one. After a Reject, it
	// is called with the next valid config even if the config is the same as before.
	Configure func(T)
	// Reject is called with the reason why a newer config cannot be used. The last config stays in
	// effect.
	Reject func(error)
}

// Live is the config of an agent and the file that contains it.
type Live[T any] struct {
	// File locates the config file.
	File File
	// Config is the config at the start. Run passes later ones to the Follower.
	Config T

	spec  Spec[T]
	kept  labelFile
	loop  *reconcile.Loop
	label atomic.Pointer[string]
	to    Follower[T]
	// last is the config in effect. rejected is the reason why a newer config is not in effect.
	last     T
	rejected reconcile.Status
}

// Load returns the config in the file. If a label of the Node selects the file and the API server
// does not answer, Load uses the last known value of the label. If no value is known, it waits for
// the label, because another config could advertise GPUs that this node must not advertise.
func Load[T any](ctx context.Context, file File, spec Spec[T]) (*Live[T], error) {
	err := file.check()
	if err != nil {
		return nil, err
	}
	l := &Live[T]{File: file, spec: spec, kept: newLabelFile(spec.RunRoot, file.label)}
	l.loop = reconcile.New(reconcile.Config{Name: "config file", Step: l.update, Log: spec.Log})
	label := ""
	if file.Dir != "" {
		if label, err = l.firstLabel(ctx); err != nil {
			return nil, err
		}
	}
	l.label.Store(&label)
	if l.Config, err = l.read(); err != nil {
		return nil, err
	}
	l.last = l.Config
	return l, nil
}

// firstLabel returns the value of the label, or the last known value if the API server does not
// answer in time. It is empty if the Node does not have the label.
func (l *Live[T]) firstLabel(parent context.Context) (string, error) {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	value, isKept := l.kept.read()
	late := time.AfterFunc(cmp.Or(l.spec.Patience, labelPatience), func() {
		if isKept {
			cancel()
			return
		}
		l.spec.Log.Warn("cannot read the node's label, advertising nothing until it is known", "label", l.File.label)
		agent.Waiting(parent, fmt.Errorf("choose config: the label %s of the node is not known yet: the API server has not answered", l.File.label))
	})
	defer late.Stop()
	known := false
	err := l.spec.Labels.WatchLabels(ctx, func(all map[string]string) {
		if known {
			return // the watch ends
		}
		value, known = all[l.File.label], true
		l.storeLabel(value)
		cancel()
	})
	switch {
	case known:
		return value, nil
	case parent.Err() != nil:
		return "", parent.Err()
	case err != nil:
		return "", err
	case ctx.Err() == nil:
		return "", nil // there is no API server
	}
	l.spec.Log.Warn("cannot read the node's label, using its last known value", "label", l.File.label, "value", value, "file", l.kept.path)
	return value, nil
}

// storeLabel stores the value of the label for the next start.
func (l *Live[T]) storeLabel(value string) {
	if err := l.kept.write(value); err != nil {
		l.spec.Log.Warn("cannot store the node's label, a start without the API server will not know it", "err", err)
	}
}

// read returns the config that the file and the label select now.
func (l *Live[T]) read() (T, error) {
	path, data, err := l.File.read(*l.label.Load())
	if err != nil {
		var none T
		return none, &unreadableError{err}
	}
	return l.spec.Parse(path, data)
}

// Run watches the file and the label until ctx ends, and passes changed configs to the Follower. It
// returns an error if a setting has changed that a running process cannot change.
func (l *Live[T]) Run(ctx context.Context, to Follower[T]) error {
	g, ctx := errgroup.WithContext(ctx)
	if l.File.Dir != "" {
		g.Go(func() error { return l.spec.Labels.WatchLabels(ctx, l.labelled) })
	}
	if dir := l.File.folder(); dir != "" {
		g.Go(func() error { l.watch(ctx, dir); return nil })
	}
	l.to = to
	g.Go(func() error { return l.loop.Run(ctx) })
	return g.Wait()
}

// watch wakes the loop after a change in the folder of the file, and after another program has
// changed or removed the stored label.
func (l *Live[T]) watch(ctx context.Context, dir string) {
	paths := []string{dir}
	if l.File.Dir != "" && l.kept.path != "" {
		paths = append(paths, l.kept.path)
	}
	hostfs.Watch(ctx, l.spec.Log, l.loop.Wake, paths...)
}

func (l *Live[T]) labelled(all map[string]string) {
	value := all[l.File.label]
	if was := l.label.Swap(&value); *was != value {
		l.loop.Wake()
	}
}

// Reload makes Run read the file again, for example after SIGHUP. It does not block.
func (l *Live[T]) Reload() { l.loop.Wake() }

// update stores the label and reads the config. If the config differs from the last config, update
// passes the config to the Follower. If the config is not valid, update calls Reject.
func (l *Live[T]) update(ctx context.Context) (reconcile.Result, error) {
	pace.Pause(ctx, settle)
	if l.File.Dir != "" {
		l.storeLabel(*l.label.Load())
	}
	next, err := l.read()
	if err != nil {
		if l.rejected.Set(err) {
			l.to.Reject(err)
		}
		return reconcile.Result{}, nil
	}
	// Reflection is necessary, because each agent has a different type of config, with slices and
	// maps.
	if l.rejected.Err() == nil && reflect.DeepEqual(l.last, next) {
		return reconcile.Result{}, nil
	}
	if l.spec.NeedsRestart != nil {
		if names := l.spec.NeedsRestart(l.last, next); len(names) > 0 {
			return reconcile.Result{}, reconcile.Fatal(fmt.Errorf("apply the changed config: %s cannot change while the agent runs, exiting so that a restart applies the new config", strings.Join(names, ", ")))
		}
	}
	l.last = next
	l.rejected.Set(nil)
	l.to.Configure(next)
	return reconcile.Result{}, nil
}
