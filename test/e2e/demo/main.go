// Command demo shows the whole stack on one machine: a real Kubernetes, a node with simulated GPUs,
// the agents installed by their charts, and a pod that requests one GPU and adds two vectors on it.
// The cluster keeps running.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/cmdline"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cmdline.Exec(ctx, app(), os.Args)
	stop()
	os.Exit(code)
}

func app() *cli.App {
	return &cli.App{
		Name:  "demo",
		Usage: "show a GPU pod on a real Kubernetes with simulated GPUs, on a cluster that stays up",
		Action: func(c *cli.Context) error {
			if err := demo(c.Context, c.App.Writer); err != nil {
				return fmt.Errorf("%w; start afresh: make demo-down && make demo", err)
			}
			return nil
		},
		Commands: []*cli.Command{{
			Name: "measure", Usage: "install the umbrella chart several times, and print the time until each stage works and a GPU pod has computed",
			Flags: []cli.Flag{
				&cli.IntFlag{Name: "times", EnvVars: []string{"DEMO_TIMES"}, Value: 5, Usage: "`NUMBER` of installations"},
				&cli.PathFlag{Name: "results", EnvVars: []string{"BENCH_RESULTS"}, DefaultText: "none", Usage: "`FOLDER` for a file with the results, as bench writes it"},
			},
			Action: func(c *cli.Context) error {
				times, err := measure(c.Context, c.Int("times"))
				if err != nil {
					return err
				}
				return errors.Join(printTimes(c.App.Writer, times), saveTimes(c.Path("results"), times, time.Now()))
			},
		}},
	}
}
