package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/reconcile"
	"outrigger.dev/pkg/text"
	"outrigger.dev/pkg/version"
)

// stopLimit limits the time between the signal to stop and the end of all parts, unless the App
// sets another limit. It also limits the time of the exit after that.
const stopLimit = 1800 * time.Millisecond

// session is one run of an App.
type session struct {
	app App
	// flags are the flags of the agent. settings holds the values of the flags that every agent
	// has.
	flags    []cli.Flag
	settings settings
	// fact and timeout are the values of the flags of the command wait.
	fact    string
	timeout time.Duration
	stdout  io.Writer
	stderr  io.Writer

	mu sync.Mutex
	// log is set once the flags are parsed.
	log *slog.Logger
	// running holds the parts that have not returned.
	running map[string]bool
	// withdrawing is closed after all parts have ended, when the agent begins to withdraw.
	withdrawing chan struct{}
}

// commandLine returns the App in the form of urfave/cli.
func (s *session) commandLine() *cli.App {
	app := &cli.App{
		Name: s.app.Name, Usage: s.app.Usage, Writer: s.stdout, ErrWriter: s.stderr,
		Description: "Options may precede or follow the command.",
		Flags:       slices.Concat(s.app.Flags, s.settings.logFlags()),
		Commands:    slices.Concat(s.commands(), s.app.Commands),
	}
	if host := s.app.Host; host != nil {
		app.Before = func(*cli.Context) error { host.complete(); return nil }
	}
	if s.app.New != nil {
		app.Description = "Without a command, the agent runs. " + app.Description
		app.Flags = slices.Concat(s.app.Flags, s.settings.listenFlags(s.app), s.settings.tlsFlags(), s.settings.logFlags())
		app.Action = s.run
		for _, cmd := range app.Commands {
			if cmd.Action == nil && len(cmd.Subcommands) == 0 {
				cmd.Action = s.run
			}
		}
	}
	app.Description = cmdline.Describe(app.Description, s.app.Examples...)
	s.flags = app.Flags
	return app
}

func (s *session) exec(ctx context.Context, args []string) int {
	app := s.commandLine()
	ctx = context.WithValue(ctx, settingsKey{}, &s.settings)
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	defer stop()
	done := make(chan error, 1)
	go func() {
		done <- cmdline.Run(ctx, app, args)
	}()
	select {
	case err := <-done:
		return s.report(ctx, err)
	case <-ctx.Done():
	}
	limit := cmp.Or(s.app.StopLimit, stopLimit)
	select {
	case err := <-done:
		return s.report(ctx, err)
	case <-time.After(limit):
		return s.hung(limit)
	case <-s.withdrawing:
	}
	limit = withdrawLimit + stopLimit
	select {
	case err := <-done:
		return s.report(ctx, err)
	case <-time.After(limit):
		return s.hung(limit)
	}
}

// run runs the agent. It is the action of a command line without a command.
func (s *session) run(c *cli.Context) error {
	log := Logger(c)
	at, err := s.settings.endpoint(s.app.Name, log)
	if err != nil {
		return err
	}
	c.Context = reconcile.WithObserver(c.Context, at.loops.observe)
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)

	a, err := s.create(c, at, log)
	if errors.Is(err, context.Canceled) && c.Context.Err() != nil {
		log.Info("stopped")
		return nil
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.log = log
	s.mu.Unlock()
	log.Info("starting", "agent", s.app.Name, "version", version.String(), "config", s.effective(c, a.Effective))
	s.logIgnored(c, log)
	srv, err := at.server(c.Context, a)
	if err != nil {
		return err
	}

	ctx, cancel := context.WithCancel(c.Context)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	s.runPart(g, "http server", func() error { return srv.run(ctx) })
	s.runPart(g, "reload", func() error { return reload(ctx, hup, a, log) })
	g.Go(func() error {
		defer cancel()
		return s.runParts(ctx, a)
	})
	if err = g.Wait(); err == nil {
		log.Info("stopped")
	}
	return err
}

// create makes the agent. It serves the probes of the agent while New waits.
func (s *session) create(c *cli.Context, at endpoint, log *slog.Logger) (*Agent, error) {
	w := &waiting{endpoint: at}
	defer w.end()
	c.Context = w.context(c.Context)
	return s.app.New(c, log)
}

// runPart runs f in the group and records that it runs.
func (s *session) runPart(g *errgroup.Group, name string, f func() error) {
	s.record(name, true)
	g.Go(func() error {
		defer s.record(name, false)
		return f()
	})
}

// during runs f and records that it runs.
func (s *session) during(name string, f func()) {
	s.record(name, true)
	defer s.record(name, false)
	f()
}

func (s *session) record(name string, runs bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running[name] = runs
}

// reload reloads the agent for each signal until ctx ends.
func reload(ctx context.Context, hup <-chan os.Signal, a *Agent, log *slog.Logger) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-hup:
		}
		if a.reload() {
			log.Info("reloaded")
		} else {
			log.Info("ignoring SIGHUP, there is nothing to reload")
		}
	}
}

// report prints the error in one line and returns the exit code. If a signal has ended a command, the line says
// "cancelled".
func (s *session) report(ctx context.Context, err error) int {
	if err == nil {
		return 0
	}
	s.mu.Lock()
	log := s.log
	s.mu.Unlock()
	line := text.OneLine(err)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		line = strings.ReplaceAll(line, context.Canceled.Error(), "cancelled")
	}
	code := cmdline.Code(err, cmp.Or(s.app.UsageCode, 2))
	if log == nil {
		_, _ = fmt.Fprintf(s.stderr, "%s: %s\n", s.app.Name, line)
		return code
	}
	log.Error("stopped with an error", "err", line)
	return code
}

// hung logs the parts that have not returned and the stacks of all goroutines, so that the cause
// can be found after the process has ended.
func (s *session) hung(limit time.Duration) int {
	s.mu.Lock()
	log := s.log
	var parts []string
	for name, on := range s.running {
		if on {
			parts = append(parts, name)
		}
	}
	s.mu.Unlock()
	slices.Sort(parts)
	if log != nil {
		log.Error("not stopped in time, exiting anyway", "limit", limit, "hanging", parts)
	} else {
		_, _ = fmt.Fprintf(s.stderr, "%s: not stopped within %s, exiting anyway\n", s.app.Name, limit)
	}
	stacks := make([]byte, 64<<10)
	_, _ = s.stderr.Write(stacks[:runtime.Stack(stacks, true)])
	return 1
}
