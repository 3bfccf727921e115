package agent_test

import (
	"github.com/urfave/cli/v2"
)

// brokenFlags are flags that CheckFlags rejects.
func brokenFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "no-variable"},
		&cli.StringFlag{Name: "other-words", EnvVars: []string{"SOMETHING_ELSE"}},
		&cli.StringFlag{Name: "part", EnvVars: []string{"PARTIAL"}},
		&cli.StringFlag{Name: "two-names", Aliases: []string{"second"}, EnvVars: []string{"TWO_NAMES"}},
		&cli.StringFlag{Name: "must-be", Required: true, EnvVars: []string{"MUST_BE"}},
		&cli.StringFlag{Name: "replicas", EnvVars: []string{"REPLICAS"}},
	}
}
