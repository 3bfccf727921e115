// Package discovery knows what the node is and whether its GPUs can be used: it
// takes in looks at the GPUs, the facts of the other agents and changes of the
// config, derives labels and the condition from them with pure packages, and
// hands them on to who publishes them.
//
// One goroutine owns what is known; it waits for nothing but its inputs.
package discovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"outrigger.dev/agents/feature-discovery/internal/publish"
	"outrigger.dev/agents/feature-discovery/internal/ready"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/observe"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/pci"
)

// Machine is what is known of the machine without its driver.
type Machine struct {
	// Product is the name of the machine.
	Product string
	// PCI are NVIDIA's devices on the bus. Unknown is set where the bus could not
	// be read.
	PCI     []pci.Device
	Unknown bool
}

// driven reports whether the bus has GPUs that NVIDIA's driver has taken.
func (m Machine) driven() bool {
	return slices.ContainsFunc(m.PCI, func(d pci.Device) bool { return d.GPU() && d.Driver == "nvidia" })
}

// gpus reports whether the bus has GPUs, as far as is known.
func (m Machine) gpus() bool {
	return m.Unknown || slices.ContainsFunc(m.PCI, pci.Device.GPU)
}

// Config says what a Discovery works with.
type Config struct {
	Config config.Config
	Source gpu.Source
	// WatchDriver is observe.Config.WatchChanges.
	WatchDriver func(ctx context.Context, changed func()) error
	// ReadMachine reads what is known of the machine.
	ReadMachine func() Machine
	// WatchFacts delivers what the agents of the node say, at first and whenever
	// it changes. It returns when ctx ends.
	WatchFacts func(ctx context.Context, deliver func(map[contract.Name]contract.Fact)) error
	// Chain is what has to hold for the GPUs to be ready. Without a link nothing
	// is said of that.
	Chain []ready.Link
	// Publish makes what it is given what is published. It must not block.
	Publish func(publish.Wanted)
	// Recorder takes note of what happens. It must not block.
	Recorder Recorder
	Log      *slog.Logger
}

// Recorder takes note of what is published and why it is not otherwise.
type Recorder interface {
	// Published notes what is wanted.
	Published(publish.Wanted)
	// Configured notes that a config was taken, or why it was not.
	Configured(err error)
}

// nothing is what an observer of this agent prepares.
type nothing struct{}

// Discovery is what is known of the node.
type Discovery struct {
	cfg      Config
	log      *slog.Logger
	observer *observe.Observer[nothing, nothing]
	reload   chan struct{}
	configs  pace.Latest[config.Config]
	facts    pace.Latest[map[contract.Name]contract.Fact]
	unknown  *pace.Readiness

	// What follows is owned by the goroutine of Run.
	config  config.Config
	machine Machine
	// node is what the driver said last, nil before it did; and has is the last of
	// them that tells what the node has: not one without GPUs that are on the bus,
	// and that the driver has taken and could not begin to use.
	node, has *gpu.Node
	// trouble and hang are why the driver says nothing now.
	trouble, hang error
	looked        bool
	known         map[contract.Name]contract.Fact
	wanted        publish.Wanted
	// trimmed is set once labels have been published.
	trimmed bool
}

// New returns a Discovery; it does nothing before Run.
func New(cfg Config) *Discovery {
	return &Discovery{
		cfg: cfg,
		log: cfg.Log,
		observer: observe.New(observe.Config[nothing, nothing]{
			Source: cfg.Source, Preparer: observe.Unprepared[nothing, nothing]{}, WatchChanges: cfg.WatchDriver, Log: cfg.Log,
		}),
		reload:  make(chan struct{}, 1),
		configs: pace.NewLatest[config.Config](),
		facts:   pace.NewLatest[map[contract.Name]contract.Fact](),
		unknown: pace.NewReadiness(errStarting),
		config:  cfg.Config,
	}
}

// Configure makes c what labels are derived with. It does not block.
func (d *Discovery) Configure(c config.Config) {
	d.cfg.Recorder.Configured(nil)
	d.configs.Put(c)
}

// Refuse tells that there is a newer config which cannot be used: the last one
// stands.
func (d *Discovery) Refuse(err error) {
	d.cfg.Recorder.Configured(err)
	d.log.Error("new config rejected, keeping the previous one", "err", err)
}

// Reload looks at the node again. It does not block.
func (d *Discovery) Reload() { pace.Signal(d.reload) }

// onceLimit bounds the look of Once: a job whose driver hangs says so, and ends.
const onceLimit = time.Minute

// Once looks at the node one time, and returns its labels. It takes a minute at
// most.
func (d *Discovery) Once(ctx context.Context) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, onceLimit)
	defer cancel()
	n, err := d.cfg.Source.Snapshot(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the GPUs of the node: %w", err)
	}
	d.looked, d.machine = true, d.cfg.ReadMachine()
	d.take(n)
	labels := d.labels()
	if labels == nil {
		return nil, d.unlabelled()
	}
	return labels, nil
}

// Unknown returns why it is not known what the labels of the node should be, nil
// once it is.
func (d *Discovery) Unknown() error { return d.unknown.Err() }

var errStarting = errors.New("start: the node has not been looked at yet")

// Run keeps what is published true until ctx ends.
func (d *Discovery) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return d.observer.Run(ctx) })
	if len(d.cfg.Chain) > 0 {
		g.Go(func() error { d.watchFacts(ctx); return nil })
	}
	g.Go(func() error { return d.loop(ctx) })
	return g.Wait()
}

// watchFacts delivers facts until ctx ends. A watch that fails begins anew, and
// with it what is known.
func (d *Discovery) watchFacts(ctx context.Context) {
	retry := pace.Backoff{First: time.Second, Most: time.Minute}
	for {
		err := d.cfg.WatchFacts(ctx, d.facts.Put)
		if ctx.Err() != nil {
			return
		}
		in := retry.Next()
		d.log.Warn("what the agents of the node say is not watched, trying again", "in", in, "err", err)
		if !pace.Pause(ctx, in) {
			return
		}
	}
}

func (d *Discovery) loop(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case obs := <-d.observer.Looks():
			if err := d.observed(obs); err != nil {
				return err
			}
		case ev := <-d.observer.Events():
			if health.NeedsRefresh(ev) {
				d.observer.Look()
			}
			continue
		case err := <-d.observer.Hangs():
			d.hung(err)
		case <-d.reload:
			d.log.Info("reloading")
			d.observer.LookAfresh()
			continue
		case d.config = <-d.configs:
			d.log.Info("config has changed")
		case d.known = <-d.facts:
		}
		d.publish()
	}
}

func (d *Discovery) observed(obs observe.Observation[nothing, nothing]) error {
	if obs.Err != nil && d.cfg.Config.FailOnInitError && !d.looked {
		return fmt.Errorf("%w (fail-on-init-error is set)", obs.Err)
	}
	before := d.trouble
	d.looked, d.trouble = true, obs.Err
	d.machine = d.cfg.ReadMachine()
	if obs.Node != nil {
		d.take(obs.Node)
	}
	switch {
	case obs.Err == nil && before != nil:
		d.log.Info("the driver answers", "version", obs.Node.Driver.Version, "gpus", len(obs.Node.GPUs))
	case errors.Is(obs.Err, gpu.ErrClosed):
		// The driver is asked anew, since a GPU has come or gone.
		d.log.Debug("the driver is not asked now", "err", obs.Err)
	case obs.Err != nil && (before == nil || before.Error() != obs.Err.Error()):
		d.log.Warn("the driver does not answer, waiting", "err", obs.Err)
	}
	return nil
}

// take notes what the driver says.
func (d *Discovery) take(n *gpu.Node) {
	d.node = n
	if len(n.GPUs) > 0 || !d.machine.driven() {
		d.has = n
	}
}

func (d *Discovery) hung(err error) {
	d.hang = err
	if err != nil {
		d.log.Error("the driver hangs, no gpu can be used", "err", err)
	} else {
		d.log.Info("the driver answers again")
	}
}
