package mps

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/pace"
)

const (
	// checkEvery is the interval between checks of a running daemon.
	checkEvery = 10 * time.Second
	// answerLimit is how long a new daemon may take to answer.
	answerLimit = 20 * time.Second
	// answerEvery is the pause between attempts to get the first answer.
	answerEvery = 50 * time.Millisecond
	// writer is the name in the stamp of the ready files.
	writer = "mps-control-daemon"
)

// serve runs one daemon until it ends. It calls answering when the daemon answers. The GPUs of
// the daemon are ready from then on, until it ends.
func (s *Supervisor) serve(ctx context.Context, d Daemon, answering func()) (err error) {
	if err := os.MkdirAll(s.cfg.Root, 0o755); err != nil {
		return fmt.Errorf("create MPS root: %w", err)
	}
	if err := checkPropagation(s.cfg.Root); err != nil {
		return err
	}
	dirs := dirsOf(s.cfg.Root, d.Folder)
	if err := dirs.create(d.Clients); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.restoreModes(ctx, d)) }()
	for _, g := range d.GPUs {
		if err := s.modes.setExclusive(ctx, g.UUID); err != nil {
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
	if err := s.waitAnswer(ctx, proc, dirs); err != nil {
		return err
	}
	if err := s.limitClients(ctx, d, dirs); err != nil {
		return err
	}
	fact := s.cfg.Contract.NewKeeper(readyPath(s.cfg.Root, d.Folder), s.cfg.Log)
	fact.Publish(contract.Record{Writer: writer})
	kept, end := context.WithCancel(life)
	var keeping sync.WaitGroup
	keeping.Go(func() { _ = fact.Run(kept) }) // Run ends with the context kept
	defer keeping.Wait()
	defer end()
	answering()
	return s.watch(ctx, proc, dirs)
}

// waitAnswer waits until the daemon answers.
func (s *Supervisor) waitAnswer(ctx context.Context, proc *process, dirs dirs) error {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	for {
		err := s.cfg.Programs.send(ctx, dirs, "get_default_active_thread_percentage")
		if err == nil {
			return nil
		}
		select {
		case <-proc.ended:
			return proc.err
		default:
		}
		if !pace.Pause(ctx, answerEvery) {
			return fmt.Errorf("wait for the MPS daemon to answer: %w", err)
		}
	}
}

// limitClients sets the limits for one client. There are no clients yet, because the GPUs are
// not ready.
func (s *Supervisor) limitClients(ctx context.Context, d Daemon, dirs dirs) error {
	commands := []string{fmt.Sprintf("set_default_active_thread_percentage %d", d.ActiveThreadPercentage)}
	for i, g := range d.GPUs {
		if g.MemoryMiB > 0 {
			commands = append(commands, fmt.Sprintf("set_default_device_pinned_mem_limit %d %dM", i, g.MemoryMiB))
		}
	}
	for _, c := range commands {
		if err := s.cfg.Programs.send(ctx, dirs, c); err != nil {
			return fmt.Errorf("limit the clients of the MPS daemon: %w", err)
		}
	}
	return nil
}

// watch returns when the daemon ends or stops answering, or when ctx ends. Until then, it
// truncates the daemon's logs when they grow too large.
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
			if err := s.cfg.Programs.send(ctx, dirs, "get_default_active_thread_percentage"); err != nil {
				return fmt.Errorf("ask the MPS daemon: %w", err)
			}
			if err := cutLogs(dirs.log); err != nil {
				s.cfg.Log.Warn("cannot truncate the logs of an mps daemon, retrying", "err", err)
			}
		}
	}
}

// quit ends a daemon: gracefully within quitLimit, and by force after that.
func (s *Supervisor) quit(ctx context.Context, proc *process, dirs dirs, kill func()) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), quitLimit)
	defer cancel()
	select {
	case <-proc.ended:
		return
	default:
	}
	if err := s.cfg.Programs.send(ctx, dirs, "quit"); err == nil {
		select {
		case <-proc.ended:
			return
		case <-ctx.Done():
		}
	}
	kill()
	<-proc.ended
}

// restoreModes restores the compute modes of the GPUs.
func (s *Supervisor) restoreModes(ctx context.Context, d Daemon) error {
	ctx = context.WithoutCancel(ctx)
	var errs []error
	for _, g := range d.GPUs {
		errs = append(errs, s.modes.restore(ctx, g.UUID))
	}
	return errors.Join(errs...)
}
