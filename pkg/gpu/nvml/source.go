// Package nvml observes GPUs through NVIDIA's management library. It is the
// only package that talks to NVML; what it sees it returns as values of package
// gpu. The library is loaded at the first use, so that a process may start
// before there is a driver.
package nvml

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/driverroot"
	"outrigger.dev/pkg/gpu"
)

// Config says where the driver is.
type Config struct {
	// LibraryPath of libnvidia-ml.so.1. Default: found in DriverRoot, else
	// what the dynamic loader finds.
	LibraryPath string
	// DriverRoot in which the library is looked for.
	DriverRoot *driverroot.Root
	// ProcRoot and SysRoot are the host's /proc and /sys. Default "/proc", "/sys".
	ProcRoot string
	SysRoot  string
	// Lease is shared while NVML is in use, and given back with all of NVML
	// when another agent claims it. Nil for none.
	Lease *contract.Lease
	// Now is the clock by which calls that hang are known. Default time.Now.
	Now func() time.Time
	Log *slog.Logger
}

// Source is a gpu.Source on NVML. It initialises NVML at the first use and
// holds on to it until Close, until the driver goes, or until the lease is claimed.
type Source struct {
	cfg   Config
	calls *inFlight

	// mu guards the fields below, and the fields of session that say so.
	mu sync.Mutex
	// lib is the library that is loaded; it stays for the life of the process.
	lib *library
	// cur is nil while NVML is not initialised.
	cur *session

	background sync.WaitGroup
}

var (
	_ gpu.Source  = (*Source)(nil)
	_ gpu.Checker = (*Source)(nil)
)

// New returns a source that does nothing until it is used.
func New(cfg Config) (*Source, error) {
	if cfg.ProcRoot == "" {
		cfg.ProcRoot = "/proc"
	}
	if cfg.SysRoot == "" {
		cfg.SysRoot = "/sys"
	}
	if cfg.DriverRoot == nil {
		root, err := driverroot.New(driverroot.Config{ProcRoot: cfg.ProcRoot, SysRoot: cfg.SysRoot})
		if err != nil {
			return nil, err
		}
		cfg.DriverRoot = root
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Source{cfg: cfg, calls: &inFlight{now: cfg.Now}}, nil
}

// Snapshot reads all GPUs. If the driver has gone since the last call, or a GPU
// has come or gone, NVML is initialised anew; a watch that is under way returns
// gpu.ErrClosed for that, and the result is what NVML showed until then.
func (s *Source) Snapshot(ctx context.Context) (*gpu.Node, error) {
	return leash(s.calls, ctx.Done(), func() (*gpu.Node, error) { return s.snapshot(ctx) })
}

func (s *Source) snapshot(ctx context.Context) (*gpu.Node, error) {
	for {
		sess, began, err := s.use(ctx)
		if err != nil {
			return nil, err
		}
		node, err := sess.read(ctx)
		var call *callError
		gone := errors.As(err, &call) && driverGone(call.ret)
		if gone {
			err = fmt.Errorf("read GPUs: %w: %w", gpu.ErrNoDriver, err)
		}
		if err == nil {
			s.tellHidden(sess, node)
		}
		stale := gone || (err == nil && sess.stale(s.cfg.ProcRoot))
		if stale {
			s.retire(sess, gpu.ErrClosed)
		}
		if ended := s.leave(sess); !stale || !ended || began {
			return node, err
		}
	}
}

// Health returns an error that wraps gpu.ErrHangs while a call of NVML has not
// answered for 30 s. It never blocks.
func (s *Source) Health() error { return s.calls.hangs(hangLimit) }

// Close ends the watches, shuts NVML down and gives the lease back. It returns
// an error that wraps gpu.ErrHangs if NVML does not let it.
func (s *Source) Close() error {
	if err := s.calls.hangs(giveUp); err != nil {
		return fmt.Errorf("close NVML: %w", err)
	}
	end := make(chan struct{})
	close(end)
	_, err := leash(s.calls, end, func() (struct{}, error) { return struct{}{}, s.close() })
	return err
}

func (s *Source) close() error {
	s.mu.Lock()
	sess := s.cur
	s.mu.Unlock()
	if sess == nil {
		return nil
	}
	s.retire(sess, gpu.ErrClosed)
	<-sess.down
	s.background.Wait()
	return sess.err
}

// use returns the session, and whether it was begun for this call. The caller
// leaves it.
func (s *Source) use(ctx context.Context) (*session, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.cur == nil:
		sess, err := s.begin(ctx)
		if err != nil {
			return nil, false, err
		}
		s.cur = sess
		sess.users++
		return sess, true, nil
	case s.cur.retired:
		return nil, false, fmt.Errorf("use NVML: %w, and not all watches have returned yet", gpu.ErrClosed)
	}
	s.cur.users++
	return s.cur, false, nil
}

// leave is called by a user of sess that is done. It returns whether NVML has
// been shut down.
func (s *Source) leave(sess *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	sess.users--
	return s.shutdown(sess)
}

// retire lets sess end: its watches return cause, and the last user to leave
// shuts NVML down.
func (s *Source) retire(sess *session, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sess.retired = true
	sess.cancel(cause)
	s.shutdown(sess)
}

// shutdown ends a retired session that nobody uses. It needs the lock.
func (s *Source) shutdown(sess *session) bool {
	if s.cur != sess || !sess.retired || sess.users > 0 {
		return s.cur != sess
	}
	s.cur = nil
	if ret := sess.lib.api.Shutdown(); ret != gonvml.SUCCESS && !driverGone(ret) {
		sess.err = fmt.Errorf("shut NVML down: %w", newCallError("nvmlShutdown", ret))
	}
	sess.err = errors.Join(sess.err, sess.share.Release())
	if sess.err != nil {
		s.cfg.Log.Warn("nvml session did not end cleanly", "err", sess.err)
	}
	close(sess.down)
	return true
}

// begin initialises NVML. It needs the lock.
func (s *Source) begin(ctx context.Context) (*session, error) {
	lib, err := s.library()
	if err != nil {
		return nil, err
	}
	share, err := s.share()
	if err != nil {
		return nil, fmt.Errorf("initialise NVML: %w", err)
	}
	present := procGPUs(s.cfg.ProcRoot)
	if ret := lib.api.Init(); ret != gonvml.SUCCESS {
		return nil, errors.Join(s.initError(lib, ret), share.Release())
	}
	// The session outlives the call that begins it.
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	sess := &session{
		lib: lib, procRoot: s.cfg.ProcRoot, sysRoot: s.cfg.SysRoot, present: present,
		share: share, cancel: cancel, done: ctx.Done(), down: make(chan struct{}), log: s.cfg.Log,
		cause: func() error { return context.Cause(ctx) },
	}
	if share != nil {
		s.background.Go(func() { s.yield(ctx, sess) })
	}
	return sess, nil
}

// library loads NVML, or returns what is loaded. A library that has been
// replaced on disk cannot be exchanged in this process. It needs the lock.
func (s *Source) library() (*library, error) {
	path, findErr := s.cfg.LibraryPath, error(nil)
	if path == "" {
		path, findErr = s.cfg.DriverRoot.FindLibrary(driverroot.NVML)
	}
	if findErr != nil {
		path = driverroot.NVML
	}
	if s.lib != nil {
		if findErr == nil && s.lib.path != path {
			return nil, fmt.Errorf("initialise NVML: %w: %w: %s is loaded, now there is %s (restart this process)",
				gpu.ErrNoDriver, gpu.ErrDriverChanged, s.lib.path, path)
		}
		return s.lib, nil
	}
	lib, err := load(path, s.calls)
	if err != nil {
		if findErr != nil {
			err = fmt.Errorf("%w, and nowhere else: %w", findErr, err)
		}
		return nil, fmt.Errorf("initialise NVML: %w: %w (install the driver, or set the driver root to where it is; "+
			"a container needs it mounted, as by docker run -v /:/driver-root:ro, or given by NVIDIA's runtime, as by --gpus all)",
			gpu.ErrNoDriver, err)
	}
	s.lib = lib
	return lib, nil
}
