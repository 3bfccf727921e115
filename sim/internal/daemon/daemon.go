// Package daemon keeps the simulated GPUs of a node of Kubernetes as its labels ask: it observes the
// labels, the machine, and what an earlier process has made, derives the next action, and takes it.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/reconcile"
	"outrigger.dev/sim/internal/node"
	"outrigger.dev/sim/internal/pool"
)

const (
	// recheck is how often the daemon restores what another program has removed, and looks for devices that
	// appeared on the PCI bus.
	recheck = time.Minute
	// retryMost is the longest pause after an error, such as a layout that does not fit.
	retryMost = 5 * time.Minute
)

// Config describes a Daemon.
type Config struct {
	// Root is the folder of the simulated node. Its parent has the record of what was made.
	Root string
	// Name is the name of the Node. It seeds the UUIDs of the GPUs.
	Name string
	// Host has the machine's own devices, and its /dev.
	Host node.Host
	// Shown has the machine's folders in which the GPUs are shown.
	Shown node.Shown
	// Libraries and Program are the files of the simulated driver, and Hook is the file of gpu-sim-hook.
	// Version is their version.
	Libraries, Program, Hook, Version string
	Pools                             []pool.Pool
	Models                            pool.Models
	// Real returns why the machine must not simulate GPUs, "" if it may.
	Real func() (string, error)
	// Report sends an Event of the Node.
	Report func(kube.Event)
	// Made is called after GPUs were made, and after each check of them. It may be nil.
	Made func()
	Log  *slog.Logger
}

// Daemon keeps the simulated GPUs of its node.
type Daemon struct {
	cfg  Config
	loop *reconcile.Loop
	// labels is nil until the labels of the Node are known.
	labels atomic.Pointer[map[string]string]
	// made wakes Follow as Config.Made says.
	made chan struct{}
	// The goroutine of Run owns chosen and reported. reported is the last problem that an Event reported.
	chosen   choice
	reported string
	// mu is held while the node's files change.
	mu sync.Mutex
}

// choice is what the labels of the Node ask for.
type choice struct {
	labels  map[string]string
	want    *pool.Simulation
	problem error
}

// choose returns what the labels ask for. It derives it again only if they have changed, because it reads a model.
func (d *Daemon) choose(labels map[string]string) (want *pool.Simulation, problem error) {
	if c := d.chosen; c.labels == nil || !maps.Equal(c.labels, labels) {
		want, problem := pool.Choose(labels, d.cfg.Pools, d.cfg.Models)
		d.chosen = choice{labels, want, problem}
	}
	return d.chosen.want, d.chosen.problem
}

// New returns a Daemon. It does nothing before Run.
func New(cfg Config) *Daemon {
	if cfg.Made == nil {
		cfg.Made = func() {}
	}
	d := &Daemon{cfg: cfg, made: make(chan struct{}, 1)}
	d.loop = reconcile.New(reconcile.Config{
		Name: "simulated gpus", Step: d.step, Starting: errors.New("start: the labels of the Node are not known yet"),
		Retry: pace.Backoff{First: time.Second, Most: retryMost}, Eager: true, Log: cfg.Log,
	})
	return d
}

// Labelled tells the Daemon the labels of the Node. It does not block.
func (d *Daemon) Labelled(labels map[string]string) {
	d.labels.Store(&labels)
	d.loop.Wake()
}

// announce wakes those who wait for GPUs.
func (d *Daemon) announce() {
	pace.Signal(d.made)
	d.cfg.Made()
}

// Run keeps the GPUs until ctx ends. They stay then.
func (d *Daemon) Run(ctx context.Context) error { return d.loop.Run(ctx) }

// Ready returns nil while the node has the GPUs that its labels ask for, and otherwise the reason.
func (d *Daemon) Ready() error { return d.loop.Ready() }

// Reload checks the node again. It does not block.
func (d *Daemon) Reload() { d.loop.Wake() }

// Follow makes the files of MIG devices whenever a program creates or destroys one, until ctx ends.
func (d *Daemon) Follow(ctx context.Context) error {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-d.made:
			if err := node.FollowInstances(ctx, d.cfg.Root, d.cfg.Host, true); err != nil && !errors.Is(err, node.ErrNotFound) {
				d.cfg.Log.Warn("cannot show MIG devices in /proc and /dev, trying again with the next check", "err", err)
			}
		}
	}
	return nil
}

func (d *Daemon) step(ctx context.Context) (reconcile.Result, error) {
	labels := d.labels.Load()
	if labels == nil {
		return reconcile.Result{Pending: errors.New("the labels of the Node are not known yet")}, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.reconcile(ctx, *labels)
	d.report(err)
	return reconcile.Result{After: recheck}, err
}

func (d *Daemon) reconcile(ctx context.Context, labels map[string]string) error {
	seen, err := d.observe()
	if err != nil {
		return err
	}
	want, problem := d.choose(labels)
	switch act := next(seen, want, problem); act {
	case remove:
		return errors.Join(d.remove(), d.refusal(seen, problem))
	case replace:
		return d.replace(ctx, seen, *want)
	case keep:
		return errors.Join(d.keep(), d.refusal(seen, problem))
	default:
		return d.refusal(seen, problem)
	}
}

// refusal is the error of a node whose labels cannot be followed.
func (d *Daemon) refusal(seen observed, problem error) error {
	if seen.real == "" {
		return problem
	}
	return fmt.Errorf("this node is not simulated: %s; remove its label %s, or exclude it from the pools", seen.real, pool.Label)
}

// report sends an Event for each new problem, once.
func (d *Daemon) report(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != d.reported {
		d.cfg.Report(kube.Event{Warning: true, Reason: "GPUSimulationFailed", Message: text})
	}
	d.reported = text
}

// Remove removes the simulated GPUs from the machine: mounts, device nodes and files.
func (d *Daemon) Remove(context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.remove()
}
