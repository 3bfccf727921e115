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
	// readInterval is the interval between two reads of the licenses, and retryInterval the interval
	// while a license is missing: it arrives seconds after the license client has started.
	readInterval  = 5 * time.Minute
	retryInterval = 10 * time.Second
	// queryTimeout is the time limit for nvidia-smi.
	queryTimeout = 30 * time.Second
)

// Config configures a Watch.
type Config struct {
	// Configured reports whether the node is configured for a license.
	Configured func() bool
	// Query returns the output of nvidia-smi -q.
	Query func(context.Context) (string, error)
	// Report sends an Event.
	Report func(kube.Event)
	Log    *slog.Logger
}

// Watch reads the licenses periodically, and reports changes.
type Watch struct {
	cfg         Config
	loop        *reconcile.Loop
	undisturbed Undisturbed
	// running has an element until nvidia-smi ends, which can be after queryTimeout.
	running chan struct{}

	states map[string]state

	mu       sync.Mutex
	products []Product
}

// New returns a Watch. Run starts it.
func New(cfg Config) *Watch {
	w := &Watch{cfg: cfg, running: make(chan struct{}, 1)}
	w.loop = reconcile.New(reconcile.Config{
		Name: "licenses", Step: w.observe, Retry: pace.Backoff{First: retryInterval, Most: readInterval}, Eager: true, Log: cfg.Log,
		Failed: func(err error, _ time.Duration) {
			if !errors.Is(err, errUnlicensed) { // report has logged errUnlicensed
				cfg.Log.Warn("cannot read the state of the vgpu license, retrying", "err", err)
			}
		},
	})
	return w
}

// Again makes Run read the licenses now, because the driver or the license client has started.
func (w *Watch) Again() { w.loop.Wake() }

// Products returns the products that were read last. It returns none if they cannot be read.
func (w *Watch) Products() []Product {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.products)
}

// Undisturbed is the type of the method Undisturbed of a Loader.
type Undisturbed func(ctx context.Context, f func(context.Context) error) error

// Run reads the licenses until ctx ends, if the node is configured for a license.
func (w *Watch) Run(ctx context.Context, undisturbed Undisturbed) error {
	w.undisturbed = undisturbed
	return w.loop.Run(ctx)
}

// errUnlicensed is the error of a step that has found an unlicensed product.
var errUnlicensed = errors.New("a virtual gpu has no license")

// observe reads the licenses once, and reports changes.
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

// Read returns the licensed products in the output of a query. Without any, it returns an error.
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

// query runs nvidia-smi. If nvidia-smi hangs in the kernel, it cannot be killed and is not waited for.
func (w *Watch) query(ctx context.Context) (string, error) {
	select {
	case w.running <- struct{}{}:
	default:
		return "", errors.New("run nvidia-smi: the previous run has not ended: the driver does not answer")
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
		log.Info("vgpu has no license yet, checking again")
	default:
		log.Warn("vgpu has no license and becomes slow", "reason", c.reason, "fix", fix)
	}
	if c.reason != "" {
		w.cfg.Report(kube.Event{Warning: !c.Licensed(), Reason: c.reason, Message: c.message()})
	}
}
