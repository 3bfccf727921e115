package mps

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/reconcile"
)

const (
	retryMin = time.Second
	retryMax = time.Minute
)

// Config configures a Supervisor.
type Config struct {
	// Root is the folder of MPS. It has the same path on the host and in this container.
	Root     string
	Programs Programs
	// Contract writes the ready files. Its folder has the record of changed compute modes.
	Contract contract.Dir
	Log      *slog.Logger
}

// Supervisor keeps the control daemons of the last call of Apply running.
type Supervisor struct {
	cfg   Config
	modes *modes

	mu sync.Mutex
	// running maps the folder of each daemon to the keeper of that daemon.
	running map[string]*keeper
}

// NewSupervisor returns a Supervisor without daemons.
func NewSupervisor(cfg Config) *Supervisor {
	return &Supervisor{
		cfg: cfg, modes: newModes(modesPath(cfg.Contract), cfg.Programs, cfg.Log),
		running: map[string]*keeper{},
	}
}

// keeper keeps one daemon running until it is stopped.
type keeper struct {
	// desired is the daemon to start next, and daemon the last one that was started.
	// Supervisor.mu guards both.
	desired, daemon Daemon
	// status is the reason why the daemon does not answer.
	status *reconcile.Status
	stop   context.CancelFunc
	done   chan struct{}
}

var errStarting = errors.New("the MPS control daemon is starting")

// Apply runs exactly these daemons, until ctx ends. Running daemons that are still desired
// continue. Apply stops all others, which ends their clients. It also stops a daemon whose GPUs
// are all lost, because such a daemon has no clients. It restores the compute modes of GPUs that
// no daemon has, even if an earlier process changed them.
func (s *Supervisor) Apply(ctx context.Context, daemons []Daemon) {
	want := map[string]Daemon{}
	served := map[gpu.UUID]bool{}
	for _, d := range daemons {
		if len(d.answering().GPUs) > 0 {
			want[d.Folder] = d
		}
		for _, g := range d.GPUs {
			served[g.UUID] = true
		}
	}
	s.mu.Lock()
	var stopped []*keeper
	for name, k := range s.running {
		if d, ok := want[name]; ok && k.daemon.matches(d) {
			k.desired = d
			continue
		}
		k.stop()
		stopped = append(stopped, k)
		delete(s.running, name)
	}
	s.mu.Unlock()
	for _, k := range stopped {
		<-k.done
	}
	s.modes.restoreExcept(ctx, served)
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, d := range want {
		if s.running[name] != nil {
			continue
		}
		ctx, cancel := context.WithCancel(ctx)
		k := &keeper{
			desired: d, daemon: d.answering(), status: reconcile.NewStatus(errStarting), stop: cancel, done: make(chan struct{}),
		}
		s.running[name] = k
		go func() {
			defer close(k.done)
			s.keepRunning(ctx, k)
		}()
	}
}

// Wait stops all daemons, and waits until they have ended.
func (s *Supervisor) Wait() {
	s.mu.Lock()
	keepers := slices.Collect(maps.Values(s.running))
	s.mu.Unlock()
	for _, k := range keepers {
		k.stop()
	}
	for _, k := range keepers {
		<-k.done
	}
}

// Ready returns nil while every daemon answers, and otherwise why some do not.
func (s *Supervisor) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, folder := range slices.Sorted(maps.Keys(s.running)) {
		k := s.running[folder]
		if err := k.status.Err(); err != nil {
			errs = append(errs, fmt.Errorf("serve %s: %w", k.desired, err))
		}
	}
	return errors.Join(errs...)
}

// nextDaemon returns the daemon to start now. It leaves out lost GPUs, because they would keep
// the daemon from starting.
func (s *Supervisor) nextDaemon(k *keeper) Daemon {
	s.mu.Lock()
	defer s.mu.Unlock()
	k.daemon = k.desired.answering()
	return k.daemon
}

// keepRunning runs one daemon until ctx ends, and restarts it whenever it ends.
func (s *Supervisor) keepRunning(ctx context.Context, k *keeper) {
	retry := pace.Backoff{First: retryMin, Most: retryMax}
	for {
		start, d := time.Now(), s.nextDaemon(k)
		log := s.cfg.Log.With("daemon", d.String())
		err := s.serve(ctx, d, func() {
			k.status.Set(nil)
			log.Info("mps daemon answers", "gpus", len(d.GPUs), "active_thread_percentage", d.ActiveThreadPercentage)
		})
		if ctx.Err() != nil {
			return
		}
		if time.Since(start) > retryMax {
			retry.Reset()
		}
		k.status.Set(err)
		in := retry.Next()
		log.Error("mps daemon ended, restarting it", "in", in, "err", err)
		if !pace.Pause(ctx, in) {
			return
		}
	}
}
