package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/text"
	"outrigger.dev/pkg/version"
)

// commands returns the commands of every agent: version, probe, snapshot for agents with GPUs, and
// wait for agents with a run root. An App without New only has version.
func (s *session) commands() []*cli.Command {
	cmds := []*cli.Command{{
		Name:   "version",
		Usage:  "print name, version, Go version and platform",
		Action: s.version,
	}}
	if s.app.New == nil {
		return cmds
	}
	cmds = append(cmds, s.probeCommand())
	if s.app.Source != nil {
		cmds = append(cmds, &cli.Command{
			Name:   "snapshot",
			Usage:  "print the GPUs of the node as JSON",
			Action: s.snapshot,
		})
	}
	if s.app.Host != nil {
		cmds = append(cmds, s.waitCommand())
	}
	return cmds
}

func (s *session) waitCommand() *cli.Command {
	return &cli.Command{
		Name:  "wait",
		Usage: "wait until a fact about the node holds, for example driver-ready",
		Flags: []cli.Flag{
			cmdline.Enum(&cli.StringFlag{
				Name: "for", EnvVars: []string{"WAIT_FOR"}, Destination: &s.fact,
				Usage: "`NAME` of the fact to wait for: " + text.OneOf(contract.Names()),
			}, contract.Names()...),
			cmdline.Check(&cli.DurationFlag{
				Name: "timeout", EnvVars: []string{"WAIT_TIMEOUT"}, Destination: &s.timeout,
				Usage: "`TIME` after which to give up; 0 waits forever",
			}, "a duration of at least 0s", func(d time.Duration) bool { return d >= 0 }),
		},
		Action: s.wait,
	}
}

func (s *session) version(*cli.Context) error {
	_, err := fmt.Fprintln(s.stdout, version.Line(s.app.Name))
	return err
}

func (s *session) snapshot(c *cli.Context) (err error) {
	log := Logger(c)
	src, err := s.app.Source(c, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	node, err := src.Snapshot(c.Context)
	if err != nil {
		return fmt.Errorf("read GPUs: %w", err)
	}
	if node, err = gpu.Linked(c.Context, src, node); err != nil {
		log.Warn("cannot read all links between gpus, printing the others", "err", err)
	}
	enc := json.NewEncoder(s.stdout)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(node); err != nil {
		return fmt.Errorf("print snapshot: %w", err)
	}
	return nil
}

func (s *session) wait(c *cli.Context) error {
	if s.fact == "" {
		return cmdline.Usagef("flag --for: needs a value: %s", text.OneOf(contract.Names()))
	}
	ctx, log, name, timeout := c.Context, Logger(c), contract.Name(s.fact), s.timeout
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	dir := contract.Dir{Root: s.app.Host.RunRoot, ProcRoot: s.app.Host.ProcRoot}
	fact, err := dir.Wait(ctx, name, func(f contract.Fact) {
		log.Info("waiting", "for", name, "state", f.State, "reason", f.Reason)
	})
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("wait for %s: %s: timed out after %s", name, fact.Reason, timeout)
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("wait for %s: %s: interrupted", name, fact.Reason)
	case err != nil:
		return fmt.Errorf("wait for %s: %w", name, err)
	}
	log.Info("ready", "fact", name, "writer", fact.Stamp.Writer)
	return nil
}
