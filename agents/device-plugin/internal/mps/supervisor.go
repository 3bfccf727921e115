package mps

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/pace"
)

const (
	retryMin = time.Second
	retryMax = time.Minute
)

// Config says what a Supervisor works with.
type Config struct {
	// Root is the folder of MPS, the same on the host and here.
	Root     string
	Programs Programs
	// Contract stamps the ready files.
	Contract contract.Dir
	Log      *slog.Logger
}

// Supervisor keeps the control daemons running that it was last told.
type Supervisor struct {
	cfg Config

	mu      sync.Mutex
	running map[string]*keeper
	// status has for each resource why its daemon does not answer.
	status map[string]error
}

// NewSupervisor returns a Supervisor without daemons.
func NewSupervisor(cfg Config) *Supervisor {
	return &Supervisor{cfg: cfg, running: map[string]*keeper{}, status: map[string]error{}}
}

// keeper keeps one daemon running until it is stopped. What it was told last is
// guarded by Supervisor.mu.
type keeper struct {
	// wanted is what the next start makes of it, and daemon what the last made.
	wanted, daemon Daemon
	stop           context.CancelFunc
	done           chan struct{}
}

var errStarting = errors.New("the MPS control daemon is starting")

// Apply makes the daemons those that run, each under ctx. One that does what is
// wanted keeps running; others are told to quit, which ends their clients. One
// whose GPUs have all stopped to answer has no clients any more.
func (s *Supervisor) Apply(ctx context.Context, daemons []Daemon) {
	want := map[string]Daemon{}
	for _, d := range daemons {
		if len(d.answering().GPUs) > 0 {
			want[d.Resource] = d
		}
	}
	s.mu.Lock()
	var stopped []*keeper
	for name, k := range s.running {
		if d, ok := want[name]; ok && k.daemon.serves(d) {
			k.wanted = d
			continue
		}
		k.stop()
		stopped = append(stopped, k)
		delete(s.running, name)
		delete(s.status, name)
	}
	s.mu.Unlock()
	for _, k := range stopped {
		<-k.done
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, d := range want {
		if s.running[name] != nil {
			continue
		}
		ctx, cancel := context.WithCancel(ctx)
		k := &keeper{wanted: d, daemon: d.answering(), stop: cancel, done: make(chan struct{})}
		s.running[name], s.status[name] = k, errStarting
		go func() {
			defer close(k.done)
			s.keep(ctx, k)
		}()
	}
}

// Wait returns when every daemon has ended, after the context of Apply has.
func (s *Supervisor) Wait() {
	s.mu.Lock()
	keepers := make([]*keeper, 0, len(s.running))
	for _, k := range s.running {
		keepers = append(keepers, k)
	}
	s.mu.Unlock()
	for _, k := range keepers {
		k.stop()
	}
	for _, k := range keepers {
		<-k.done
	}
}

// Ready returns nil while every daemon answers, and otherwise why one does not.
func (s *Supervisor) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for name, err := range s.status {
		if err != nil {
			errs = append(errs, fmt.Errorf("serve %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

func (s *Supervisor) set(k *keeper, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[k.wanted.Resource] == k {
		s.status[k.wanted.Resource] = err
	}
}

// next returns what to start now: a GPU that was lost meanwhile would keep the
// daemon from starting.
func (s *Supervisor) next(k *keeper) Daemon {
	s.mu.Lock()
	defer s.mu.Unlock()
	k.daemon = k.wanted.answering()
	return k.daemon
}

// keep runs one daemon, again and again, until ctx ends.
func (s *Supervisor) keep(ctx context.Context, k *keeper) {
	retry := pace.Backoff{First: retryMin, Most: retryMax}
	for {
		start, d := time.Now(), s.next(k)
		log := s.cfg.Log.With("resource", d.Resource)
		err := s.serve(ctx, d, func() {
			s.set(k, nil)
			log.Info("mps daemon answers", "gpus", len(d.GPUs), "active_thread_percentage", d.ActiveThreadPercentage)
		})
		if ctx.Err() != nil {
			return
		}
		if time.Since(start) > retryMax {
			retry.Reset()
		}
		s.set(k, err)
		in := retry.Next()
		log.Error("mps daemon does not run, starting it again", "in", in, "err", err)
		if !pace.Pause(ctx, in) {
			return
		}
	}
}
