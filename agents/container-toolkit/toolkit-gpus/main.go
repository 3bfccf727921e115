// Toolkit-gpus reads the GPUs of the node through NVML and prints them as JSON, for the
// static programs of the container toolkit. It is a process of its own, so that a crash
// or a hang of the driver's library costs this process alone.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/container-toolkit/internal/gpus"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/driverproc"
	"outrigger.dev/pkg/driverroot"
	"outrigger.dev/pkg/gpu/nvml"
	"outrigger.dev/pkg/gpu/nvml/reader"
	"outrigger.dev/pkg/program"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := app(os.Stdin, os.Stdout, os.Stderr).RunContext(ctx, os.Args)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func app(stdin io.Reader, stdout, stderr io.Writer) *cli.App {
	return program.Prepare(&cli.App{
		Name:            gpus.Program,
		Usage:           "print the GPUs of the node, as NVML shows them, as JSON",
		HideHelpCommand: true,
		Writer:          stdout,
		ErrWriter:       stderr,
		Flags: append(
			gpus.Flags(),
			&cli.DurationFlag{Name: "timeout", Value: gpus.Timeout, Usage: "`TIME` after which to give up, without --watch"},
			&cli.BoolFlag{Name: "watch", Usage: "print the GPUs again after each change, until stdin is closed"},
		),
		Action: func(c *cli.Context) error { return run(c, stdin, stdout) },
	})
}

func run(c *cli.Context, stdin io.Reader, stdout io.Writer) error {
	src, err := source(gpus.ConfigOf(c))
	if err != nil {
		return err
	}
	if c.Bool("watch") {
		ctx, cancel := context.WithCancel(c.Context)
		defer cancel()
		go func() {
			defer cancel()
			_, _ = io.Copy(io.Discard, stdin)
		}()
		// A call that hangs would hold Close up, and the end of the process frees all.
		return watch(ctx, src, stdout)
	}
	ctx, cancel := context.WithTimeout(c.Context, c.Duration("timeout"))
	defer cancel()
	return show(ctx, src, stdout)
}

func source(cfg gpus.Config) (*reader.Reader, error) {
	root, err := driverroot.New(cfg.DriverRoot())
	if err != nil {
		return nil, err
	}
	proc := driverproc.Root(cfg.ProcRoot)
	session := nvml.Config{DriverRoot: root, Proc: proc}
	// On a host without agents there is nobody to share NVML with.
	if info, err := os.Stat(cfg.RunRoot); err == nil && info.IsDir() {
		session.Lease = contract.Dir{Root: cfg.RunRoot, ProcRoot: cfg.ProcRoot}.NVML()
	}
	s, err := nvml.New(session)
	if err != nil {
		return nil, err
	}
	return reader.New(reader.Config{Session: s, Proc: proc, SysRoot: cfg.SysRoot}), nil
}
