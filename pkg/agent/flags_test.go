package agent_test

import (
	"github.com/urfave/cli/v2"
)

// brokenFlags are flags that CheckFlags refuses.
func brokenFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "no-variable"},
		&cli.StringFlag{Name: "other-words", EnvVars: []string{"SOMETHING_ELSE"}},
		&cli.StringFlag{Name: "part", EnvVars: []string{"PARTIAL"}},
		&cli.StringFlag{Name: "replicas", EnvVars: []string{"REPLICAS"}},
	}
}
