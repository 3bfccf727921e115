package mps

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"outrigger.dev/pkg/contract"
)

const (
	retryMin = time.Second
	retryMax = time.Minute
	// checkEvery is how often a running daemon is asked whether it answers.
	checkEvery = 10 * time.Second
	// answerLimit is how long a daemon that was started may take to answer.
	answerLimit = 20 * time.Second
	// answerEvery is the pause between the tries meanwhile.
	answerEvery = 50 * time.Millisecond
	// writer is the name in the stamp of the ready files.
	writer = "mps-control-daemon"
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

// keeper keeps one daemon running until it is stopped.
type keeper struct {
	daemon Daemon
	stop   context.CancelFunc
	done   chan struct{}
}

var errStarting = errors.New("the MPS control daemon is starting")

// Apply makes the daemons those that run, each under ctx. One that stays as it
// is keeps running; others are told to quit, which ends their clients.
func (s *Supervisor) Apply(ctx context.Context, daemons []Daemon) {
	want := map[string]Daemon{}
	for _, d := range daemons {
		want[d.Resource] = d
	}
	s.mu.Lock()
	var stopped []*keeper
	for name, k := range s.running {
		if d, ok := want[name]; !ok || !d.equal(k.daemon) {
			stopped = append(stopped, k)
			delete(s.running, name)
			delete(s.status, name)
		}
	}
	s.mu.Unlock()
	for _, k := range stopped {
		k.stop()
		<-k.done
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, d := range want {
		if s.running[name] != nil {
			continue
		}
		ctx, cancel := context.WithCancel(ctx)
		k := &keeper{daemon: d, stop: cancel, done: make(chan struct{})}
		s.running[name], s.status[name] = k, errStarting
		go func() {
			defer close(k.done)
			s.keep(ctx, d)
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

func (s *Supervisor) set(d Daemon, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.running[d.Resource]; k != nil && k.daemon.equal(d) {
		s.status[d.Resource] = err
	}
}

// keep runs one daemon, again and again, until ctx ends.
func (s *Supervisor) keep(ctx context.Context, d Daemon) {
	log := s.cfg.Log.With("resource", d.Resource)
	retry := retryMin
	for {
		start := time.Now()
		err := s.serve(ctx, d, log)
		if ctx.Err() != nil {
			return
		}
		if time.Since(start) > retryMax {
			retry = retryMin
		}
		s.set(d, err)
		log.Error("mps daemon does not run, starting it again", "in", retry, "err", err)
		if !pause(ctx, retry) {
			return
		}
		retry = min(2*retry, retryMax)
	}
}

// serve runs one daemon once. The resource is ready while it answers.
func (s *Supervisor) serve(ctx context.Context, d Daemon, log *slog.Logger) (err error) {
	dirs := dirsOf(s.cfg.Root, d.Resource)
	if err := dirs.create(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.restoreModes(ctx, d)) }()
	for _, g := range d.GPUs {
		if err := s.cfg.Programs.computeMode(ctx, g.UUID, "EXCLUSIVE_PROCESS"); err != nil {
			return err
		}
	}
	life, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	proc, err := s.cfg.Programs.start(life, d, dirs)
	if err != nil {
		return err
	}
	defer func() { s.quit(ctx, proc, dirs, kill) }()
	if err := s.answers(ctx, proc, dirs); err != nil {
		return err
	}
	if err := s.limit(ctx, d, dirs); err != nil {
		return err
	}
	held, err := s.cfg.Contract.HoldFile(readyPath(s.cfg.Root, d.Resource), contract.Record{Writer: writer})
	if err != nil {
		return fmt.Errorf("tell that the MPS daemon is ready: %w", err)
	}
	defer func() { err = errors.Join(err, held.Release()) }()
	s.set(d, nil)
	log.Info("mps daemon answers", "gpus", len(d.GPUs), "active_thread_percentage", d.ActiveThreadPercentage)
	return s.watch(ctx, proc, dirs)
}

// answers waits until the daemon answers.
func (s *Supervisor) answers(ctx context.Context, proc *process, dirs dirs) error {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	for {
		_, err := s.cfg.Programs.ask(ctx, dirs, "get_default_active_thread_percentage")
		if err == nil {
			return nil
		}
		select {
		case <-proc.ended:
			return proc.err
		default:
		}
		if !pause(ctx, answerEvery) {
			return fmt.Errorf("wait for the MPS daemon to answer: %w", err)
		}
	}
}

// limit sets what one client may take. No client can have come before: the
// resource is not ready yet.
func (s *Supervisor) limit(ctx context.Context, d Daemon, dirs dirs) error {
	commands := []string{fmt.Sprintf("set_default_active_thread_percentage %d", d.ActiveThreadPercentage)}
	for i, g := range d.GPUs {
		if g.MemoryMiB > 0 {
			commands = append(commands, fmt.Sprintf("set_default_device_pinned_mem_limit %d %dM", i, g.MemoryMiB))
		}
	}
	for _, c := range commands {
		if _, err := s.cfg.Programs.ask(ctx, dirs, c); err != nil {
			return fmt.Errorf("limit the clients of the MPS daemon: %w", err)
		}
	}
	return nil
}

// watch returns when the daemon ends, does not answer any more, or ctx ends.
func (s *Supervisor) watch(ctx context.Context, proc *process, dirs dirs) error {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-proc.ended:
			return proc.err
		case <-tick.C:
			if _, err := s.cfg.Programs.ask(ctx, dirs, "get_default_active_thread_percentage"); err != nil {
				return fmt.Errorf("ask the MPS daemon: %w", err)
			}
		}
	}
}

// quit ends a daemon: in good order if it does, and by force if it does not.
func (s *Supervisor) quit(ctx context.Context, proc *process, dirs dirs, kill func()) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), quitLimit)
	defer cancel()
	select {
	case <-proc.ended:
		return
	default:
	}
	if _, err := s.cfg.Programs.ask(ctx, dirs, "quit"); err == nil {
		select {
		case <-proc.ended:
			return
		case <-ctx.Done():
		}
	}
	kill()
	<-proc.ended
}

// restoreModes lets everybody use the GPUs again.
func (s *Supervisor) restoreModes(ctx context.Context, d Daemon) error {
	ctx = context.WithoutCancel(ctx)
	var errs []error
	for _, g := range d.GPUs {
		errs = append(errs, s.cfg.Programs.computeMode(ctx, g.UUID, "DEFAULT"))
	}
	return errors.Join(errs...)
}

// pause waits, and returns false when ctx ends before.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
