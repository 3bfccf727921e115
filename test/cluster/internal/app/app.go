// Package app implements the command line of cluster.
package app

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/test/cluster/internal/nodeinit"
)

// Main runs the program with its arguments and returns its exit status.
func Main(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return cmdline.Exec(ctx, newApp(), args)
}

func newApp() *cli.App {
	return &cli.App{
		Name:  "cluster",
		Usage: "run a real Kubernetes cluster of one or more nodes on this machine",
		Commands: []*cli.Command{
			upCommand(), downCommand(), statusCommand(),
			kubectlCommand(), execCommand(), loadImageCommand(),
			restartCommand(), stopCommand(), startCommand(), logsCommand(),
			nodeInitCommand(), nodeRestartCommand(),
		},
	}
}

// nodeInitCommand returns the command that "cluster up" runs as the first process of a node.
func nodeInitCommand() *cli.Command {
	return &cli.Command{
		Name:   "node-init",
		Hidden: true,
		Flags:  []cli.Flag{&cli.StringFlag{Name: "dir", Required: true}},
		Action: func(c *cli.Context) error {
			log := slog.New(slog.NewTextHandler(c.App.Writer, nil))
			return nodeinit.Run(c.Context, c.String("dir"), log)
		},
	}
}

// nodeRestartCommand returns the command that the systemctl of a node runs to restart a component.
func nodeRestartCommand() *cli.Command {
	return &cli.Command{
		Name:      "node-restart",
		Hidden:    true,
		ArgsUsage: "COMPONENT",
		Flags:     []cli.Flag{&cli.StringFlag{Name: "dir", Required: true}},
		Action: func(c *cli.Context) error {
			spec, err := nodeinit.Load(c.String("dir"))
			if err != nil {
				return err
			}
			return nodeinit.NewClient(spec).Restart(c.Context, c.Args().First())
		},
	}
}

// ownFolder returns the folder of this program, which also has the other programs.
func ownFolder() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find own program: %w", err)
	}
	return filepath.Dir(path), nil
}
