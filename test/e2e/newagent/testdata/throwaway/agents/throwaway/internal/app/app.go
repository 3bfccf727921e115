// Package app wires the agent that does nothing.
package app

import (
	"context"
	"log/slog"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/agent"
)

// App describes the agent.
func App() agent.App {
	return agent.App{
		Name:   "throwaway",
		Usage:  "waits for its end",
		Listen: ":9499",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "node-name", EnvVars: []string{"NODE_NAME"}, Usage: "name of the `NODE`"},
			&cli.StringFlag{Name: "sys-root", EnvVars: []string{"SYS_ROOT"}, Usage: "`FOLDER` of the node's /sys"},
		},
		New: func(*cli.Context, *slog.Logger) (*agent.Agent, error) {
			return &agent.Agent{Parts: []agent.Part{{Name: "wait", Run: wait}}}, nil
		},
	}
}

func wait(ctx context.Context) error {
	<-ctx.Done()
	return nil
}
