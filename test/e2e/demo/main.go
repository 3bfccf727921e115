// Command demo shows the whole path on one machine: a real Kubernetes, a node
// with simulated GPUs, the agents installed by their charts, and a pod
// that asks for one GPU and adds two vectors on it. The cluster stays up.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/program"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := app().RunContext(ctx, os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		stop()
		os.Exit(1)
	}
}

func app() *cli.App {
	return program.Prepare(&cli.App{
		Name:  "demo",
		Usage: "show a GPU pod on a real Kubernetes with simulated GPUs, on a cluster that stays up",
		Action: func(c *cli.Context) error {
			if err := demo(c.Context, c.App.Writer); err != nil {
				return fmt.Errorf("%w\nStart afresh:  make demo-down && make demo", err)
			}
			return nil
		},
	})
}
