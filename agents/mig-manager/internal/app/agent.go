package app

import (
	"errors"
	"log/slog"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/agent"
)

// agentFlags are those of the agent alone.
func agentFlags() []cli.Flag { return nil }

func newAgent(*cli.Context, *slog.Logger) (*agent.Agent, error) {
	return nil, errors.New("the agent is not part of this build: name a command, such as apply; see mig-manager --help")
}
