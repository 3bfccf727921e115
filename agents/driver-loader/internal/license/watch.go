package license

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"outrigger.dev/agents/driver-loader/internal/loader"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/reconcile"
)

const (
	// readInterval is how often the licenses are read. One that is missing is looked for sooner: it
	// comes seconds after the license client has started.
	readInterval  = 5 * time.Minute
	retryInterval = 10 * time.Second
	// queryTimeout is how long nvidia-smi may take.
	queryTimeout = 30 * time.Second
)

// Config describes a Watch.
type Config struct {
	// Configured reports whether the node has a license to look for.
	Configured func() bool
	// Query returns what nvidia-smi -q prints.
	Query func(context.Context) (string, error)
	// Report sends an Event.
	Report func(kube.Event)
	Log    *slog.Logger
}

// Watch reads the licenses from time to time, and tells people what has changed.
type Watch struct {
	cfg         Config
	loop        *reconcile.Loop
	undisturbed Undisturbed
	// running is held by a query, also by one that was given up because the driver does not answer.
	running chan struct{}

	states map[string]state

	mu       sync.Mutex
	products []Product
}

// New returns a Watch. It does nothing before Run.
func New(cfg Config) *Watch {
	w := &Watch{cfg: cfg, running: make(chan struct{}, 1)}
	w.loop = reconcile.New(reconcile.Config{
		Name: "licenses", Step: w.observe, Retry: pace.Backoff{First: retryInterval, Most: readInterval}, Eager: true, Log: cfg.Log,
		Failed: func(err error, _ time.Duration) {
			if !errors.Is(err, errUnlicensed) { // tell has logged that
				cfg.Log.Warn("cannot read the state of the vgpu license, trying again", "err", err)
			}
		},
	})
	return w
}

// Again makes Run read the licenses now: the driver or the license client has started.
func (w *Watch) Again() { w.loop.Wake() }

// Products returns the products as they were read last. It returns none while they cannot be read.
func (w *Watch) Products() []Product {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.products)
}

// Undisturbed runs a function as the method of a Loader does.
type Undisturbed func(ctx context.Context, f func(context.Context) error) error

// Run reads the licenses until ctx ends. It does nothing on a node without a configured one.
func (w *Watch) Run(ctx context.Context, undisturbed Undisturbed) error {
	w.undisturbed = undisturbed
	return w.loop.Run(ctx)
}

// errUnlicensed is the result of a step that has found a product without a license.
var errUnlicensed = errors.New("a virtual gpu has no license")

// observe reads the licenses once.
func (w *Watch) observe(ctx context.Context) (reconcile.Result, error) {
	if !w.cfg.Configured() {
		return reconcile.Result{}, nil
	}
	var products []Product
	err := w.undisturbed(ctx, func(ctx context.Context) (err error) {
		products, err = Read(ctx, w.query)
		return err
	})
	if ctx.Err() != nil {
		return reconcile.Result{}, ctx.Err()
	}
	w.mu.Lock()
	w.products = products
	w.mu.Unlock()
	if errors.Is(err, loader.ErrNotDone) {
		return reconcile.Result{After: retryInterval}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	var changes []change
	w.states, changes = next(w.states, products, time.Now())
	for _, c := range changes {
		w.report(c)
	}
	if slices.ContainsFunc(products, func(p Product) bool { return !p.Licensed() }) {
		return reconcile.Result{}, errUnlicensed
	}
	return reconcile.Result{After: readInterval}, nil
}

// Read returns the licensed products in what a query of nvidia-smi -q returns. It returns an error
// if there are none.
func Read(ctx context.Context, query func(context.Context) (string, error)) ([]Product, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	output, err := query(ctx)
	if err != nil {
		return nil, err
	}
	products := Parse(output)
	if len(products) == 0 {
		return nil, fmt.Errorf("nvidia-smi -q shows no %q: use a driver for vGPU guests, or remove gridd.conf", section)
	}
	return products, nil
}

// query runs nvidia-smi. One that hangs in the kernel cannot be killed, and is not waited for.
func (w *Watch) query(ctx context.Context) (string, error) {
	select {
	case w.running <- struct{}{}:
	default:
		return "", errors.New("run nvidia-smi: the one before still runs: the driver does not answer")
	}
	type answer struct {
		output string
		err    error
	}
	result := make(chan answer, 1)
	go func() {
		output, err := w.cfg.Query(ctx)
		<-w.running
		result <- answer{output, err}
	}()
	select {
	case a := <-result:
		return a.output, a.err
	case <-ctx.Done():
		return "", fmt.Errorf("run nvidia-smi: the driver does not answer: %w", ctx.Err())
	}
}

func (w *Watch) report(c change) {
	log := w.cfg.Log.With("gpu", c.GPU, "product", c.Name, "status", c.Status)
	switch {
	case c.Licensed():
		log.Info("vgpu is licensed")
	case c.reason == "":
		log.Info("vgpu has no license, looking again")
	default:
		log.Warn("vgpu has no license and becomes slow", "reason", c.reason, "fix", fix)
	}
	if c.reason != "" {
		w.cfg.Report(kube.Event{Warning: !c.Licensed(), Reason: c.reason, Message: c.message()})
	}
}
