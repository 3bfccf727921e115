package engine

import (
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

// Diff returns the changes as a unified diff. A file that does not exist is /dev/null.
func (p Plan) Diff() string {
	var b strings.Builder
	for _, c := range p.Changes {
		from, to := c.Path, c.Path
		if c.Before == nil {
			from = "/dev/null"
		}
		if c.After == nil {
			to = "/dev/null"
		}
		b.WriteString(udiff.Unified(from, to, string(c.Before), string(c.After)))
	}
	return b.String()
}

// Advice returns the command that makes the engine load its config, for a person to run.
func (p Plan) Advice() string {
	verb := "restart"
	if p.Engine == Docker {
		verb = "reload"
	}
	return "systemctl " + verb + " " + strings.TrimSuffix(p.target.unit, ".service")
}
