// Package reader observes the GPUs of a node through NVML. It returns values of package gpu: a
// snapshot of all GPUs, and events while it watches them.
package reader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"outrigger.dev/pkg/driverproc"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/index"
	"outrigger.dev/pkg/gpu/nvml"
	"outrigger.dev/pkg/pace"
)

// keepEvery is the interval of the checks whether another program has removed or damaged the file with
// the indices.
const keepEvery = 5 * time.Second

// Config configures a Reader.
type Config struct {
	Session *nvml.Session
	// Proc and SysRoot are the host's /proc and /sys. SysRoot is "/sys" by default.
	Proc    driverproc.Root
	SysRoot string
	// Pins has the indices of the GPUs. If it is nil, GPUs have NVML's indices.
	Pins *index.Pins
	Log  *slog.Logger
}

// Reader is a gpu.Source on NVML. It keeps NVML initialized from the first use until Close, until
// the driver is gone, or until another agent claims the lease.
type Reader struct {
	cfg   Config
	times times

	// mu guards cur, which holds the values of the current span of the session.
	mu  sync.Mutex
	cur *view
}

var (
	_ gpu.Source    = (*Reader)(nil)
	_ gpu.Checker   = (*Reader)(nil)
	_ gpu.Linker    = (*Reader)(nil)
	_ gpu.Completer = (*Reader)(nil)
	_ gpu.Meter     = (*Reader)(nil)
)

// New returns a reader that does nothing until it is used.
func New(cfg Config) *Reader {
	if cfg.SysRoot == "" {
		cfg.SysRoot = "/sys"
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Reader{cfg: cfg, times: times{rest: restEvery, probe: probeEvery}}
}

// Snapshot reads all GPUs, without their links. If the driver has gone since the last call, or a
// GPU has come or gone, NVML is initialized again. A running watch then returns gpu.ErrClosed, and
// the result is the last state before that.
func (r *Reader) Snapshot(ctx context.Context) (*gpu.Node, error) { return r.read(ctx, false) }

// Complete is Snapshot, but calls NVML only for faulty GPUs and for values that the last reading
// could not read. If NVML was initialized again since then, it reads everything.
func (r *Reader) Complete(ctx context.Context) (*gpu.Node, error) { return r.read(ctx, true) }

func (r *Reader) read(ctx context.Context, again bool) (*gpu.Node, error) {
	got, err := r.snapshot(ctx, again)
	if got.stale && r.cfg.Session.Idle() {
		got, err = r.snapshot(ctx, false)
	}
	if got.node != nil {
		r.cfg.Pins.Apply(got.node, got.hidden...)
	}
	return got.node, err
}

// reading is a node, and whether NVML has to be initialized again to read its current state. hidden
// has the bus IDs of the GPUs that NVML does not show to this process.
type reading struct {
	node   *gpu.Node
	stale  bool
	hidden []string
}

func (r *Reader) snapshot(ctx context.Context, again bool) (reading, error) {
	return nvml.Use(ctx, r.cfg.Session, func(_ context.Context, span *nvml.Span) (reading, error) {
		v := r.view(span)
		// A nearly complete node is better than none, so the reading continues to its end if the
		// session has to release NVML meanwhile.
		node, err := v.read(ctx, again)
		if err != nil {
			return reading{stale: nvml.DriverGone(err)}, fmt.Errorf("read GPUs: %w", tooOld(err))
		}
		v.warnHidden(node)
		stale := v.stale()
		if stale {
			span.Retire(gpu.ErrClosed)
		}
		return reading{node, stale, v.hiddenIDs()}, nil
	})
}

// tooOld adds the needed driver version to the error if the library lacks a symbol without a
// replacement.
func tooOld(err error) error {
	if nvml.Missing(err) {
		return fmt.Errorf("%w: %w (a driver of R450 or newer is needed)", gpu.ErrNoDriver, err)
	}
	return err
}

// Watch delivers an event for each XID, for each GPU that stops working or works again, and for each
// change of the MIG devices, the recovery action, the memory faults or the NVLink fabric of a GPU. It
// covers all GPUs that NVML shows, including GPUs that do not support NVML's events.
//
// If no change is expected, Watch waits for events, for 30 s at a time. After each wait, it reads from
// /proc the changes that NVML does not report, and polls the next four GPUs in turn. A poll
// shows whether the GPU still works. It reads the fabric or the MIG mode if the value can change
// without an event, and the memory information otherwise. Every second poll of a GPU reads the recovery
// action and the memory faults: in addition to the fabric or the MIG mode, and otherwise instead of the
// memory information.
//
// Watch polls all GPUs at once after a failed wait, and after it finds a lost GPU. After an XID, it
// polls the GPU of the XID, because the driver sends an XID before a GPU is lost. It polls GPUs that do
// not work, that cannot be registered for events, or that are joining a fabric after 2 s, and then
// with growing pauses of up to 30 s.
//
// Watch also restores the file with the indices of the GPUs.
func (r *Reader) Watch(ctx context.Context, deliver func(gpu.Event)) error {
	keeping, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		for pace.Pause(keeping, keepEvery) {
			r.cfg.Pins.Keep()
		}
	}()
	_, err := nvml.Use(ctx, r.cfg.Session, func(use context.Context, span *nvml.Span) (struct{}, error) {
		v := r.view(span)
		w := &watch{view: v, times: r.times, log: r.cfg.Log, fabrics: v.fabrics.changed(), deliver: func(e gpu.Event) {
			// A watch that NVML delayed may get here after Watch has returned.
			if ctx.Err() == nil {
				deliver(e)
			}
		}}
		defer w.free()
		return struct{}{}, fmt.Errorf("watch GPUs: %w", tooOld(w.run(use)))
	})
	if ctx.Err() != nil && !errors.Is(err, gpu.ErrHangs) {
		return nil
	}
	return err
}

// Health returns an error that wraps gpu.ErrHangs while a call of NVML has not
// answered for 30 s. It never blocks.
func (r *Reader) Health() error { return r.cfg.Session.Health() }

// HangsIn returns the minimum time until Health can return an error. It never blocks.
func (r *Reader) HangsIn() time.Duration { return r.cfg.Session.HangsIn() }

// Close ends the watches, shuts NVML down and releases the lease.
func (r *Reader) Close() error { return r.cfg.Session.Close() }

// view returns the view of a span.
func (r *Reader) view(span *nvml.Span) *view {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cur == nil || r.cur.span != span {
		repeated := map[string]bool{}
		if r.cur != nil {
			for _, h := range r.cur.lacking() {
				repeated[h.busID] = true
			}
		}
		r.cur = &view{
			span: span, proc: r.cfg.Proc, sysRoot: r.cfg.SysRoot, log: r.cfg.Log,
			begun: time.Now(), settle: r.times.probe, repeated: repeated,
		}
	}
	return r.cur
}
