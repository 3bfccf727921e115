package agent

import (
	"strings"

	"github.com/urfave/cli/v2"
)

// Words returns the words of a list flag, without blank ones, so that an empty
// variable is an empty list. It returns nil if neither the command line nor the
// environment sets the flag.
func Words(c *cli.Context, flag string) []string {
	if !c.IsSet(flag) {
		return nil
	}
	out := []string{}
	for _, v := range c.StringSlice(flag) {
		if v = strings.TrimSpace(v); v != "" {
			out = append(out, v)
		}
	}
	return out
}
