// Package program implements toolkit-gpus, which reads the GPUs of a node through NVML. It
// links C.
package program

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/container-toolkit/internal/gpus"
	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/driverproc"
	"outrigger.dev/pkg/driverroot"
	"outrigger.dev/pkg/gpu/nvml"
	"outrigger.dev/pkg/gpu/nvml/reader"
)

// Main runs toolkit-gpus until it is done or ctx ends. args begins with the name of the program.
// Main returns the exit code.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	cfg := gpus.Config{}
	return cmdline.Exec(ctx, &cli.App{
		Name:   gpus.Program,
		Usage:  "print the GPUs of the node, as NVML shows them, as JSON",
		Writer: stdout, ErrWriter: stderr,
		Flags:  flags(&cfg),
		Action: func(c *cli.Context) error { return show(c.Context, cfg, stdout) },
	}, args)
}

// flags returns the flags that gpus.Config.Command sets, and --timeout.
func flags(c *gpus.Config) []cli.Flag {
	return []cli.Flag{
		&cli.PathFlag{Name: "driver-root", Destination: &c.HostDriverRoot, Value: "/", Usage: "root `FOLDER` of the driver on the host"},
		&cli.PathFlag{Name: "driver-root-ctr-path", Destination: &c.DriverRootCtrPath, Usage: "`FOLDER` at which this process sees the driver root"},
		&cli.PathFlag{Name: "dev-root", Destination: &c.DevRoot, Usage: "`FOLDER` on the host that contains dev/nvidia*"},
		&cli.PathFlag{Name: "proc-root", Destination: &c.ProcRoot, Value: "/proc", Usage: "`FOLDER` at which this process sees /proc of the host"},
		&cli.PathFlag{Name: "sys-root", Destination: &c.SysRoot, Value: "/sys", Usage: "`FOLDER` at which this process sees /sys of the host"},
		&cli.PathFlag{Name: "run-root", Destination: &c.RunRoot, Value: "/run/nvidia", Usage: "`FOLDER` in which the agents of a node share files"},
		&cli.PathFlag{Name: "index-dir", Destination: &c.IndexDir, Usage: "`FOLDER` in which the agents of a node remember over a reboot which GPU each index names"},
		&cli.DurationFlag{Name: "timeout", Destination: &c.Timeout, Value: gpus.Timeout, Usage: "`TIME` after which to give up"},
	}
}

// show prints the GPUs as one line of JSON. It does not close the source, because a call that
// hangs would block Close. The end of the process releases everything.
func show(ctx context.Context, cfg gpus.Config, stdout io.Writer) error {
	src, err := source(cfg)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	node, err := src.Snapshot(ctx)
	if err != nil {
		err = fmt.Errorf("read GPUs: %w", err)
		if errors.Is(err, contract.ErrClaimed) {
			return cli.Exit(err, gpus.ClaimedCode)
		}
		return err
	}
	if err := json.NewEncoder(stdout).Encode(node); err != nil {
		return fmt.Errorf("print GPUs: %w", err)
	}
	return nil
}

func source(cfg gpus.Config) (*reader.Reader, error) {
	root, err := driverroot.New(cfg.DriverRoot())
	if err != nil {
		return nil, err
	}
	proc := driverproc.Root(cfg.ProcRoot)
	session := nvml.Config{DriverRoot: root, Proc: proc}
	// On a host without agents, NVML is not shared.
	if info, err := os.Stat(cfg.RunRoot); err == nil && info.IsDir() {
		session.Lease = contract.Dir{Root: cfg.RunRoot, ProcRoot: cfg.ProcRoot}.NVML()
	}
	s, err := nvml.New(session)
	if err != nil {
		return nil, err
	}
	return reader.New(reader.Config{Session: s, Proc: proc, SysRoot: cfg.SysRoot, Pins: cfg.Pins()}), nil
}
