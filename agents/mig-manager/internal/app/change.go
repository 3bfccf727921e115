package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/mig-manager/internal/apply"
	"outrigger.dev/agents/mig-manager/internal/hooks"
	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu/mig"
)

// hookFlags returns the flags for commands that run hooks.
func (o *command) hookFlags() []cli.Flag {
	return []cli.Flag{
		&cli.PathFlag{
			Name: "hooks-file", Aliases: []string{"k"}, EnvVars: []string{"MIG_PARTED_HOOKS_FILE"}, Destination: &o.hooksFile,
			Usage: "`FILE` with hooks: programs that run before and after changes",
		},
		cmdline.Check(&cli.DurationFlag{
			Name: "hook-timeout", EnvVars: []string{"MIG_PARTED_HOOK_TIMEOUT"}, Value: 10 * time.Minute, Destination: &o.hookLimit,
			Usage: "`TIME` limit of a hook, which then is killed and fails; 0 for no limit",
		}, "a duration of at least 0", func(d time.Duration) bool { return d >= 0 }),
	}
}

// runner returns a Runner for the hooks file that the flags name. env has the variables for hooks.
func (o *command) runner(log *slog.Logger, env map[string]string) (hooks.Runner, error) {
	r := hooks.Runner{Env: env, Limit: o.hookLimit, Log: log}
	env["MIG_PARTED_HOOKS_FILE"] = o.hooksFile
	env["MIG_PARTED_MODE_CHANGE_ONLY"] = strconv.FormatBool(o.modeOnly)
	if o.hooksFile == "" {
		return r, nil
	}
	var err error
	if r.File, err = hooks.ReadFile(o.hooksFile); err != nil {
		return r, fmt.Errorf("flag --hooks-file: %w", err)
	}
	return r, nil
}

// change is a change of the node's MIG layouts, with hooks before and after it.
type change struct {
	command *command
	node    *node
	hooks   hooks.Runner
	// request returns the request for the GPUs of the node. leftOut has errors of GPUs that are not part of
	// the request. The other GPUs are changed nevertheless.
	request func([]mig.GPU) (req apply.Request, leftOut, err error)
	// done is printed after a success.
	done string
	log  *slog.Logger
}

// run runs the hooks that the flags name, and changes the node. Each hook gets the variables env.
func (ch change) run(c *cli.Context, env map[string]string) (err error) {
	if ch.hooks, err = ch.command.runner(ch.log, env); err != nil {
		return err
	}
	return ch.command.onNode(ch.log, func(n *node) error {
		ch.node = n
		if err := ch.execute(c.Context); err != nil {
			return err
		}
		return printLine(c, ch.done)
	})
}

// execute makes the change. The hooks run in mig-parted's order. The mode and the layout change
// together after both hooks, because a GPU must end with the old or the new values of both.
func (ch change) execute(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, ch.hooks.Run(ctx, hooks.ApplyExit)) }()
	if err := ch.hooks.Run(ctx, hooks.ApplyStart); err != nil {
		return err
	}
	seen, err := ch.node.Observe(ctx)
	if err != nil {
		return err
	}
	req, leftOut, err := ch.request(seen.GPUs())
	if err != nil {
		return err
	}
	req.Seen, req.ModeOnly = seen, ch.command.modeOnly
	switch err := ch.recover(ctx, req); {
	case errors.Is(err, contract.ErrClaimed):
		return err
	case err != nil:
		ch.log.Warn("cannot recover from an interrupted change of mig layouts, continuing with this change", "err", err)
	}
	p, err := ch.node.Plan(ctx, req)
	if err != nil {
		return err
	}
	leftOut = errors.Join(waiting(p, req), p.Err(), leftOut)
	if !p.Needed() {
		return leftOut
	}
	if err := ch.node.makeRunRoot(); err != nil {
		return err
	}
	mode := func(c apply.Change) bool { return c.Mode || c.Reset }
	if slices.ContainsFunc(p.GPUs, mode) {
		if err := ch.hooks.Run(ctx, hooks.PreApplyMode); err != nil {
			return err
		}
	}
	// A change of the mode removes all instances. The layout then changes only if instances are desired.
	layout := func(c apply.Change) bool {
		return len(c.Steps) > 0 && (!mode(c) || len(c.Target.Layout) > 0)
	}
	if !req.ModeOnly && slices.ContainsFunc(p.GPUs, layout) {
		if err := ch.hooks.Run(ctx, hooks.PreApplyConfig); err != nil {
			return err
		}
	}
	_, err = ch.node.Apply(ctx, req)
	return errors.Join(err, leftOut)
}

// recover finishes an interrupted change. If the change needed a reboot, the run root does not exist.
func (ch change) recover(ctx context.Context, req apply.Request) error {
	_, err := ch.node.Recover(ctx, req)
	if !errors.Is(err, contract.ErrNoRunRoot) {
		return err
	}
	if err := ch.node.makeRunRoot(); err != nil {
		return err
	}
	_, err = ch.node.Recover(ctx, req)
	return err
}

// makeRunRoot creates the run root, which does not exist after a boot of a host without other agents.
// Agents that start later use the lease in it.
func (n *node) makeRunRoot() error {
	if err := os.MkdirAll(n.runRoot, 0o755); err != nil {
		return fmt.Errorf("create run root %s, for the lease on NVML: %w", n.runRoot, err)
	}
	return nil
}

// waiting returns an error for each GPU that gets no MIG devices because the request skips a reset.
func waiting(p apply.Plan, req apply.Request) error {
	var errs []error
	for _, c := range p.GPUs {
		if req.SkipReset && !req.ModeOnly && c.Target.Enabled != c.Target.Pending && len(req.Desired[c.GPU.UUID].Devices) > 0 {
			errs = append(errs, fmt.Errorf("GPU %d has no MIG devices yet, because its MIG mode turns on at the next reset and --skip-reset is set: reset the GPU, then apply the config again", c.GPU.Index))
		}
	}
	return errors.Join(errs...)
}
